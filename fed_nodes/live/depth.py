"""Live depth of one camera: an image in, a depth image of it out, on request a cloud too."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, PointCloud2

from fed_core.errors import DataError
from fed_nodes import qos
from fed_nodes.convert.cameras import intrinsics_of, undistorted
from fed_nodes.convert.depth_clouds import depth_to_cloud, rays_of
from fed_nodes.convert.images import depth_to_msg, info_to_msg, rgb_from_msg
from fed_nodes.live.streams import Feed, Taken
from fed_nodes.sensing.frames import COLOUR, INFO
from fed_nodes.sensing.sensors import RAW, SensorTopic, first_problem, image_topic

#: Topics of the depth image, its camera, and the cloud.
DEPTH, DEPTH_INFO, POINTS = "depth/image", "depth/camera_info", "depth/points"

#: The first ``CameraInfo`` may come this long after the first image before that is a problem [s].
_INFO_S = 5.0


class DepthStream:
    """Follows :class:`fed_nodes.live.streams.Stream`.

    Depth needs no camera; what does (``camera_info`` of the depth, the cloud) is left out where the camera's
    ``CameraInfo`` is absent or cannot be that of the image. With ``undistort`` such an image is dropped.

    Args:
        node: owner of the topics.
        transport: how images travel (:mod:`fed_nodes.sensing.sensors`).
        cloud: publish depth as a cloud, too.
        rectified: images are rectified already.
        undistort: take the lens's distortion out of images first; depth is then that of a camera without one.
    """

    task, takes = "depth", "one camera"

    def __init__(
        self,
        node: LifecycleNode,
        transport: str = RAW,
        *,
        cloud: bool = False,
        rectified: bool = False,
        undistort: bool = False,
    ) -> None:
        self._node, self._transport, self._cloud, self._rectified = node, transport, cloud, rectified
        self._undistort = undistort
        self._info: CameraInfo | None = None
        self._no_camera = self._no_cloud = ""
        self._first_s = float("inf")
        self._points: Any = None
        self.topics: Sequence[SensorTopic] = ()

    def open(self, feed: Feed, sensors: QoSProfile, opened: ExitStack) -> None:
        """Open the topics; ``opened`` closes them."""
        node, self._feed = self._node, feed
        self._depths = node.create_lifecycle_publisher(Image, DEPTH, qos.OUTPUTS)
        self._infos = node.create_lifecycle_publisher(CameraInfo, DEPTH_INFO, qos.OUTPUTS)
        if self._cloud:
            self._points = node.create_lifecycle_publisher(PointCloud2, POINTS, qos.OUTPUTS)
            opened.callback(node.destroy_publisher, self._points)
        for publisher in (self._depths, self._infos):
            opened.callback(node.destroy_publisher, publisher)
        self._images = image_topic(node, COLOUR, self._transport, self._on_image, sensors)
        self.topics = (self._images, SensorTopic(node, CameraInfo, INFO, self._on_info, sensors))
        for topic in self.topics:
            opened.callback(topic.close)

    def served(self, network: Any) -> None:
        """Any network will do."""

    def publish(self, taken: Taken, prediction: Any) -> None:
        """Publish depth, (H, W) float32 metres, its camera and its cloud."""
        self._depths.publish(depth_to_msg(prediction, taken.header))
        if taken.camera is None:
            return
        taken.camera.header = taken.header
        self._infos.publish(taken.camera)
        if self._points is not None and self._points.get_subscription_count():
            self._publish_cloud(taken, prediction)

    def counts(self) -> Mapping[str, str]:
        """Drops are those of the topic."""
        return {}

    def problem(self) -> str:
        """Return what is wrong with images, camera or cloud."""
        images, infos = self.topics[:1], self.topics[1:]
        is_late = self._info is not None or time.monotonic() - self._first_s > _INFO_S
        no_camera = self._no_camera if is_late else ""
        return first_problem(images) or no_camera or self._no_cloud or first_problem(infos)

    def _on_info(self, msg: CameraInfo) -> None:
        self._info = msg

    def _on_image(self, msg: Image | CompressedImage) -> None:
        if not self._feed.wanted():
            return
        self._first_s = min(self._first_s, time.monotonic())
        rgb = rgb_from_msg(msg)
        if self._undistort:  # an error drops the image, with its text
            rgb, matrix = undistorted(rgb, self._info)
            height, width = rgb.shape[:2]
            camera = info_to_msg(matrix, height, width, msg.header)
        else:
            camera = self._camera(*rgb.shape[:2])
        self._feed.use(Taken(msg.header, rgb, (rgb,), camera))

    def _camera(self, height: int, width: int) -> CameraInfo | None:
        """Return the camera of an image; None where there is none that fits, then diagnostics tell why."""
        left_out = "camera_info and points" if self._cloud else "camera_info"
        try:
            intrinsics_of(self._info, height, width, rectified=self._rectified)
        except DataError as err:
            self._no_camera = f"depth is published without {left_out}: {err}"
            return None
        self._no_camera = ""
        return self._info

    def _publish_cloud(self, taken: Taken, depth_m: Any) -> None:
        try:
            rays = rays_of(taken.camera, *depth_m.shape, rectified=self._rectified)
        except DataError as err:
            self._no_cloud = f"depth is published without points: {err}"
            return
        self._no_cloud = ""
        self._points.publish(depth_to_cloud(depth_m, taken.sample, rays, taken.header))
