"""What a live stream of a task is to the inference node: samples in, predictions out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from rclpy.qos import QoSProfile
from std_msgs.msg import Header

from fed_core.types import Array
from fed_nodes.sensing.sensors import SensorTopic


@dataclass(frozen=True)
class Taken:
    """A sample as it came from topics.

    Attributes:
        header: its time and frame.
        sample: what the task predicts from.
        pictures: (H, W, 3) uint8 RGB, what the sequence is described by.
        camera: ``CameraInfo`` of an output that is an image; None where there is none.
    """

    header: Header
    sample: Any
    pictures: Sequence[Array]
    camera: Any = None


@dataclass(frozen=True)
class Feed:
    """Where a stream's samples go.

    Attributes:
        wanted: tells whether samples are taken at all.
        use: takes a sample.
        drop: takes the text of why a sample was dropped.
    """

    wanted: Callable[[], bool]
    use: Callable[[Taken], None]
    drop: Callable[[str], None]


class Stream(Protocol):
    """Topics of one task.

    Attributes:
        task: registered name of the task.
        takes: what it takes, for people.
    """

    task: str
    takes: str

    @property
    def topics(self) -> Sequence[SensorTopic]:
        """Sensor topics whose health diagnostics tell."""

    def open(self, feed: Feed, sensors: QoSProfile, opened: ExitStack) -> None:
        """Open the topics; ``opened`` closes them."""

    def served(self, network: Any) -> None:
        """Take notice of the network that serves from now on."""

    def publish(self, taken: Taken, prediction: Any) -> None:
        """Publish a prediction."""

    def counts(self) -> Mapping[str, str]:
        """Return what was dropped, for diagnostics."""

    def problem(self) -> str:
        """Return why no sample comes although something arrives; "" = all is well. Asked once a second."""
