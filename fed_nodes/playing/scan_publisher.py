"""Publishes frames of a vehicle with cameras and LiDAR as its sensors would, and the true boxes beside them."""

import numpy as np
from geometry_msgs.msg import Transform, TransformStamped, Vector3
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from fed_core.data.nuscenes.tables import LIDAR
from fed_core.errors import DataError
from fed_core.types import DetectionFrame
from fed_nodes import qos
from fed_nodes.convert.boxes import boxes_to_markers
from fed_nodes.convert.images import to_stamp
from fed_nodes.convert.scans import Floats, cloud_to_msg, images_to_msgs, odometry_to_msg, pose_of
from fed_nodes.playing.static_frames import publish_static

#: The vehicle's frame, the map's, and the LiDAR's.
BASE, MAP, LIDAR_FRAME = "base_link", "map", "lidar_top"
#: Topics of the true boxes in the LiDAR's frame, and of where the vehicle is in the map.
TRUTH, ODOMETRY = "truth/boxes", "odometry"


class ScanPublisher:
    """Publishes ``NAME/image_raw``, ``NAME/camera_info``, ``LIDAR_TOP/points``, truth, odometry and the clock.

    Args:
        node: owner of the publishers.
        first: a frame of the recording; it says which sensors there are and where they sit.
        reliable: deliver every frame.
    """

    def __init__(self, node: Node, first: DetectionFrame, *, reliable: bool) -> None:
        profile = qos.SENSORS_RELIABLE if reliable else qos.DRIVERS
        self._names = first.cameras
        self._images = [node.create_publisher(Image, f"{name}/image_raw", profile) for name in self._names]
        self._infos = [node.create_publisher(CameraInfo, f"{name}/camera_info", profile) for name in self._names]
        self._cloud = node.create_publisher(PointCloud2, f"{LIDAR}/points", profile)
        self._truth = node.create_publisher(MarkerArray, TRUTH, profile)
        self._odometry = node.create_publisher(Odometry, ODOMETRY, profile)
        self._clock = node.create_publisher(Clock, "clock", qos.SENSORS)
        self._static = publish_static(node, scan_transforms(first), "the sensors")

    def readers(self) -> int:
        """Return how many subscribers every sensor has; the true boxes need none."""
        return min(p.get_subscription_count() for p in (*self._images, *self._infos, self._cloud))

    def publish(self, frame: DetectionFrame) -> None:
        """Publish one frame; one with other cameras than the first raises ``DataError``."""
        if frame.cameras != self._names:
            told = f"{', '.join(frame.cameras)}, the recording's first frame {', '.join(self._names)}"
            raise DataError(f"frame {frame.token} has cameras {told}")
        messages = images_to_msgs(frame)
        self._clock.publish(Clock(clock=to_stamp(frame.stamp_ns)))
        self._truth.publish(boxes_to_markers(frame.boxes, Header(stamp=to_stamp(frame.stamp_ns), frame_id=LIDAR_FRAME)))
        self._odometry.publish(odometry_to_msg(frame, MAP, BASE))
        for publisher, (_, info) in zip(self._infos, messages, strict=True):
            publisher.publish(info)
        for publisher, (image, _) in zip(self._images, messages, strict=True):
            publisher.publish(image)
        self._cloud.publish(cloud_to_msg(frame, LIDAR_FRAME))


def scan_transforms(frame: DetectionFrame) -> list[TransformStamped]:
    """Return where the LiDAR and the optical frame of each camera sit on the vehicle."""
    placed: dict[str, Floats] = {LIDAR_FRAME: frame.lidar_to_ego}
    for name, to_camera in zip(frame.cameras, frame.lidar_to_camera, strict=True):
        placed[f"{name}_optical_frame"] = frame.lidar_to_ego @ np.linalg.inv(to_camera)
    header = Header(stamp=to_stamp(frame.stamp_ns), frame_id=BASE)
    found = []
    for child, matrix in placed.items():
        pose = pose_of(matrix)
        place = Vector3(x=pose.position.x, y=pose.position.y, z=pose.position.z)
        transform = Transform(translation=place, rotation=pose.orientation)
        found.append(TransformStamped(header=header, child_frame_id=child, transform=transform))
    return found
