"""Publishes frames of a vehicle with several cameras as its sensors would, and the true map beside them."""

from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Quaternion, Transform, TransformStamped, Vector3
from nav_msgs.msg import OccupancyGrid
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.data.opv2v.mounts import names_of, rig_tree
from fed_core.errors import DataError
from fed_core.types import BevFrame
from fed_nodes import qos
from fed_nodes.convert.bev import frame_to_msgs
from fed_nodes.convert.images import to_stamp
from fed_nodes.convert.occupancy import occupancy_to_msg
from fed_nodes.playing.static_frames import publish_static

#: The vehicle's frame, and the topic of the true map in it.
BASE = "base_link"
TRUTH = "truth/occupancy"


class RigPublisher:
    """Publishes frames on ``NAME/image_raw`` and ``NAME/camera_info``, the map on ``truth/occupancy``, the clock.

    Args:
        node: owner of the publishers.
        first: a frame of the recording; it says which cameras there are and where they sit.
        reliable: deliver every frame.
    """

    def __init__(self, node: Node, first: BevFrame, *, reliable: bool) -> None:
        profile = qos.SENSORS_RELIABLE if reliable else qos.DRIVERS
        self._cameras = first.cameras
        self._names = names_of(first.cameras)
        self._pairs = [
            (
                node.create_publisher(Image, f"{name}/image_raw", profile),
                node.create_publisher(CameraInfo, f"{name}/camera_info", profile),
            )
            for name in self._names
        ]
        self._truth = node.create_publisher(OccupancyGrid, TRUTH, profile)
        self._clock = node.create_publisher(Clock, "clock", qos.SENSORS)
        self._static = publish_static(node, rig_transforms(first), "the cameras")

    def readers(self) -> int:
        """Return how many subscribers every camera has; the true map needs none."""
        return min(publisher.get_subscription_count() for pair in self._pairs for publisher in pair)

    def publish(self, frame: BevFrame) -> None:
        """Publish one frame; one with other cameras than the first raises ``DataError``."""
        if frame.cameras != self._cameras:
            told = f"{_listed(frame.cameras)}, the recording's first frame {_listed(self._cameras)}"
            raise DataError(f"a frame of vehicle {frame.vehicle} has cameras {told}")
        self._clock.publish(Clock(clock=to_stamp(frame.stamp_ns)))
        messages = frame_to_msgs(frame, self._names)
        self._truth.publish(true_map(frame))
        for (_, infos), (_, info) in zip(self._pairs, messages, strict=True):
            infos.publish(info)
        for (images, _), (image, _) in zip(self._pairs, messages, strict=True):
            images.publish(image)


def true_map(frame: BevFrame) -> OccupancyGrid:
    """Return where vehicles are: 100, free 0, and -1 where no camera looks."""
    cells = len(frame.mask)
    header = Header(stamp=to_stamp(frame.stamp_ns), frame_id=BASE)
    truth = frame.mask.astype(np.float32)
    return occupancy_to_msg(truth, cells * frame.metres_per_cell, header, frame.known)


def rig_transforms(frame: BevFrame) -> list[TransformStamped]:
    """Return where the optical frame of each camera sits on the vehicle."""
    found = []
    for name, mount in rig_tree(frame).items():
        (x, y, z), (qx, qy, qz, qw) = mount["position"], mount["rotation"]
        place = Transform(translation=Vector3(x=x, y=y, z=z), rotation=Quaternion(x=qx, y=qy, z=qz, w=qw))
        found.append(
            TransformStamped(
                header=Header(stamp=to_stamp(frame.stamp_ns), frame_id=BASE),
                child_frame_id=f"{name}_optical_frame",
                transform=place,
            )
        )
    return found


def _listed(cameras: Sequence[int]) -> str:
    return ", ".join(map(str, cameras))
