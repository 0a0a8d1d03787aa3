"""Sensor topics of a robot: pairs colour, depth and camera into frames."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image

from fed_core.errors import DataError
from fed_core.types import DepthFrame
from fed_nodes.convert.images import frame_from_msgs, stamp_ns

#: Topic names inside the robot's namespace; remap them to your camera's.
COLOUR = "camera/image_raw"
DEPTH = "camera/depth/image_raw"
INFO = "camera/camera_info"

_WAITING = 30  # messages of one topic that wait for their partners


class FramePairer:
    """Calls ``use`` with each complete frame.

    Args:
        node: owner of the subscriptions.
        profile: quality of service of the sensor topics.
        slop_s: largest time between colour and depth.
        use: receives the frames, on the executor's thread.
    """

    def __init__(self, node: Node, profile: QoSProfile, slop_s: float, use: Callable[[DepthFrame], None]) -> None:
        self._node, self._use, self._slop_ns = node, use, round(slop_s * 1e9)
        self._colour: OrderedDict[int, Image] = OrderedDict()
        self._depth: OrderedDict[int, Image] = OrderedDict()
        self._info: CameraInfo | None = None
        self.dropped = 0
        self._subscriptions = [
            node.create_subscription(Image, COLOUR, lambda msg: self._add(self._colour, msg), profile),
            node.create_subscription(Image, DEPTH, lambda msg: self._add(self._depth, msg), profile),
            node.create_subscription(CameraInfo, INFO, self._on_info, profile),
        ]

    def close(self) -> None:
        """Stop listening."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions = []

    def _on_info(self, msg: CameraInfo) -> None:
        self._info = msg
        self._match()

    def _add(self, waiting: "OrderedDict[int, Image]", msg: Image) -> None:
        waiting[stamp_ns(msg.header.stamp)] = msg
        while len(waiting) > _WAITING:
            waiting.popitem(last=False)
            self.dropped += 1
        self._match()

    def _match(self) -> None:
        if self._info is None:
            return
        for time_ns in list(self._colour):
            near = min(self._depth, key=lambda other: abs(other - time_ns), default=None)
            if near is None or abs(near - time_ns) > self._slop_ns:
                continue
            colour, depth = self._colour.pop(time_ns), self._depth.pop(near)
            try:
                frame = frame_from_msgs(colour, depth, self._info)
            except DataError as err:
                self.dropped += 1
                self._node.get_logger().error(f"dropped a frame: {err}", throttle_duration_sec=2.0)
                continue
            self._use(frame)


def sensor_names(node: Node) -> dict[str, Any]:
    """Return the full names of the sensor topics after remapping."""
    return {name: node.resolve_topic_name(name) for name in (COLOUR, DEPTH, INFO)}
