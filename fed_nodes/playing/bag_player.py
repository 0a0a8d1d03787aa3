"""Plays every topic of any bag through real publishers, byte by byte, with the time of the recording as a clock."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rosbags.interfaces import QosDurability, QosReliability
from rosgraph_msgs.msg import Clock

from fed_core.data.bag_files import BagFile
from fed_core.data.conversion import carried_types, converted
from fed_core.data.message_types import CarriedType, TypeFinder, field_types
from fed_core.errors import ConfigError, DataError
from fed_nodes import qos
from fed_nodes.convert.images import to_stamp
from fed_nodes.playing.recorded_types import message_class
from fed_nodes.playing.static_frames import STATIC_FRAMES

#: Topics that keep their absolute name: who transforms listens there.
_FRAMES = ("/tf", STATIC_FRAMES)
_CLOCK_EVERY_NS = 10_000_000
_DEPTHS = (10, 1000)  # queue where the bag tells none; largest
#: Bytes that the queue of a topic may hold of which nothing may be lost, by the mean size of its first messages.
_QUEUE_BYTES, _MEASURED = 50_000_000, 10


class BagPlayer:
    """What :class:`fed_nodes.replay.ReplayNode` plays: the messages of a bag, in order of their record time.

    Args:
        node: owner of the publishers.
        path: the bag.
        names: new names of topics; others keep theirs, in the node's namespace.
        reliable: deliver every message, also of topics that were recorded as best effort.

    Raises:
        DataError: the bag cannot be read, or no topic of it can be played.
        ConfigError: ``names`` has a topic that the bag has not.
    """

    unit = "message"

    def __init__(self, node: Node, path: Path, names: Mapping[str, str], *, reliable: bool) -> None:
        self._node, self._names, self._reliable = node, names, reliable
        self._bag = BagFile(path)
        self.name = path.stem if path.is_file() else path.resolve().name
        self._types, left_out = carried_types(self._bag, False, TypeFinder())
        unknown = [topic for topic in names if topic not in self._bag.topics]
        if unknown:
            raise ConfigError(f"topics names {unknown[0]}, which {path} has not; there: {', '.join(self._bag.topics)}")
        self._clock = node.create_publisher(Clock, "clock", qos.SENSORS)
        self._publishers = self._publish_all(list(left_out))
        self._played = [c for c in self._bag.connections if c.id in self._publishers]
        self.total = sum(topic.count for topic in self._bag.topics.values() if topic.name in self._names_played())
        self.skipped = 0
        self.rewind()

    def readers(self) -> int:
        """Return how many subscribers the topic with most of them has."""
        return max((publisher.get_subscription_count() for publisher in self._publishers.values()), default=0)

    def rewind(self) -> None:
        """Go to the first message."""
        self._stream: Iterator[tuple[Any, int, bytes]] = self._bag.records(self._played)
        self._ahead: tuple[Publisher[Any], int, bytes] | None = None
        self._clock_ns: int | None = None
        self.position, self.skipped_now = 0, 0

    def due_ns(self) -> int | None:
        """Return the record time of the next message; None at the end."""
        while self._ahead is None:
            try:
                connection, log_ns, data = next(self._stream)
            except StopIteration:
                return None
            except DataError as err:
                self._node.get_logger().error(f"stopped: {err}")
                return None
            try:
                self._ahead = (
                    self._publishers[connection.id],
                    log_ns,
                    bytes(converted(self._types[connection.id], data)),
                )
            except DataError as err:
                self.position += 1
                self.skipped_now += 1
                self.skipped += 1
                text = f"skipped a message of {connection.topic}: it {err}"
                self._node.get_logger().warning(text, throttle_duration_sec=1.0)
        return self._ahead[1]

    def play(self) -> None:
        """Publish the next message; :meth:`due_ns` was asked before."""
        if self._ahead is None:
            return
        publisher, log_ns, data = self._ahead
        self._ahead = None
        self.position += 1
        if self._clock_ns is None or not 0 <= log_ns - self._clock_ns < _CLOCK_EVERY_NS:
            self._clock_ns = log_ns
            self._clock.publish(Clock(clock=to_stamp(log_ns)))
        publisher.publish(data)

    def _names_played(self) -> set[str]:
        return {connection.topic for connection in self._played}

    def _publish_all(self, not_played: list[str]) -> dict[int, Any]:
        """Return publishers by id of the connection; tells in one line what cannot be played."""
        found: dict[int, Any] = {}
        named: dict[tuple[str, str], Any] = {}
        for connection in self._bag.connections:
            carried = self._types.get(connection.id)
            if carried is None:
                continue
            key = (connection.topic, carried.name)
            try:
                if key not in named:
                    named[key] = self._publisher(connection, carried)
                found[connection.id] = named[key]
            except DataError as err:
                text = f"{connection.topic}: {err}"
                not_played += [] if text in not_played else [text]
        if not_played:
            self._node.get_logger().warning(f"not played: {'; '.join(not_played)}")
        if not found:
            raise DataError(f"{self._bag.path} has no topic that can be played here; {'; '.join(not_played[:3])}")
        return found

    def _publisher(self, connection: Any, carried: CarriedType) -> Any:
        name = self._names.get(connection.topic, "")
        if not name:
            name = connection.topic if connection.topic in _FRAMES else connection.topic.lstrip("/")
        if name == "clock":
            raise DataError("the replay has a clock of its own, of the record times")
        kind = message_class(carried.name, field_types(carried))
        try:
            return self._node.create_publisher(kind, name, self._profile(connection))
        except (InvalidTopicNameException, ValueError) as err:
            raise DataError(f"{name!r} is no name of a topic in ROS 2; give it another with topics") from err

    def _profile(self, connection: Any) -> QoSProfile:
        if not self._reliable:
            return _offered(connection)
        return qos.recorded(reliable=True, latched=True, depth=self._lossless_depth(connection.topic))

    def _lossless_depth(self, topic: str) -> int:
        """Return how many messages the queue of a topic holds: many small ones, few large ones."""
        fewest, most = qos.SENSORS_RELIABLE.depth, _DEPTHS[1]
        if self._bag.topics[topic].count <= fewest:
            return fewest
        sizes: list[int] = []
        with suppress(DataError):  # told where it is played
            records = self._bag.records([c for c in self._bag.connections if c.topic == topic])
            sizes += (len(data) for _, _, data in islice(records, _MEASURED))
        return max(fewest, min(most, _QUEUE_BYTES * len(sizes) // max(1, sum(sizes))))


def _offered(connection: Any) -> QoSProfile:
    """Return what publishers offered; reliable where nothing is told, which suits readers of both kinds."""
    low, high = _DEPTHS
    ext, latched = connection.ext, connection.topic == STATIC_FRAMES
    if hasattr(ext, "latching"):  # ROS 1, always reliable
        return qos.recorded(reliable=True, latched=latched or bool(ext.latching), depth=low)
    offered = ext.offered_qos_profiles
    best_effort = any(profile.reliability is QosReliability.BEST_EFFORT for profile in offered)
    latched = latched or any(profile.durability is QosDurability.TRANSIENT_LOCAL for profile in offered)
    # Several publishers of a latched topic (static frames) had a queue each; what all of them said must be kept.
    depth = max((profile.depth for profile in offered), default=0) or low
    return qos.recorded(
        reliable=not best_effort, latched=latched, depth=min(max(depth, low) if latched else depth, high)
    )
