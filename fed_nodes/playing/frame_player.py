"""Plays the frames of a sequence on a robot's sensor topics; what :class:`fed_nodes.replay.ReplayNode` plays."""

from collections.abc import Sequence
from typing import Any

from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image

from fed_core.data.samples import first_readable
from fed_core.errors import DataError
from fed_core.types import DepthFrame
from fed_nodes import qos
from fed_nodes.convert.images import frame_to_msgs, to_stamp
from fed_nodes.playing.event_cameras import EventCameras, event_cameras
from fed_nodes.playing.laser_scans import LaserScans, laser_scans
from fed_nodes.playing.rig_publisher import RigPublisher
from fed_nodes.playing.scan_publisher import ScanPublisher
from fed_nodes.sensing.frames import COLOUR, DEPTH, INFO


class FramePublisher:
    """Publishes frames on a robot's sensor topics and its relative clock."""

    def __init__(self, node: Node, *, reliable: bool) -> None:
        profile = qos.SENSORS_RELIABLE if reliable else qos.DRIVERS
        self._colour = node.create_publisher(Image, COLOUR, profile)
        self._depth = node.create_publisher(Image, DEPTH, profile)
        self._info = node.create_publisher(CameraInfo, INFO, profile)
        self._clock = node.create_publisher(Clock, "clock", qos.SENSORS)

    def readers(self) -> int:
        """Return how many subscribers colour and camera have; depth has none where a network predicts it."""
        return min(publisher.get_subscription_count() for publisher in (self._colour, self._info))

    def publish(self, frame: DepthFrame, distortion: Sequence[float] = ()) -> None:
        """Publish one frame; ``distortion`` (k1, k2, p1, p2, k3) is of its camera, none where it is undistorted."""
        colour, depth, info = frame_to_msgs(frame)
        if distortion:
            info.d = list(distortion)
        self._clock.publish(Clock(clock=to_stamp(frame.stamp_ns)))
        self._info.publish(info)
        self._depth.publish(depth)
        self._colour.publish(colour)


#: Publishers of vehicles, which must see a frame to know what is on board.
_OF_VEHICLES = {"bev": RigPublisher, "detection": ScanPublisher}


def publisher_of(node: Node, task: str, first: Any, *, reliable: bool) -> Any:
    """Return what publishes the frames of a task's recording; ``first`` is one of them."""
    if task in _OF_VEHICLES:
        return _OF_VEHICLES[task](node, first, reliable=reliable)
    return FramePublisher(node, reliable=reliable)


class FramePlayer:
    """Publishes the frames of a sequence one after the other; the next one is read before it is due.

    Args:
        node: owner of the publishers.
        task: what the sequence is for.
        sequence: the frames.
        reliable: deliver every frame.

    Attributes:
        name: of the sequence.
        total: frames.
        position: frames gone through since the start or the last :meth:`rewind`.
        skipped_now: how many of these were broken.
        skipped: broken frames since the start.
    """

    unit = "frame"

    def __init__(self, node: Node, task: str, sequence: Any, *, reliable: bool) -> None:
        self._node, self._sequence = node, sequence
        self.name, self.total = str(sequence.name), len(sequence)
        if not self.total:
            raise DataError(f"{sequence.source} holds no frame")
        first = first_readable(sequence) if task in _OF_VEHICLES else None
        self._publisher: Any = publisher_of(node, task, first, reliable=reliable)
        self._events: EventCameras | None = event_cameras(node, sequence, reliable=reliable)
        self._scans: LaserScans | None = laser_scans(node, sequence, reliable=reliable)
        self.skipped = 0
        self.rewind()

    def readers(self) -> int:
        """Return how many subscribers every sensor topic has at least."""
        return int(self._publisher.readers())

    def rewind(self) -> None:
        """Go to the first frame."""
        self.position, self.skipped_now = 0, 0
        self._ahead: Any = None

    def due_ns(self) -> int | None:
        """Return the time of the next frame that can be read; None at the end."""
        while self._ahead is None:
            if self.position >= self.total:
                return None
            try:
                self._ahead = self._sequence[self.position]
            except DataError as err:
                self._skip(err)
        return int(self._ahead.stamp_ns)

    def play(self) -> None:
        """Publish the next frame; :meth:`due_ns` was asked before."""
        frame, self._ahead = self._ahead, None
        try:
            if self._events is None:
                self._publisher.publish(frame)
            else:
                self._publisher.publish(frame, self._events.colour_distortion)
                self._events.publish(self.position)
            if self._scans is not None:
                self._scans.publish(self.position, frame.stamp_ns)
        except DataError as err:
            self._skip(err)
            return
        self.position += 1

    def _skip(self, err: DataError) -> None:
        self._node.get_logger().warning(f"skipped frame {self.position}: {err}", throttle_duration_sec=1.0)
        self.position += 1
        self.skipped_now += 1
        self.skipped += 1
