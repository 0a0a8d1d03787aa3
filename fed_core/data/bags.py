"""RGB-D frames of a bag, read message by message; only times are kept in memory."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.data.bag_files import BagFile, RawMessage
from fed_core.data.bag_topics import COMPRESSED, choose_topics, depth_unit
from fed_core.data.images import colour_of, decode_compressed_depth, decode_depth
from fed_core.data.intrinsics import checked, pinhole
from fed_core.data.options import OpenOptions, TopicNames
from fed_core.data.pairing import nearest_stamps, pair_by_stamp
from fed_core.data.units import require_same_size, require_some_depth
from fed_core.errors import DataError
from fed_core.types import DepthFrame

# Unwanted messages to read over before a new search is cheaper.
_SKIP_AHEAD = 8


@dataclass(frozen=True)
class Key:
    """Where a message is: record time, and its place among those of its topic at that time."""

    log_ns: int
    rank: int
    stamp_ns: int


class BagSequence:
    """RGB-D frames of a bag in order of the colour image's header stamp.

    Opening reads the bag once for its times. Frames are then read on demand, in order at the speed of the disk; a
    jump searches by time. The bag stays open until :meth:`close`; after a fork or in a pickle it opens itself again.

    Args:
        path: .bag, .db3, .mcap, or a rosbag2 folder.
        options: topics, slop, intrinsics; see :class:`OpenOptions`.

    Attributes:
        topics: the topics that are read.
        unit: unit of 16 bit depth where it is stated, else "" (millimetres).

    Raises:
        DataError: no bag, no such topics, or no pair within the slop.
    """

    def __init__(self, path: Path, options: OpenOptions | None = None) -> None:
        options = options or OpenOptions()
        self.source = str(path)
        self.name = options.name or (path.stem if path.is_file() else path.resolve().name)
        self._path = path
        with BagFile(path) as bag:
            self.topics = choose_topics(bag, options)
            self._types = {name: bag.topics[name].type for name in (self.topics.colour, self.topics.depth)}
            self.unit = options.depth_unit or depth_unit(bag, self.topics.depth)
            self._intrinsics, self._info_size = _camera(bag, self.topics, options)
            self._pairs = _index(bag, self.topics, options.slop_s)
        self._frame_id = options.frame_id
        self._cursors: dict[str, Cursor] = {}
        self._pid = os.getpid()

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._pairs)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read frame ``index``; a broken message raises :class:`DataError` with topic and time."""
        colour_key, depth_key = self._pairs[index]
        colour, depth = self._read(self.topics.colour, colour_key), self._read(self.topics.depth, depth_key)
        where = f"{self._path}, frame {index} at {colour_key.stamp_ns} ns"
        try:
            rgb = colour_of(colour)
            depth_m = self._decode_depth(depth)
        except DataError as err:
            raise type(err)(f"{where}: {err}") from err
        require_same_size(rgb, depth_m, where)
        require_some_depth(depth_m, where)
        if self._info_size and self._info_size != rgb.shape[1::-1]:
            raise DataError(
                f"{where}: colour is {rgb.shape[1]}x{rgb.shape[0]} but {self.topics.info} is of "
                f"{self._info_size[0]}x{self._info_size[1]}; state intrinsics: fx fy cx cy"
            )
        frame_id = self._frame_id or colour.header.frame_id or DepthFrame.frame_id
        return DepthFrame(rgb, depth_m, colour_key.stamp_ns, self._intrinsics.copy(), frame_id)

    def close(self) -> None:
        """Close the files; the next access opens them again."""
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open files out of a pickle."""
        return {**self.__dict__, "_cursors": {}}

    def _read(self, topic: str, key: Key) -> Any:
        if self._pid != os.getpid():
            # A forked child shares the file position with its parent, so it must not use the parent's files.
            self._cursors, self._pid = {}, os.getpid()
        if topic not in self._cursors:
            self._cursors[topic] = Cursor(self._path, topic)
        return self._cursors[topic].read(key)

    def _decode_depth(self, msg: Any) -> npt.NDArray[np.float32]:
        if self._types[self.topics.depth] == COMPRESSED:
            return decode_compressed_depth(msg.data, msg.format, unit=self.unit)
        unit = "" if msg.encoding == "32FC1" else self.unit
        return decode_depth(
            msg.data, msg.encoding, msg.height, msg.width, msg.step, is_bigendian=bool(msg.is_bigendian), unit=unit
        )


class Cursor:
    """Reads one topic forward; each cursor has its own open bag, so that two do not move each other."""

    def __init__(self, path: Path, topic: str) -> None:
        self._bag = BagFile(path)
        self._topic = topic
        self._stream: Iterator[tuple[Key, RawMessage]] = iter(())

    def read(self, key: Key) -> Any:
        """Return the decoded message at ``key``."""
        for _, (found, raw) in zip(range(_SKIP_AHEAD), self._stream, strict=False):
            if (found.log_ns, found.rank) == (key.log_ns, key.rank):
                return self._bag.decode(raw)
            if found.log_ns > key.log_ns:
                break
        self._stream = self._numbered(key.log_ns, None)
        # In a split bag with overlapping files the message may come late in the stream: then look for it alone.
        for stream in (self._stream, self._numbered(key.log_ns, key.log_ns + 1)):
            for found, raw in stream:
                if (found.log_ns, found.rank) == (key.log_ns, key.rank):
                    return self._bag.decode(raw)
                if found.log_ns > key.log_ns:
                    break
        raise DataError(
            f"{self._bag.path}: the message of {self._topic} at {key.log_ns} ns is gone; has the bag changed?"
        )

    def close(self) -> None:
        """Close the bag."""
        self._stream = iter(())
        self._bag.close()

    def _numbered(self, start_ns: int, stop_ns: int | None) -> Iterator[tuple[Key, RawMessage]]:
        return numbered(self._bag, self._topic, start_ns, stop_ns)


def numbered(bag: BagFile, topic: str, start_ns: int | None, stop_ns: int | None) -> Iterator[tuple[Key, RawMessage]]:
    """Give the messages of a topic with their places, from one record time to before another [ns]."""
    counter = _Ranks()
    for raw in bag.messages([topic], start_ns, stop_ns):
        yield Key(raw.log_ns, counter.next(raw), 0), raw


class _Ranks:
    """Counts messages of a topic that share one record time."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, int]] = Counter()

    def next(self, raw: RawMessage) -> int:
        place = (raw.topic, raw.log_ns)
        self._seen[place] += 1
        return self._seen[place] - 1


