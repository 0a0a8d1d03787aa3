"""Live depth of one camera: an image in, a depth image of it out."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image

from fed_core.errors import DataError
from fed_nodes import qos
from fed_nodes.convert.images import depth_to_msg, rgb_from_msg
from fed_nodes.frames import COLOUR, INFO
from fed_nodes.streams import Feed, Taken


class DepthStream:
    """Follows :class:`fed_nodes.streams.Stream`.

    Args:
        node: owner of the topics.
    """

    task, takes = "depth", "one camera"

    def __init__(self, node: LifecycleNode) -> None:
        self._node = node
        self._info: CameraInfo | None = None

    def open(self, feed: Feed, sensors: QoSProfile, opened: ExitStack) -> None:
        """Open the topics; ``opened`` closes them."""
        node, self._feed = self._node, feed
        self._depths = node.create_lifecycle_publisher(Image, "depth/image", qos.OUTPUTS)
        self._infos = node.create_lifecycle_publisher(CameraInfo, "depth/camera_info", qos.OUTPUTS)
        for publisher in (self._depths, self._infos):
            opened.callback(node.destroy_publisher, publisher)
        for kind, topic, callback in ((CameraInfo, INFO, self._on_info), (Image, COLOUR, self._on_image)):
            opened.callback(node.destroy_subscription, node.create_subscription(kind, topic, callback, sensors))

    def served(self, network: Any) -> None:
        """Any network will do."""

    def publish(self, taken: Taken, prediction: Any) -> None:
        """Publish depth, (H, W) float32 metres, and its camera."""
        self._depths.publish(depth_to_msg(prediction, taken.header))
        if taken.camera is not None:
            taken.camera.header = taken.header
            self._infos.publish(taken.camera)

    def counts(self) -> Mapping[str, str]:
        """Nothing is dropped here."""
        return {}

    def problem(self) -> str:
        """One image is a whole sample."""
        return ""

    def _on_info(self, msg: CameraInfo) -> None:
        self._info = msg

    def _on_image(self, msg: Image) -> None:
        if not self._feed.wanted():
            return
        try:
            rgb = rgb_from_msg(msg)
        except DataError as err:
            self._feed.drop(f"dropped an image: {err}")
            return
        self._feed.use(Taken(msg.header, rgb, (rgb,), self._info))
