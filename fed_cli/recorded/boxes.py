"""Boxes and clouds of a bag as arrays, without ROS."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fed_core.errors import DataError
from fed_core.types import DETECTION_CLASSES, Array

#: ``visualization_msgs/Marker``: type of boxes, action of drawn ones; opacity of a box of score 0.
_CUBE, _ADD, _FAINTEST = 1, 0, 0.1
#: ``sensor_msgs/PointField``: types of floats.
_FLOATS = {7: "f4", 8: "f8"}


@dataclass(frozen=True)
class RecordedBoxes:
    """Boxes of one message.

    Attributes:
        frame_id: their frame.
        rows: (M, 9) float64: centre, length, width, height [m], yaw [rad], class, score.
    """

    frame_id: str
    rows: Array


def boxes_of(msg: Any, min_score: float, *, hit_only: bool = False) -> RecordedBoxes:
    """Return the cubes of a MarkerArray as our nodes publish them: namespace = class, opacity = score.

    Args:
        msg: the message.
        min_score: lower ones are left out.
        hit_only: leave out those that no LiDAR point hits (``text`` counts them), in messages that tell.
    """
    cubes = [m for m in msg.markers if m.type == _CUBE and m.action == _ADD]
    if hit_only and any(cube.text for cube in cubes):
        cubes = [cube for cube in cubes if cube.text]
    rows = []
    for cube in cubes:
        place, q, size = cube.pose.position, cube.pose.orientation, cube.scale
        score = (cube.color.a - _FAINTEST) / (1 - _FAINTEST)
        label = DETECTION_CLASSES.index(cube.ns) if cube.ns in DETECTION_CLASSES else len(DETECTION_CLASSES)
        yaw = np.arctan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))
        row = (place.x, place.y, place.z, size.x, size.y, size.z, yaw, label, score)
        if score >= min_score and np.isfinite(row).all():
            rows.append(row)
    frame_id = msg.markers[0].header.frame_id if msg.markers else ""
    return RecordedBoxes(frame_id, np.array(rows, np.float64).reshape(-1, 9))


def points_of(msg: Any) -> Array:
    """Return the finite points (N, 3) float64 [m] of a PointCloud2."""
    fields = {field.name: field for field in msg.fields}
    if not {"x", "y", "z"} <= set(fields):
        raise DataError(f"a cloud has no x, y and z; its fields: {', '.join(fields) or 'none'}")
    kinds = {fields[name].datatype for name in "xyz"}
    size = msg.width * msg.height * msg.point_step
    if not kinds <= set(_FLOATS) or len(msg.data) < size or not msg.point_step:
        raise DataError("a cloud has coordinates that are no floats, or less data than it says")
    order = ">" if msg.is_bigendian else "<"
    form = np.dtype(
        {
            "names": list("xyz"),
            "formats": [order + _FLOATS[fields[name].datatype] for name in "xyz"],
            "offsets": [fields[name].offset for name in "xyz"],
            "itemsize": msg.point_step,
        }
    )
    table = np.frombuffer(np.asarray(msg.data, np.uint8)[:size].tobytes(), form)
    points = np.stack([table[name].astype(np.float64) for name in "xyz"], 1)
    return points[np.isfinite(points).all(1)]
