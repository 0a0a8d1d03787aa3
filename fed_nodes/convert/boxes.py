"""3D boxes as ``visualization_msgs/MarkerArray``, and as ``vision_msgs/Detection3DArray`` where that package exists.

Markers hold all of a box, so they can be read back: a cube's namespace is its class, its opacity the score, and an
arrow the velocity; ``text``, which nobody draws on a cube, counts the LiDAR points of a true box.
"""

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point, Pose, PoseWithCovariance, Quaternion, Vector3
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from fed_core.errors import DataError
from fed_core.types import DETECTION_CLASSES, Boxes3D
from fed_nodes.convert.images import stamp_ns

#: Most boxes of a message that are read, and most markers, of which a box has up to three.
MAX_BOXES = 5_000
#: Markers vanish by then where no newer ones come [s].
LIFETIME_S = 2
#: A box of score 0 can still be seen.
_FAINTEST = 0.1
#: Red, green, blue of each class.
_COLOURS = (
    (1.0, 0.62, 0.0),
    (1.0, 0.39, 0.28),
    (0.91, 0.59, 0.48),
    (1.0, 0.27, 0.0),
    (1.0, 0.55, 0.41),
    (0.44, 0.5, 0.56),
    (1.0, 0.24, 0.59),
    (0.86, 0.08, 0.24),
    (0.2, 0.4, 1.0),
    (0.18, 0.56, 0.56),
)


def boxes_to_markers(boxes: Boxes3D, header: Header) -> MarkerArray:
    """Return cubes, their classes with scores, and velocities; the first marker deletes those of before."""
    markers = [Marker(header=header, action=Marker.DELETEALL)]
    for number in range(len(boxes)):
        label = int(boxes.labels[number])
        name, colour = DETECTION_CLASSES[label], _COLOURS[label]
        markers.append(_cube(boxes, number, header))
        if np.isfinite(boxes.velocities[number]).all():
            markers.append(_arrow(boxes, number, header))
        x, y, z = map(float, boxes.centres[number])
        above = Point(x=x, y=y, z=z + float(boxes.sizes[number, 2]) / 2 + 0.5)
        markers.append(
            Marker(
                **_shared(header, f"{name}/score", number),
                type=Marker.TEXT_VIEW_FACING,
                pose=Pose(position=above, orientation=Quaternion(w=1.0)),
                scale=Vector3(z=0.8),
                color=_colour(colour, 1.0),
                text=f"{name} {boxes.scores[number]:.2f}",
            )
        )
    return MarkerArray(markers=markers)


def boxes_from_markers(msg: MarkerArray) -> Boxes3D:
    """Return the boxes of a message that :func:`boxes_to_markers` made, in their order.

    Raises:
        DataError: there are too many, one is of an unknown class, or a number is not finite.
    """
    if len(msg.markers) > 3 * MAX_BOXES + 1:
        raise DataError(f"{len(msg.markers)} markers of boxes; at most {3 * MAX_BOXES + 1} are read")
    cubes = [marker for marker in msg.markers if marker.action == Marker.ADD and marker.type == Marker.CUBE]
    unknown = [cube.ns for cube in cubes if cube.ns not in DETECTION_CLASSES]
    if unknown:
        raise DataError(f"a box is of class {unknown[0][:40]!r}; known: {', '.join(DETECTION_CLASSES)}")
    arrows = {m.id: m.points for m in msg.markers if m.type == Marker.ARROW and len(m.points) == 2}
    ways = [arrows.get(cube.id) for cube in cubes]
    velocities = [(np.nan, np.nan) if way is None else (way[1].x - way[0].x, way[1].y - way[0].y) for way in ways]
    found = Boxes3D(
        centres=_table([(c.pose.position.x, c.pose.position.y, c.pose.position.z) for c in cubes], 3),
        sizes=_table([(c.scale.x, c.scale.y, c.scale.z) for c in cubes], 3),
        yaws=_table([(2.0 * np.arctan2(c.pose.orientation.z, c.pose.orientation.w),) for c in cubes], 1)[:, 0],
        velocities=_table(velocities, 2),
        labels=np.array([DETECTION_CLASSES.index(cube.ns) for cube in cubes], np.int64),
        scores=np.clip((_table([(c.color.a,) for c in cubes], 1)[:, 0] - _FAINTEST) / (1 - _FAINTEST), 0.0, 1.0),
        num_points=np.array([int(c.text) if c.text.isdecimal() and len(c.text) < 10 else 0 for c in cubes], np.int64),
    )
    for what in ("centres", "sizes", "yaws", "scores"):
        if not np.isfinite(getattr(found, what)).all():
            raise DataError(f"a box has {what} that are not finite")
    return found