def _index(bag: BagFile, topics: TopicNames, slop_s: float) -> list[tuple[Key, Key]]:
    """Return the places of colour and depth messages that belong together."""
    keys: dict[str, list[Key]] = {topics.colour: [], topics.depth: []}
    ranks = _Ranks()
    for raw in bag.messages(list(keys)):
        keys[raw.topic].append(Key(raw.log_ns, ranks.next(raw), bag.stamp_ns(raw)))
    colour, depth = keys[topics.colour], keys[topics.depth]
    for topic, found in ((topics.colour, colour), (topics.depth, depth)):
        if not found:
            raise DataError(f"{bag.path}: topic {topic} has no messages")
    colour_ns = np.array([k.stamp_ns for k in colour], dtype=np.int64)
    depth_ns = np.array([k.stamp_ns for k in depth], dtype=np.int64)
    pairs = pair_by_stamp(colour_ns, depth_ns, round(slop_s * 1e9))
    if not pairs:
        nearest_s = float(nearest_stamps(colour_ns, depth_ns)[1].min()) / 1e9
        raise DataError(
            f"{bag.path}: no image of {topics.colour} ({len(colour)}) and {topics.depth} ({len(depth)}) within "
            f"{slop_s:g} s of each other; the nearest are {nearest_s:.3f} s apart, raise slop_s"
        )
    return [(colour[i], depth[j]) for i, j in pairs]


def _camera(
    bag: BagFile, topics: TopicNames, options: OpenOptions
) -> tuple[npt.NDArray[np.float64], tuple[int, int] | None]:
    """Return the pinhole matrix (3, 3) and the (width, height) it is for, None where that is not stated."""
    if options.intrinsics:
        return pinhole(options.intrinsics), None
    info = bag.first(topics.info)
    matrix = checked(info.k if hasattr(info, "k") else info.K, f"{bag.path}, {topics.info}")
    size = (int(info.width), int(info.height))
    return matrix, size if all(size) else None
