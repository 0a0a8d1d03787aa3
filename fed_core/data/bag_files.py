"""Bags of any kind (ROS 1 .bag, rosbag2 folder, .db3, .mcap), opened read-only through ``rosbags``.

The library raises whatever its parsers meet in broken bytes; here all of it becomes one clear line.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from rosbags.rosbag1 import Reader as Reader1
from rosbags.rosbag1 import ReaderError as ReaderError1
from rosbags.rosbag2 import Reader as Reader2
from rosbags.rosbag2 import ReaderError as ReaderError2
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from fed_core.errors import DataError, FedError

SUFFIXES = (".bag", ".db3", ".mcap")
METADATA = "metadata.yaml"

_REPAIR = {".bag": "rosbag reindex", ".db3": "ros2 bag reindex", ".mcap": "mcap recover"}


@dataclass(frozen=True)
class Topic:
    """One topic of a bag.

    Attributes:
        name: topic name.
        type: message type as ROS 2 writes it ("sensor_msgs/msg/Image"), for ROS 1 bags too.
        count: messages.
    """

    name: str
    type: str
    count: int


@dataclass(frozen=True)
class RawMessage:
    """One message as recorded.

    Attributes:
        topic: topic name.
        log_ns: time at which it was recorded.
        data: serialized bytes.
    """

    topic: str
    log_ns: int
    data: bytes


class BagFile:
    """An open bag; use it as a context manager.

    Args:
        path: .bag, .db3, .mcap, or a rosbag2 folder.

    Attributes:
        topics: topics by name, sorted.

    Raises:
        DataError: missing, not a bag, cut off, or without its metadata.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        target = find_bag(path)
        self._is_ros1 = target.suffix == ".bag"
        with _reading(path, target):
            self._reader: Any = Reader1(target) if self._is_ros1 else Reader2(target)
            self._reader.open()
            self.topics = _topics(self._reader.connections)
            self._connections = _stored_connections(self._reader)
        self._target = target

    @property
    def span_ns(self) -> tuple[int, int]:
        """Record time of the first message and of the last one; (0, 0) in an empty bag."""
        if not self.num_messages:
            return 0, 0
        return int(self._reader.start_time), int(self._reader.end_time) - 1

    @property
    def num_messages(self) -> int:
        """Messages of all topics."""
        return int(self._reader.message_count)

    @property
    def is_ros1(self) -> bool:
        """Whether it is a bag of ROS 1."""
        return self._is_ros1

    @property
    def connections(self) -> tuple[Any, ...]:
        """What was recorded, as ``rosbags`` tells it (topic, type, definition, QoS); a topic may have several."""
        return tuple(self._connections)

    @property
    def custom_data(self) -> dict[str, str]:
        """What a recorder of ROS 2 was told to keep in the metadata."""
        metadata = getattr(getattr(self._reader, "storage", None), "metadata", None)
        return dict(getattr(metadata, "custom", None) or {})

    def records(self, connections: Sequence[Any]) -> Iterator[tuple[Any, int, bytes]]:
        """Read connection, record time and bytes of the messages of some :attr:`connections`, in order of that time."""
        with _reading(self.path, self._target):
            yield from self._reader.messages(list(connections))

    def messages(
        self, topics: Collection[str] = (), start_ns: int | None = None, stop_ns: int | None = None
    ) -> Iterator[RawMessage]:
        """Read messages one by one in order of record time.

        Args:
            topics: topics to read; empty = all.
            start_ns: first record time.
            stop_ns: record time to stop before.
        """
        wanted = [c for c in self._connections if not topics or c.topic in topics]
        if not wanted:
            return
        with _reading(self.path, self._target):
            for connection, log_ns, data in self._reader.messages(wanted, start_ns, stop_ns):
                yield RawMessage(connection.topic, log_ns, data)

    def first(self, topic: str) -> Any:
        """Return the first message of a topic, decoded; a topic without messages raises :class:`DataError`."""
        raw = next(self.messages([topic]), None)
        if raw is None:
            raise DataError(f"{self.path}: topic {topic} has no messages")
        return self.decode(raw)

    def decode(self, raw: RawMessage) -> Any:
        """Return the message with its fields; its type must be a standard one."""
        kind = self.topics[raw.topic].type
        with _reading(self.path, self._target):
            if self._is_ros1:
                return _types(Stores.ROS1_NOETIC).deserialize_ros1(raw.data, kind)
            return _types(Stores.ROS2_KILTED).deserialize_cdr(raw.data, kind)

    def stamp_ns(self, raw: RawMessage) -> int:
        """Return the header stamp of a message with a header, without decoding the rest of it.

        A stamp of zero means "not set"; then it is the record time.
        """
        try:
            if self._is_ros1:
                _, sec, nanosec = struct.unpack_from("<III", raw.data, 0)
            else:
                order = "<" if raw.data[1] & 1 else ">"
                sec, nanosec = struct.unpack_from(order + "iI", raw.data, 4)
        except (struct.error, IndexError) as err:
            raise DataError(f"{self.path}: a message of {raw.topic} at {raw.log_ns} ns is cut off") from err
        stamp = int(sec) * 1_000_000_000 + int(nanosec)
        return stamp or raw.log_ns

    def close(self) -> None:
        """Close the files."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.close()

    def __enter__(self) -> "BagFile":
        """Return the bag, which is open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files."""
        self.close()


def is_bag(path: Path) -> bool:
    """Tell whether a path looks like a bag: by suffix, metadata.yaml, or bag files in the folder."""
    if path.is_dir():
        return (path / METADATA).exists() or bool(storage_files(path))
    return path.suffix in SUFFIXES


def find_bag(path: Path) -> Path:
    """Return the file or folder to open; what is no bag raises :class:`DataError`."""
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise DataError(f"{path} is not a bag; expected {', '.join(SUFFIXES)} or a rosbag2 folder")
        target = path
    elif (path / METADATA).exists():
        target = path
    else:
        files = storage_files(path)
        if not files:
            raise DataError(f"{path} is not a bag; it has no {METADATA} and no {', '.join(SUFFIXES)} file")
        if len(files) > 1:
            names = ", ".join(f.name for f in files[:5])
            restore = "" if files[0].suffix == ".bag" else ", or restore it with: ros2 bag reindex"
            raise DataError(f"{path} has {len(files)} bag files ({names}) but no {METADATA}; name one of them{restore}")
        target = files[0]
    _refuse_half_databases(target)
    return target


def _topics(connections: list[Any]) -> dict[str, Topic]:
    found: dict[str, Topic] = {}
    for c in sorted(connections, key=lambda c: str(c.topic)):
        count = c.msgcount + (found[c.topic].count if c.topic in found else 0)
        found[c.topic] = Topic(c.topic, c.msgtype, count)
    return found


def _stored_connections(reader: Any) -> list[Any]:
    """Return the connections as the files of a folder have them.

    The library looks for messages with the QoS that ``metadata.yaml`` states. Older recorders wrote other numbers
    there than into the files; then it would find no messages and say nothing.
    """
    connections = list(reader.connections)
    for storage in getattr(getattr(reader, "storage", None), "storages", ()):
        for stored in storage.connections:
            alike = [c for c in connections if (c.topic, c.msgtype) == (stored.topic, stored.msgtype)]
            if alike and all(c.ext != stored.ext for c in alike):
                connections.append(alike[0]._replace(ext=stored.ext, digest=""))
    return connections


def storage_files(folder: Path) -> list[Path]:
    """Return the bag files in a folder, sorted by name."""
    return sorted(f for f in folder.iterdir() if f.suffix in SUFFIXES)


def _refuse_half_databases(target: Path) -> None:
    # The database is opened as immutable (it may lie on a read-only disk), so SQLite would not look into its journal
    # and would notice a missing end only when it comes to read there.
    databases = target.glob("*.db3") if target.is_dir() else [target] if target.suffix == ".db3" else []
    for database in databases:
        journal = database.with_name(f"{database.name}-wal")
        if journal.exists() and journal.stat().st_size > 0:
            raise DataError(
                f"{journal} holds messages that are not in the bag yet; is it still being recorded? "
                f"Else run on a copy: sqlite3 {database.name} 'PRAGMA wal_checkpoint(TRUNCATE)'"
            )
        size, stated = database.stat().st_size, _stated_size(database)
        if size < stated:
            raise DataError(
                f"{target} cannot be read as a bag: {database.name} has {size} of {stated} bytes; "
                f"if the recording was cut off, try: {_REPAIR['.db3']}"
            )


def _stated_size(database: Path) -> int:
    """Return the size that the header of an SQLite file states, 0 where it states none."""
    with database.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3"):
        return 0
    page_size, change, pages, valid_for = (
        int.from_bytes(header[start:stop], "big") for start, stop in ((16, 18), (24, 28), (28, 32), (92, 96))
    )
    # The count of pages is only valid where the last writer kept it.
    return (65536 if page_size == 1 else page_size) * pages if change == valid_for else 0


@contextmanager
def _reading(path: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except FedError:
        raise
    except PermissionError as err:
        raise DataError(f"{path} may not be read: {err.strerror}") from err
    except Exception as err:  # the parsers of the library raise anything on broken bytes, AssertionError included
        text = " ".join(str(err).split())
        if not isinstance(err, ReaderError1 | ReaderError2 | OSError):
            text = f"{type(err).__name__} {text}".strip()
        if "Profile is not ros2" in text:
            raise DataError(f"{path} is an MCAP file without ROS 2 messages (its profile is not ros2)") from err
        repair = _REPAIR.get(target.suffix, "ros2 bag reindex")
        raise DataError(
            f"{path} cannot be read as a bag: {text.rstrip('.')}; if the recording was cut off, try: {repair}"
        ) from err


@lru_cache(maxsize=2)
def _types(store: Stores) -> Typestore:
    return get_typestore(store)
