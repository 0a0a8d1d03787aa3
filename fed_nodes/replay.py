"""Publishes a recording as a robot's sensors would, and a ``clock`` of its own.

Task depth: colour, depth and camera; an M3ED recording also gives its event cameras, see
:mod:`fed_nodes.event_cameras`. Task bev: all cameras of a vehicle and the true map, see :mod:`fed_nodes.rig_publisher`.
Task detection: all cameras, the LiDAR and the true boxes, see :mod:`fed_nodes.scan_publisher`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image

from fed_core.config import check, option
from fed_core.data.samples import TASKS, first_readable, open_samples
from fed_core.errors import ConfigError, DataError
from fed_core.types import DepthFrame
from fed_nodes import params, qos, run
from fed_nodes.convert.images import frame_to_msgs, to_stamp
from fed_nodes.diagnostics import Diagnostics
from fed_nodes.event_cameras import EventCameras, event_cameras
from fed_nodes.frames import COLOUR, DEPTH, INFO
from fed_nodes.rig_publisher import RigPublisher
from fed_nodes.scan_publisher import ScanPublisher
from fed_nodes.timers import steady_timer


@dataclass(frozen=True)
class ReplayConfig:
    """What is replayed and how (``config/replay.yaml``)."""

    task: str = option(
        "depth",
        help="what the recording is for: depth, bev (all cameras), detection (and a LiDAR)",
        choices=TASKS,
    )
    source: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "recording, as in a fleet file, as YAML"})
    source_base: Path = option(Path(), help="folder that relative paths of source start from")
    rate_hz: float = option(10.0, help="frames per second", unit="Hz", low=0.1, high=1000.0)
    reliable: bool = option(False, help="deliver every frame, and wait for a reader before the first one")
    loop: bool = option(False, help="start again at the end")

    def __post_init__(self) -> None:
        check(self)
        if not self.source:
            raise ConfigError("replay needs a source, for example source:='{data: my_bag}'")


class FramePublisher:
    """Publishes frames on a robot's sensor topics and its relative clock."""

    def __init__(self, node: Node, *, reliable: bool) -> None:
        profile = qos.SENSORS_RELIABLE if reliable else qos.SENSORS
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


class ReplayNode(Node):
    """Plays one recording. Parameters: ReplayConfig."""

    def __init__(self) -> None:
        super().__init__("replay")
        self._config = params.load(self, ReplayConfig)
        self._sequence = open_samples(self._config.task, dict(self._config.source), self._config.source_base)
        if len(self._sequence) == 0:
            raise DataError(f"{self._sequence.source} holds no frame")
        first = first_readable(self._sequence) if self._config.task in _OF_VEHICLES else None
        self._publisher: Any = publisher_of(self, self._config.task, first, reliable=self._config.reliable)
        self._events: EventCameras | None = event_cameras(self, self._sequence, reliable=self._config.reliable)
        self._next, self._skipped = 0, 0
        self._timer = steady_timer(self, 1.0 / self._config.rate_hz, self._step)
        self._diagnostics = Diagnostics(self, self._sequence.name, self._health)

    def _step(self) -> None:
        if self._next == 0 and self._config.reliable and self._publisher.readers() == 0:
            self.get_logger().info("waiting for a reader of the sensor topics", throttle_duration_sec=10.0)
            return
        if self._next >= len(self._sequence):
            if not self._config.loop:
                self._timer.cancel()
                self.get_logger().info(
                    f"played {self._next - self._skipped} of {self._next} frames of {self._sequence.name}"
                )
                return
            self._next = 0
        try:
            self._publish(self._next)
        except DataError as err:
            self._skipped += 1
            self.get_logger().warning(f"skipped frame {self._next}: {err}", throttle_duration_sec=1.0)
        self._next += 1

    def _publish(self, index: int) -> None:
        frame = self._sequence[index]
        if self._events is None:
            self._publisher.publish(frame)
            return
        self._publisher.publish(frame, self._events.colour_distortion)
        self._events.publish(index)

    def _health(self) -> tuple[str, str, dict[str, str]]:
        total = len(self._sequence)
        values = {"frame": str(self._next), "frames": str(total), "skipped": str(self._skipped)}
        return "ok", f"{self._sequence.name}: frame {self._next} of {total}", values


def main() -> int:
    """Run the node."""
    return run.main(ReplayNode)


if __name__ == "__main__":
    sys.exit(main())
