"""Bags from one form into another (MCAP, sqlite3, ROS 1) without loss, and recordings of any layout into bags.

What a form cannot hold is not carried: attachments and publish times of MCAP; header sequence numbers of ROS 1, which
ROS 2 has no field for; names of nodes that published, which only ROS 1 keeps.
"""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosbags.convert.converter import LATCH
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag1 import WriterError as WriterError1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.rosbag2 import WriterError as WriterError2
from rosbags.rosbag2.enums import CompressionFormat, CompressionMode

from fed_core.data.bag_files import BagFile
from fed_core.data.bag_writer import write_bag
from fed_core.data.message_types import CarriedType, TypeFinder, kept, to_ros1, to_ros2
from fed_core.data.open import BAG, find_reader, open_sequence
from fed_core.errors import DataError, FedError

MCAP, SQLITE3, ROS1 = "mcap", "sqlite3", "ros1"
STORAGES = (MCAP, SQLITE3, ROS1)
_BY_SUFFIX = {".mcap": MCAP, ".db3": SQLITE3, ".bag": ROS1}
#: A file that marks a folder as ours, locked while it is written.
_MARK = ".being_written"
_PLUGINS = {MCAP: StoragePlugin.MCAP, SQLITE3: StoragePlugin.SQLITE3}

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Target:
    """A bag to write.

    Attributes:
        path: a new folder, or a new file where the name ends in .mcap, .db3 or .bag (ROS 1).
        storage: one of :data:`STORAGES`; "" = by the ending of the name, else mcap.
        compress: zstd; lz4 for ROS 1.
    """

    path: Path
    storage: str = ""
    compress: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be written."""
        if self.storage and self.storage not in STORAGES:
            raise DataError(f"bag storage {self.storage!r} cannot be written; choose one of {', '.join(STORAGES)}")
        ending = _BY_SUFFIX.get(self.path.suffix, "")
        if not self.path.name or (ending and self.storage and ending != self.storage):
            raise DataError(f"{self.path} does not fit storage {self.storage}; name a bag of {ending or 'any form'} so")
        if self.form == ROS1 and ending != ROS1:
            raise DataError(f"{self.path}: a bag of ROS 1 is one file; let its name end in .bag")
        if self.compress and ending == SQLITE3:
            raise DataError(f"{self.path}: a compressed sqlite3 bag is a folder; name it without .db3")

    @property
    def form(self) -> str:
        """The storage."""
        return self.storage or _BY_SUFFIX.get(self.path.suffix, MCAP)

    @property
    def is_file(self) -> bool:
        """Whether the bag is one file, not a folder of rosbag2."""
        return self.path.suffix in _BY_SUFFIX


@dataclass(frozen=True)
class Converted:
    """What was written.

    Attributes:
        messages: how many.
        topics: on how many topics.
        left_out: one line for each topic that could not be carried, or not as a whole: which, and why.
    """

    messages: int
    topics: int
    left_out: tuple[str, ...] = ()


def convert(
    source: Path,
    target: Target,
    *,
    definitions: Sequence[Path] = (),
    on_progress: Progress = lambda done, total: None,
) -> Converted:
    """Write a bag in another form, or the frames of another recording as a bag.

    Args:
        source: bag, or any recording that :func:`fed_core.data.open.open_sequence` opens.
        target: bag to write; it appears when it is complete.
        definitions: folders with ``PKG/msg/NAME.msg`` of types that the bag does not define.
        on_progress: called with messages (or frames) done and in all.

    Raises:
        DataError: the source cannot be read, the target exists or cannot be written (nothing is left of it).
    """
    if source.exists() and find_reader(source) == BAG:
        return _convert_bag(source, target, TypeFinder(definitions), on_progress)
    return _write_frames(source, target, on_progress)


def _convert_bag(source: Path, target: Target, finder: TypeFinder, on_progress: Progress) -> Converted:
    with BagFile(source) as bag:
        types, left_out = carried_types(bag, target.form == ROS1, finder)
        if bag.connections and not types:
            raise DataError(f"{source}: nothing of it can be carried; {left_out[0]}")
        wanted = [connection for connection in bag.connections if connection.id in types]
        with _appearing(target) as path, _opened(target, path) as sink:
            sink.keep(bag.custom_data)
            ways = sink.add_all(wanted, types)
            refused = _Refused()
            done = 0
            for done, (connection, log_ns, data) in enumerate(bag.records(wanted) if wanted else (), 1):
                try:
                    sink.write(ways[connection.id], log_ns, converted(types[connection.id], data))
                except DataError as err:
                    refused.add(connection.topic, err)
                on_progress(done, bag.num_messages)
        topics = len({connection.topic for connection in wanted})
        return Converted(done - refused.total, topics, (*left_out, *refused.lines()))


class _Refused:
    """Counts messages that could not be converted, by topic."""

    def __init__(self) -> None:
        self.total = 0
        self._topics: dict[str, tuple[int, DataError]] = {}

    def add(self, topic: str, err: DataError) -> None:
        count, first = self._topics.get(topic, (0, err))
        self._topics[topic] = (count + 1, first)
        self.total += 1

    def lines(self) -> list[str]:
        return [f"left out {count} messages of {topic}: {first}" for topic, (count, first) in self._topics.items()]


def carried_types(bag: BagFile, ros1: bool, finder: TypeFinder) -> tuple[dict[int, CarriedType], tuple[str, ...]]:
    """Return the types of a bag as they will stand in a bag of ROS 1 or 2.

    Returns:
        By id of the connection; and one line for each topic whose type cannot be had.
    """
    found: dict[int, CarriedType] = {}
    seen: dict[tuple[str, Any, str], CarriedType | DataError] = {}
    definitions: dict[str, str] = {}
    left_out: dict[str, None] = {}
    for connection in bag.connections:
        key = (connection.msgtype, connection.msgdef, connection.digest)
        if key not in seen:
            seen[key] = _carried(connection, bag.is_ros1, ros1, finder)
        carried = seen[key]
        if isinstance(carried, DataError):
            left_out[f"left out {connection.topic}: {carried}"] = None
        elif not ros1 and definitions.setdefault(carried.name, carried.definition) != carried.definition:
            left_out[f"left out {connection.topic}: its type {carried.name} differs from that of another topic"] = None
        else:
            found[connection.id] = carried
    return found, tuple(left_out)


def _carried(connection: Any, from_ros1: bool, ros1: bool, finder: TypeFinder) -> CarriedType | DataError:
    name, definition = connection.msgtype, connection.msgdef
    try:
        if from_ros1 and ros1:
            return CarriedType(name, definition.data, connection.digest, bytes)
        if from_ros1:
            return to_ros2(name, definition)
        return to_ros1(name, definition, finder) if ros1 else kept(name, definition, connection.digest, finder)
    except DataError as err:
        return err


def converted(carried: CarriedType, data: bytes) -> bytes | memoryview:
    """Return a message as bytes of its new type; :class:`DataError` where its bytes are broken."""
    try:
        return carried.convert(data)
    except Exception as err:  # the library raises anything on broken bytes, AssertionError included
        told = " ".join(f"{type(err).__name__} {err}".split())
        raise DataError(f"cannot be converted to {carried.name} ({told})") from err


class _Ros1Sink:
    def __init__(self, path: Path, compress: bool) -> None:
        self.writer = Writer1(path)
        if compress:
            self.writer.set_compression(Writer1.CompressionFormat.LZ4)
        self.writer.open()
        self.write = self.writer.write

    def keep(self, custom: dict[str, str]) -> None:
        """ROS 1 has no place for it."""

    def add_all(self, connections: Sequence[Any], types: dict[int, CarriedType]) -> dict[int, Any]:
        ways: dict[int, Any] = {}
        known: dict[Any, Any] = {}
        for each in connections:
            carried = types[each.id]
            if hasattr(each.ext, "latching"):
                callerid, latching = each.ext.callerid, each.ext.latching
            else:
                callerid = None
                latching = int(any(profile.durability.value == 1 for profile in each.ext.offered_qos_profiles))
            key = (each.topic, carried.name, callerid, latching)
            if key not in known:
                known[key] = self.writer.add_connection(
                    each.topic,
                    carried.name,
                    msgdef=carried.definition,
                    md5sum=carried.digest,
                    callerid=callerid,
                    latching=latching,
                )
            ways[each.id] = known[key]
        return ways


class _Ros2Sink:
    def __init__(self, path: Path, form: str, compress: bool) -> None:
        self.writer = Writer2(path, version=9, storage_plugin=_PLUGINS[form])
        if compress:
            mode = CompressionMode.STORAGE if form == MCAP else CompressionMode.MESSAGE
            self.writer.set_compression(mode, CompressionFormat.ZSTD)
        self.writer.open()
        self.write = self.writer.write

    def keep(self, custom: dict[str, str]) -> None:
        for key, value in custom.items():
            self.writer.set_custom_data(str(key), str(value))

    def add_all(self, connections: Sequence[Any], types: dict[int, CarriedType]) -> dict[int, Any]:
        """Add a topic once, with what all its publishers offered, as recorders of ROS 2 do."""
        offered: dict[tuple[str, str], list[Any]] = {}
        for each in connections:
            profiles = offered.setdefault((each.topic, types[each.id].name), [])
            profiles += [profile for profile in _profiles(each.ext) if profile not in profiles]
        known: dict[tuple[str, str], Any] = {}
        for each in connections:
            carried = types[each.id]
            key = (each.topic, carried.name)
            if key not in known:
                known[key] = self.writer.add_connection(
                    each.topic,
                    carried.name,
                    msgdef=carried.definition,
                    rihs01=carried.digest,
                    offered_qos_profiles=offered[key],
                )
        return {each.id: known[each.topic, types[each.id].name] for each in connections}


def _profiles(ext: Any) -> list[Any]:
    if hasattr(ext, "latching"):
        return list(LATCH) if ext.latching else []
    return list(ext.offered_qos_profiles)


@contextmanager
def _opened(target: Target, path: Path) -> Iterator["_Ros1Sink | _Ros2Sink"]:
    """Open a bag; it is complete when the block ends."""
    with _writing(target.path):
        sink = (
            _Ros1Sink(path, target.compress) if target.form == ROS1 else _Ros2Sink(path, target.form, target.compress)
        )
        try:
            yield sink
            sink.writer.close()
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                sink.writer.abort()
            raise


def _write_frames(source: Path, target: Target, on_progress: Progress) -> Converted:
    sequence = open_sequence(source)
    if target.form == ROS1:
        raise DataError(f"{source} is no bag: its frames are written as mcap or sqlite3, which can be converted then")
    with _appearing(target) as path:
        write_bag(sequence, path, storage=target.form, compress=target.compress, on_progress=on_progress)
    return Converted(3 * len(sequence), 3)


@contextmanager
def _appearing(target: Target) -> Iterator[Path]:
    """Give a path to write to; what was written becomes the target at the end, and is deleted after an error."""
    part = target.path.with_name(f"{target.path.name}.part")
    name = target.path.stem if target.is_file else target.path.name
    inside = part / (target.path.name if target.form == ROS1 else name)
    _refuse_existing(target.path)
    with _claimed(part, target.path):
        yield inside
        _refuse_existing(target.path)
        with _writing(target.path):
            (inside / target.path.name if target.is_file and target.form != ROS1 else inside).rename(target.path)


@contextmanager
def _claimed(part: Path, path: Path) -> Iterator[None]:
    """Hold a new empty folder, or one that a dead conversion left, for this process alone; delete it at the end."""
    with _writing(path):
        try:
            part.mkdir(parents=True)
            flags = os.O_CREAT | os.O_EXCL
        except FileExistsError:
            flags = 0
        try:
            mark = os.open(part / _MARK, os.O_RDWR | flags, 0o644)
        except (FileNotFoundError, FileExistsError, NotADirectoryError) as err:
            raise DataError(
                f"{part} is no unfinished bag of ours; move it, or choose another name for the bag"
            ) from err
    try:
        _lock(mark, part)
        try:
            with _writing(path):
                _empty(part)
            yield
        finally:
            shutil.rmtree(part, ignore_errors=True)
    finally:
        os.close(mark)


def _lock(mark: int, part: Path) -> None:
    """Lock a mark; who holds it may have deleted it meanwhile, which counts as being held, too."""
    with suppress(BlockingIOError):
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(mark).st_nlink:
            return
    raise DataError(f"{part} is being written by another process; let it end, or choose another name for the bag")


def _empty(part: Path) -> None:
    """Delete what a conversion left that did not end, except for the mark."""
    for left in part.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        elif left.name != _MARK:
            left.unlink()


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise DataError(f"{path} exists already; choose another name for the bag")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except FedError:
        raise
    except (OSError, WriterError1, WriterError2, sqlite3.Error) as err:
        raise DataError(f"cannot write the bag {path}: {' '.join(str(err).split())}") from err
