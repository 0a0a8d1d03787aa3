"""Sensor topics and how well they are: rates, ages, drops, odd stamps, a second publisher, a camera that stops.

Health is told by the machine's steady clock, whatever ``use_sim_time`` says; only stamps are compared with the node's.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from fed_core.errors import ConfigError, FedError
from fed_nodes.convert.images import stamp_ns

#: How images travel, in the words of image_transport.
RAW, COMPRESSED, COMPRESSED_DEPTH = "raw", "compressed", "compressedDepth"
TRANSPORTS = (RAW, COMPRESSED, COMPRESSED_DEPTH)

#: Stamps may be this much ahead of the node's clock [s].
FUTURE_S = 1.0
#: What was wrong with a message is shown for this long [s].
SHOWN_S = 5.0

_FIRST_S = 5.0  # publishers and subscriptions take this long to find each other, on a slow machine
_RATE_S = 5.0  # rates are of the messages of this long
_RATE_MESSAGES = 512  # and of at most so many
_LOG_EVERY_S = 2.0


@dataclass(frozen=True)
class TopicHealth:
    """How a topic does.

    Attributes:
        received: messages so far.
        dropped: messages that nobody could use.
        rate_hz: messages per second of late; 0 = they stopped.
        age_s: seconds since the last message; inf = there was none.
        publishers: how many nodes publish it.
        problem: a line for people; "" = it does well.
    """

    received: int
    dropped: int
    rate_hz: float
    age_s: float
    publishers: int
    problem: str


class SensorTopic:
    """One subscription of a sensor and its health.

    Messages with a stamp of zero are refused: nobody knows what they belong to. Stamps ahead of the node's clock, and
    such that go back (a replay starts again), are used and told. A ``CameraInfo`` may be said once, without a stamp.

    Args:
        node: owner of the subscription.
        kind: message type.
        topic: name, which remaps change.
        use: takes the messages that can be used; a ``FedError`` of it drops the message.
        profile: quality of service.
        stale_s: silence of this long is a problem.

    Attributes:
        name: the topic's full name.
        stepped_back: times that a stamp was older than the one before.
    """

    def __init__(
        self,
        node: Node,
        kind: type[Any],
        topic: str,
        use: Callable[[Any], None],
        profile: QoSProfile,
        *,
        stale_s: float = 2.0,
    ) -> None:
        self._node, self._use, self._profile, self._stale_s = node, use, profile, stale_s
        self._type = f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"
        self._lasting = kind is CameraInfo
        # Diagnostics and the threads that predict may look on or drop while the executor takes messages.
        self._lock = threading.Lock()
        self._arrivals: deque[float] = deque(maxlen=_RATE_MESSAGES)
        self._received = self._dropped = self.stepped_back = 0
        self._stamp_ns, self._opened_s = -1, time.monotonic()
        self._shown: tuple[float, str] = (-math.inf, "")
        self._logged_s = -math.inf
        self._subscription: Any = node.create_subscription(kind, topic, self._on_message, profile)
        self.name: str = self._subscription.topic_name

    def drop(self, why: str) -> None:
        """Count a message that the caller could not use and say why; from any thread."""
        with self._lock:
            self._dropped += 1
        self._tell(why)

    def health(self) -> TopicHealth:
        """Return how the topic does now."""
        now_s = time.monotonic()
        with self._lock:
            received, dropped, shown = self._received, self._dropped, self._shown
            arrivals = [time_s for time_s in self._arrivals if now_s - time_s <= _RATE_S]
            age_s = now_s - self._arrivals[-1] if self._arrivals else math.inf
        stopped = not self._lasting and age_s > self._stale_s
        span_s = arrivals[-1] - arrivals[0] if arrivals else 0.0
        rate_hz = (len(arrivals) - 1) / span_s if span_s > 0 and not stopped else 0.0
        publishers = self._node.count_publishers(self.name) if self._subscription is not None else 0
        problem = ""
        if not received:
            problem = self._why_silent(publishers) if now_s - self._opened_s > max(_FIRST_S, self._stale_s) else ""
        elif stopped:
            problem = f"{self.name}: no message for {_coarse(age_s)} s; is the sensor's driver still running?"
        elif now_s - shown[0] <= SHOWN_S:
            problem = shown[1]
        elif publishers > 1:
            problem = self._who_publishes(publishers)
        return TopicHealth(received, dropped, rate_hz, age_s, publishers, problem)

    def close(self) -> None:
        """Stop listening."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None

    def _on_message(self, msg: Any) -> None:
        now_s = time.monotonic()
        with self._lock:
            gap_s = now_s - self._arrivals[-1] if self._arrivals else 0.0
            self._arrivals.append(now_s)
            self._received += 1
        if gap_s > self._stale_s and not self._lasting:
            self._node.get_logger().info(f"{self.name}: messages come again after {gap_s:.1f} s")
        if hasattr(msg, "header") and not self._lasting and not self._stamp_is_usable(stamp_ns(msg.header.stamp)):
            return
        try:
            self._use(msg)
        except FedError as err:
            self.drop(f"dropped a message: {err}")

    def _stamp_is_usable(self, time_ns: int) -> bool:
        if time_ns <= 0:
            self.drop("dropped a message without a time (header.stamp is zero); let the driver stamp what it publishes")
            return False
        if time_ns < self._stamp_ns:
            self.stepped_back += 1
            back_s = (self._stamp_ns - time_ns) * 1e-9
            # A replay in a loop does it for ever: the 1st, 2nd, 4th, 8th time are worth a line.
            rare = self.stepped_back & (self.stepped_back - 1) == 0
            self._tell(f"stamps went back by {back_s:.3g} s; a replay began again, or a clock was set back", log=rare)
        self._stamp_ns = time_ns
        now_ns = self._node.get_clock().now().nanoseconds
        # With simulated time the clock is zero until its first message.
        if now_ns > 0 and time_ns - now_ns > FUTURE_S * 1e9:
            ahead_s = (time_ns - now_ns) * 1e-9
            self._tell(f"the clock of the sensor is {ahead_s:.0f} s ahead of this node's; synchronise the clocks")
        return True

    def has_told(self, text: str) -> bool:
        """Return whether a problem is one that the topic writes into the log itself."""
        with self._lock:
            return bool(text) and text == self._shown[1]

    def _tell(self, why: str, *, log: bool = True) -> None:
        now_s, text = time.monotonic(), f"{self.name}: {why}"
        with self._lock:
            self._shown = (now_s, text)
            due = log and now_s - self._logged_s >= _LOG_EVERY_S
            if due:
                self._logged_s = now_s
        if due:
            self._node.get_logger().warning(text)

    def _why_silent(self, publishers: int) -> str:
        for transport in TRANSPORTS[1:] if not publishers else ():
            if self._type.endswith("/Image") and self._node.count_publishers(f"{self.name}/{transport}"):
                return f"{self.name}: nobody publishes it, but {self.name}/{transport}; choose that image transport"
        if not publishers:
            return f"{self.name}: nobody publishes it; start the driver or remap the topic"
        for info in self._node.get_publishers_info_by_topic(self.name):
            who = _full_name(info.node_namespace, info.node_name)
            if info.topic_type != self._type:
                return f"{self.name}: {who} publishes {info.topic_type}, not {self._type}; remap the topic"
            fits, reason = qos_check_compatible(info.qos_profile, self._profile)
            if fits == QoSCompatibility.ERROR:
                return f"{self.name}: the quality of service of {who} does not fit: {reason.strip(' ;.')}"
        return f"{self.name}: no message yet, though {publishers} node(s) publish it"

    def _who_publishes(self, publishers: int) -> str:
        found = self._node.get_publishers_info_by_topic(self.name)
        names = ", ".join(sorted(_full_name(info.node_namespace, info.node_name) for info in found))
        return f"{self.name}: {publishers} publishers at once ({names}); stop or remap all but one"


