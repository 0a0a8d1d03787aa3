"""What gives a robot's colour images their depth: a depth camera, a LiDAR, or a second camera."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, PointCloud2

from fed_core.data.projection import depth_of_points
from fed_core.data.stereo import StereoMatcher, depth_of_disparity
from fed_core.types import DepthFrame
from fed_nodes.convert.cameras import intrinsics_of, undistorted
from fed_nodes.convert.clouds import points_from_msg
from fed_nodes.convert.images import frame_from_msgs, rgb_from_msg, stamp_ns
from fed_nodes.convert.stereo import stereo_pair
from fed_nodes.sensing.extrinsics import Extrinsics
from fed_nodes.sensing.sensors import SensorTopic, image_topic

#: Topic names inside the robot's namespace; remap them to your sensors'.
COLOUR = "camera/image_raw"
DEPTH = "camera/depth/image_raw"
INFO = "camera/camera_info"
CLOUD = "lidar/points"
RIGHT = "camera/right/image_raw"
RIGHT_INFO = "camera/right/camera_info"

Infos = tuple[CameraInfo, ...]


class DepthSource(Protocol):
    """Where the depth of a colour image comes from.

    Attributes:
        topic: what is paired with the colour images.
        infos: topics of the cameras that must be known.
    """

    topic: ClassVar[str]
    infos: ClassVar[tuple[str, ...]]

    def subscribe(self, node: Node, use: Callable[[Any], None], profile: QoSProfile) -> SensorTopic:
        """Listen to the topic."""

    def frame(self, colour: Any, partner: Any, infos: Infos) -> DepthFrame:
        """Return the frame of a colour image and its partner; what cannot be used raises ``DataError``."""

    def counts(self) -> dict[str, int]:
        """Return what was left out so far."""

    def close(self) -> None:
        """Stop listening to what else was opened."""


class DepthCamera:
    """Depth images, registered to the colour images.

    Args:
        transport: how they travel.
        rectified: both have no distortion, their camera is P.
    """

    topic: ClassVar[str] = DEPTH
    infos: ClassVar[tuple[str, ...]] = (INFO,)

    def __init__(self, transport: str, *, rectified: bool) -> None:
        self._transport, self._rectified = transport, rectified

    def subscribe(self, node: Node, use: Callable[[Any], None], profile: QoSProfile) -> SensorTopic:
        """Listen to the depth images."""
        return image_topic(node, self.topic, self._transport, use, profile)

    def frame(self, colour: Any, partner: Any, infos: Infos) -> DepthFrame:
        """Return both images as they are."""
        frame = frame_from_msgs(colour, partner, infos[0])
        if not self._rectified:
            return frame
        return replace(frame, intrinsics=intrinsics_of(infos[0], *frame.depth_m.shape, rectified=True))

    def counts(self) -> dict[str, int]:
        """Nothing is left out."""
        return {}

    def close(self) -> None:
        """Nothing else is open."""


class LidarDepth:
    """Clouds, projected into the colour image, whose distortion is taken out.

    Args:
        extrinsics: where the LiDAR sits.
        limits_m: smallest and largest depth that counts.
        rectified: the colour images have no distortion, their camera is P.
    """

    topic: ClassVar[str] = CLOUD
    infos: ClassVar[tuple[str, ...]] = (INFO,)

    def __init__(self, extrinsics: Extrinsics, limits_m: tuple[float, float], *, rectified: bool) -> None:
        self._extrinsics, self._limits_m, self._rectified = extrinsics, limits_m, rectified
        self._without_place = 0
        self._lens: tuple[Any, ...] = ()
        self._mask = np.zeros((0, 0), np.bool_)

    def subscribe(self, node: Node, use: Callable[[Any], None], profile: QoSProfile) -> SensorTopic:
        """Listen to the clouds."""
        return SensorTopic(node, PointCloud2, self.topic, use, profile)

    def frame(self, colour: Any, partner: Any, infos: Infos) -> DepthFrame:
        """Return the image and the depth of the points that its pixels see."""
        points = points_from_msg(partner)
        self._without_place += partner.height * partner.width - len(points)
        to_camera = self._extrinsics.lidar_to_camera(colour.header.frame_id, partner.header.frame_id)
        rgb, intrinsics = undistorted(rgb_from_msg(colour), infos[0], rectified=self._rectified)
        size = rgb.shape[0], rgb.shape[1]
        depth_m = depth_of_points(points[:, :3], to_camera, intrinsics, size, self._limits_m)
        depth_m[~self._seen(size, infos[0])] = np.nan
        return _frame(colour, rgb, depth_m, intrinsics)

    def counts(self) -> dict[str, int]:
        """Return how many points had no finite place."""
        return {"points_without_place": self._without_place}

    def close(self) -> None:
        """Stop listening to frames."""
        self._extrinsics.close()

    def _seen(self, size: tuple[int, int], info: CameraInfo) -> npt.NDArray[np.bool_]:
        """Return which pixels the lens filled: taking distortion out leaves black borders, which have no depth."""
        lens = (size, info.distortion_model, tuple(info.d), info.k.tobytes())
        if lens != self._lens:
            white = np.full(size, 255, np.uint8)
            self._mask = np.asarray(undistorted(white, info, rectified=self._rectified)[0] == 255)
            self._lens = lens
        return self._mask


class StereoDepth:
    """The images of a second camera, right of the first.

    Args:
        transport: how its images travel.
        max_disparity_px: largest disparity that is searched.
        limits_m: smallest and largest depth that counts.
        rectified: the images are rectified already, their cameras are P.
    """

    topic: ClassVar[str] = RIGHT
    infos: ClassVar[tuple[str, ...]] = (INFO, RIGHT_INFO)

    def __init__(
        self, transport: str, max_disparity_px: int, limits_m: tuple[float, float], *, rectified: bool
    ) -> None:
        self._transport, self._limits_m, self._rectified = transport, limits_m, rectified
        self._matcher = StereoMatcher(max_disparity_px)

    def subscribe(self, node: Node, use: Callable[[Any], None], profile: QoSProfile) -> SensorTopic:
        """Listen to the right images."""
        return image_topic(node, self.topic, self._transport, use, profile)

    def frame(self, colour: Any, partner: Any, infos: Infos) -> DepthFrame:
        """Return the left image and its depth."""
        images = rgb_from_msg(colour), rgb_from_msg(partner)
        pair = stereo_pair(*images, (infos[0], infos[1]), rectified=self._rectified)
        disparity_px = self._matcher.disparity(pair.left, pair.right)
        scale = float(pair.intrinsics[0, 0]) * pair.baseline_m
        depth_m = depth_of_disparity(disparity_px, scale, pair.offset_px, self._limits_m)
        return _frame(colour, pair.left, depth_m, pair.intrinsics)

    def counts(self) -> dict[str, int]:
        """Nothing is left out."""
        return {}

    def close(self) -> None:
        """Nothing else is open."""


def _frame(colour: Any, rgb: Any, depth_m: Any, intrinsics: Any) -> DepthFrame:
    return DepthFrame(
        rgb=rgb,
        depth_m=depth_m,
        stamp_ns=stamp_ns(colour.header.stamp),
        intrinsics=intrinsics,
        frame_id=colour.header.frame_id or "camera_optical_frame",
    )
