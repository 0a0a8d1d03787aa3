"""A robot's pairer and made sensors, over DDS in one process."""

from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_msgs.msg import Header

from fed_core.types import DepthFrame
from fed_nodes import qos
from fed_nodes.convert.clouds import points_to_msg
from fed_nodes.convert.images import colour_to_msg, depth_to_msg, info_to_msg, to_stamp
from fed_nodes.sensing.frames import FrameOptions, pair_frames
from fed_nodes.sensing.sensors import first_problem

START_NS = 1_700_000_000_000_000_000
K = np.array([[8.0, 0.0, 7.5], [0.0, 8.0, 5.5], [0.0, 0.0, 1.0]])
SIZE = (12, 16)
#: A LiDAR with x ahead, y left, z up, where the camera is.
MOUNT = {"position": [0.0, 0.0, 0.0], "rotation": [0.5, -0.5, 0.5, 0.5]}


def header(time_ms: float, frame_id: str = "camera_optical_frame") -> Header:
    return Header(stamp=to_stamp(START_NS + round(time_ms * 1e6)), frame_id=frame_id)


def colour(time_ms: float, value: int = 9, size: tuple[int, int] = SIZE) -> Image:
    return colour_to_msg(np.full((*size, 3), value, np.uint8), header(time_ms))


def depth(time_ms: float, metres: float = 2.0, size: tuple[int, int] = SIZE) -> Image:
    return depth_to_msg(np.full(size, metres, np.float32), header(time_ms))


def info(size: tuple[int, int] = SIZE, **changes: Any) -> CameraInfo:
    msg = info_to_msg(K, *size, header(0))
    for name, value in changes.items():
        setattr(msg, name, value)
    return msg


def cloud(time_ms: float, *points: tuple[float, float, float]) -> PointCloud2:
    rows = np.zeros((len(points), 5), np.float32)
    rows[:, :3] = np.reshape(points, (-1, 3))
    return points_to_msg(rows, header(time_ms, "velodyne"))


class Bench:
    """A robot's pairer and its sensors, in one process."""

    def __init__(self, node: Node, spin: Callable[[Callable[[], bool]], None], options: FrameOptions) -> None:
        self.node, self._spin = node, spin
        self.frames: list[DepthFrame] = []
        self.pairer = pair_frames(node, options, qos.SENSORS_RELIABLE, 0.02, self.frames.append)
        self._publishers: dict[str, Any] = {}

    def send(self, topic: str, msg: Any, until: Callable[[], bool] | None = None) -> None:
        """Publish a message and wait until it was taken, or until something else is so."""
        if topic not in self._publishers:
            publisher = self._publishers[topic] = self.node.create_publisher(type(msg), topic, qos.SENSORS_RELIABLE)
            self._spin(lambda: publisher.get_subscription_count() > 0)
        before = self._received()
        self._publishers[topic].publish(msg)
        self._spin(until or (lambda: self._received() > before))

    def camera(self, time_ms: float, metres: float = 2.0) -> None:
        self.send("camera/image_raw", colour(time_ms))
        self.send("camera/depth/image_raw", depth(time_ms, metres))

    def stamps_ms(self) -> list[float]:
        return [(frame.stamp_ns - START_NS) / 1e6 for frame in self.frames]

    def problem(self) -> str:
        return first_problem(self.pairer.topics)

    def _received(self) -> int:
        return sum(topic.health().received for topic in self.pairer.topics)