def markers_time_ns(msg: MarkerArray) -> int:
    """Return the time of a message's boxes in nanoseconds, -1 of one without any marker."""
    return stamp_ns(msg.markers[0].header.stamp) if msg.markers else -1


def vision_messages() -> ModuleType | None:
    """Return ``vision_msgs.msg``, or None where the package is not installed: the wheels of ROS 2 lack it."""
    try:
        return import_module("vision_msgs.msg")
    except ImportError:
        return None


def boxes_to_detections(boxes: Boxes3D, header: Header, messages: Any) -> Any:
    """Return a ``Detection3DArray``; ``messages`` is what :func:`vision_messages` gave. It has no velocities."""
    detections = []
    for number in range(len(boxes)):
        pose = _pose(boxes, number)
        hypothesis = messages.ObjectHypothesis(
            class_id=DETECTION_CLASSES[int(boxes.labels[number])], score=float(boxes.scores[number])
        )
        result = messages.ObjectHypothesisWithPose(hypothesis=hypothesis, pose=PoseWithCovariance(pose=pose))
        box = messages.BoundingBox3D(center=pose, size=_size(boxes, number))
        detections.append(messages.Detection3D(header=header, results=[result], bbox=box))
    return messages.Detection3DArray(header=header, detections=detections)


def _cube(boxes: Boxes3D, number: int, header: Header) -> Marker:
    label, score = int(boxes.labels[number]), float(boxes.scores[number])
    points = int(boxes.num_points[number])
    return Marker(
        **_shared(header, DETECTION_CLASSES[label], number),
        type=Marker.CUBE,
        pose=_pose(boxes, number),
        scale=_size(boxes, number),
        color=_colour(_COLOURS[label], _FAINTEST + (1 - _FAINTEST) * score),
        text=str(points) if points else "",
    )


def _arrow(boxes: Boxes3D, number: int, header: Header) -> Marker:
    x, y, z = map(float, boxes.centres[number])
    vx, vy = map(float, boxes.velocities[number])
    label = int(boxes.labels[number])
    return Marker(
        **_shared(header, f"{DETECTION_CLASSES[label]}/velocity", number),
        type=Marker.ARROW,
        points=[Point(x=x, y=y, z=z), Point(x=x + vx, y=y + vy, z=z)],
        scale=Vector3(x=0.1, y=0.3, z=0.3),
        color=_colour(_COLOURS[label], 1.0),
        pose=Pose(orientation=Quaternion(w=1.0)),
    )


def _shared(header: Header, namespace: str, number: int) -> dict[str, Any]:
    return {
        "header": header,
        "ns": namespace,
        "id": number,
        "action": Marker.ADD,
        "lifetime": Duration(sec=LIFETIME_S),
    }


def _pose(boxes: Boxes3D, number: int) -> Pose:
    (x, y, z), half = boxes.centres[number].tolist(), float(boxes.yaws[number]) / 2
    return Pose(position=Point(x=x, y=y, z=z), orientation=Quaternion(z=float(np.sin(half)), w=float(np.cos(half))))


def _size(boxes: Boxes3D, number: int) -> Vector3:
    length, width, height = map(float, boxes.sizes[number])
    return Vector3(x=length, y=width, z=height)


def _colour(colour: tuple[float, float, float], alpha: float) -> ColorRGBA:
    return ColorRGBA(r=colour[0], g=colour[1], b=colour[2], a=alpha)


def _table(rows: list[Any], columns: int) -> npt.NDArray[np.float64]:
    return np.array(rows, np.float64).reshape(-1, columns)
