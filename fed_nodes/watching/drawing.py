"""Messages of inference nodes as small pictures in a file format that browsers read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import Image
from visualization_msgs.msg import MarkerArray

from fed_core.errors import DataError
from fed_core.pictures.boxes import MIN_SCORE, REACH_M, draw_above
from fed_core.pictures.colours import Picture, class_colours, colour_depth, colour_map
from fed_core.types import Array
from fed_nodes.convert.boxes import boxes_from_markers, markers_time_ns
from fed_nodes.convert.images import depth_from_msg, stamp_ns
from fed_nodes.convert.occupancy import occupancy_from_msg

#: Most pixels of a side of a picture.
SIDE_PX = 320
#: Most boxes that are drawn, those of the highest scores.
MAX_BOXES = 300
_NO_POINTS = np.zeros((0, 3), np.float32)


@dataclass(frozen=True)
class Drawing:
    """How the output of one task becomes a picture.

    Attributes:
        what: name of the kind.
        end: topic in the namespace of the inference node.
        form: ROS name of its message.
        message: class of its message.
        draw: returns the picture (H, W, 3) uint8 RGB of a message.
        time_ns: returns the time of a message [ns], below 0 where it has none.
        suffix: file format.
    """

    what: Literal["depth", "boxes", "map"]
    end: str
    form: str
    message: Any
    draw: Callable[[Any], Picture]
    time_ns: Callable[[Any], int]
    suffix: Literal[".jpg", ".png"]

    @property
    def mime(self) -> str:
        """Media type of the file format."""
        return "image/jpeg" if self.suffix == ".jpg" else "image/png"


def encode(picture: Picture, suffix: str) -> bytes:
    """Return a picture (H, W, 3) uint8 RGB as the bytes of a file."""
    done, data = cv2.imencode(suffix, np.ascontiguousarray(picture[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 85])
    if not done:
        raise DataError(f"a picture of {picture.shape[1]}x{picture.shape[0]} pixels cannot be written as {suffix}")
    return bytes(data)


def _shrunk(cells: Array) -> Array:
    """Return every so many pixels of an image (H, W), so that both its sides fit; none is mixed with another."""
    factor = max(1.0, max(cells.shape) / SIDE_PX)
    sides = [max(1, int(side / factor)) for side in cells.shape]
    rows, columns = (((np.arange(n) + 0.5) * side / n).astype(int) for n, side in zip(sides, cells.shape, strict=True))
    return np.asarray(cells[rows[:, None], columns])


def _draw_depth(msg: Image) -> Picture:
    return colour_depth(_shrunk(depth_from_msg(msg)))


def _draw_map(msg: OccupancyGrid) -> Picture:
    return colour_map(_shrunk(occupancy_from_msg(msg)[0]))


def _draw_boxes(msg: MarkerArray) -> Picture:
    """Draw boxes in the colours of their classes; the frame's y axis is up, as ahead of nuScenes' LiDAR."""
    boxes = boxes_from_markers(msg)
    near = (np.abs(boxes.centres[:, :2]) < 2 * REACH_M).all(1) & (np.abs(boxes.sizes) < 2 * REACH_M).all(1)
    boxes = boxes.take(near & (boxes.scores >= MIN_SCORE))
    boxes = boxes.take(np.sort(np.argsort(-boxes.scores, kind="stable")[:MAX_BOXES]))
    sets = [(boxes.take(boxes.labels == label), colour) for label, colour in enumerate(class_colours())]
    return draw_above(_NO_POINTS, sets, SIDE_PX)


def _header_ns(msg: Any) -> int:
    return stamp_ns(msg.header.stamp)


DRAWINGS = (
    Drawing("depth", "depth/image", "sensor_msgs/msg/Image", Image, _draw_depth, _header_ns, ".jpg"),
    Drawing(
        "boxes",
        "detections/markers",
        "visualization_msgs/msg/MarkerArray",
        MarkerArray,
        _draw_boxes,
        markers_time_ns,
        ".png",
    ),
    Drawing("map", "occupancy", "nav_msgs/msg/OccupancyGrid", OccupancyGrid, _draw_map, _header_ns, ".png"),
)