def image_topic(node: Node, topic: str, transport: str, use: Callable[[Any], None], profile: QoSProfile) -> SensorTopic:
    """Return the subscription of images that travel by a transport.

    Compressed images are on the topic that image_transport gives them: a remap of ``topic`` moves them too.

    Raises:
        ConfigError: there is no such transport.
    """
    if transport not in TRANSPORTS:
        raise ConfigError(f"image transport {transport!r} is not known; known: {', '.join(TRANSPORTS)}")
    if transport == RAW:
        return SensorTopic(node, Image, topic, use, profile)
    return SensorTopic(node, CompressedImage, f"{node.resolve_topic_name(topic)}/{transport}", use, profile)


def health_values(topics: Iterable[SensorTopic]) -> dict[str, str]:
    """Return what diagnostics say of topics."""
    values: dict[str, str] = {}
    for topic in topics:
        health = topic.health()
        values[f"{topic.name} rate_hz"] = f"{health.rate_hz:.1f}"
        values[f"{topic.name} age_s"] = f"{health.age_s:.1f}"
        values[f"{topic.name} dropped"] = str(health.dropped)
        if topic.stepped_back:
            values[f"{topic.name} stepped_back"] = str(topic.stepped_back)
    return values


def first_problem(topics: Iterable[SensorTopic]) -> str:
    """Return the first problem of topics, "" = all are well."""
    return next((problem for topic in topics if (problem := topic.health().problem)), "")


def _coarse(age_s: float) -> int:
    """Return whole seconds that change ever more rarely, so that whoever logs a changed problem does it rarely."""
    steps = (1, 2, 5, 10, 30, 60, 300, 1800, 3600)
    return max((step for step in steps if step <= age_s), default=0)


def _full_name(namespace: str, name: str) -> str:
    # An endpoint may be known a moment before the node that it belongs to.
    return "an unknown node" if "UNKNOWN" in name else f"{namespace.rstrip('/')}/{name}"
