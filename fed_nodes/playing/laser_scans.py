"""What a KITTI recording has beside colour and depth: the points of its LiDAR."""

from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import Transform, TransformStamped, Vector3
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Header

from fed_core.data.readers.kitti_lidar import KittiScans
from fed_core.data.segment import whole_of
from fed_core.data.sequence import DepthSequence
from fed_nodes import qos
from fed_nodes.convert.clouds import points_to_msg
from fed_nodes.convert.images import to_stamp
from fed_nodes.convert.scans import pose_of
from fed_nodes.playing.static_frames import publish_static
from fed_nodes.sensing.depth_sources import CLOUD

#: The LiDAR's frame, as KITTI calls it.
FRAME = "velodyne"


def laser_scans(node: Node, sequence: DepthSequence, *, reliable: bool) -> "LaserScans | None":
    """Return the publisher of the scans of a KITTI recording, or of a part of one; None for others."""
    found = whole_of(sequence, KittiScans)
    return None if found is None else LaserScans(node, *found, reliable=reliable)


class LaserScans:
    """Publishes the points of a recording, with the stamp of the picture.

    Args:
        node: owner of the publisher.
        recording: the whole recording.
        place: index of a frame in it.
        reliable: as the replay's other topics.
    """

    def __init__(self, node: Node, recording: KittiScans, place: Callable[[int], int], *, reliable: bool) -> None:
        self._recording, self._place = recording, place
        profile = qos.SENSORS_RELIABLE if reliable else qos.DRIVERS
        self._points = node.create_publisher(PointCloud2, CLOUD, profile)
        pose = pose_of(np.linalg.inv(recording.camera(place(0)).from_lidar))
        shift = Vector3(x=pose.position.x, y=pose.position.y, z=pose.position.z)
        placed = TransformStamped(
            header=Header(frame_id=FRAME),
            child_frame_id=recording.frame_id,
            transform=Transform(translation=shift, rotation=pose.orientation),
        )
        self._static = publish_static(node, [placed], "the camera")

    def publish(self, index: int, stamp_ns: int) -> None:
        """Publish the scan that belongs to frame ``index`` of the replayed sequence."""
        points = self._recording.points(self._place(index))
        lag = np.zeros((len(points), 1), np.float32)
        self._points.publish(points_to_msg(np.hstack([points, lag]), Header(stamp=to_stamp(stamp_ns), frame_id=FRAME)))
