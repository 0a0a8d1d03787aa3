"""Write any sequence as a rosbag2 recording: colour, depth and camera, as a driver would have published them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer, WriterError
from rosbags.rosbag2.enums import CompressionFormat, CompressionMode
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from fed_core.data.bag_topics import CAMERA_INFO, IMAGE
from fed_core.data.options import TopicNames
from fed_core.data.sequence import DepthSequence
from fed_core.errors import DataError, EncodingError
from fed_core.types import Array, DepthFrame

DEFAULT_TOPICS = TopicNames(
    colour="/camera/color/image_raw",
    depth="/camera/aligned_depth_to_color/image_raw",
    info="/camera/color/camera_info",
)
_FORMATS = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}


def write_bag(
    sequence: DepthSequence,
    path: Path,
    *,
    topics: TopicNames = DEFAULT_TOPICS,
    depth_encoding: str = "32FC1",
    storage: str = "mcap",
    compress: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write all frames of a sequence to a new rosbag2 folder.

    Record times are the stamps of the frames. With 16UC1, depth is rounded to millimetres, and what is unknown or
    beyond 65.535 m becomes 0.

    Args:
        sequence: frames to write.
        path: new folder.
        topics: an empty name takes the default.
        depth_encoding: "32FC1" (metres) or "16UC1" (millimetres).
        storage: "mcap" or "sqlite3".
        compress: zstd chunks (MCAP only).
        on_progress: called with frames done and frames in all.

    Returns:
        The folder.

    Raises:
        DataError: the folder exists, or a frame cannot be read (nothing is left behind).
        EncodingError: the depth encoding is not supported.
    """
    writer = BagWriter(path, topics=topics, depth_encoding=depth_encoding, storage=storage, compress=compress)
    try:
        for index in range(len(sequence)):
            writer.add(sequence[index])
            on_progress(index + 1, len(sequence))
        writer.close()
    except BaseException:
        writer.discard()
        raise
    return path


def record_once(
    sequence: DepthSequence, path: Path, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> Path:
    """Write a sequence to a bag unless it is there; one that was interrupted starts anew.

    Args:
        sequence: frames to write.
        path: folder of the bag; it appears when it is complete.
        on_progress: called with frames done and frames in all.
    """
    if path.exists():
        return path
    part = path.with_name(f"{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_bag(sequence, part, on_progress=on_progress).rename(path)


class BagWriter:
    """Write frames one by one; arguments and errors as in :func:`write_bag`.

    The bag can be read after :meth:`close`.
    """

    def __init__(
        self,
        path: Path,
        *,
        topics: TopicNames = DEFAULT_TOPICS,
        depth_encoding: str = "32FC1",
        storage: str = "mcap",
        compress: bool = False,
    ) -> None:
        _check(path, depth_encoding, storage, compress)
        self._path, self._depth_encoding = path, depth_encoding
        self._store = get_typestore(Stores.ROS2_KILTED)
        self._writer = Writer(path, version=9, storage_plugin=_FORMATS[storage])
        if compress:
            self._writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
        names = _named(topics)
        with self._telling():
            self._writer.open()
            self._colour = self._writer.add_connection(names.colour, IMAGE, typestore=self._store)
            self._depth = self._writer.add_connection(names.depth, IMAGE, typestore=self._store)
            self._info = self._writer.add_connection(names.info, CAMERA_INFO, typestore=self._store)
        self._others: dict[str, Any] = {}

    def add(self, frame: DepthFrame, *, depth: bool = True) -> None:
        """Append one frame, with or without its depth."""
        messages = frame_messages(self._store, frame, self._depth_encoding)
        connections = (self._info, self._colour, self._depth)[: 3 if depth else 2]
        with self._telling():
            for connection, data in zip(connections, messages, strict=False):
                self._writer.write(connection, frame.stamp_ns, data)

    def add_message(self, topic: str, kind: str, stamp_ns: int, data: bytes) -> None:
        """Append a serialized message of another topic, of a type of ROS itself ("sensor_msgs/msg/Image")."""
        with self._telling():
            if topic not in self._others:
                self._others[topic] = self._writer.add_connection(topic, kind, typestore=self._store)
            self._writer.write(self._others[topic], stamp_ns, data)

    def close(self) -> None:
        """Finish the bag."""
        with self._telling():
            self._writer.close()

    def discard(self) -> None:
        """Close the files and delete what was written."""
        with suppress(OSError, WriterError):
            self._writer.abort()
        shutil.rmtree(self._path, ignore_errors=True)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (OSError, WriterError) as err:
            raise DataError(f"cannot write the bag {self._path}: {' '.join(str(err).split())}") from err


def frame_messages(store: Typestore, frame: DepthFrame, depth_encoding: str = "32FC1") -> tuple[memoryview, ...]:
    """Return the messages of a frame, serialized: camera, colour, depth."""
    counts = _depth_counts(frame, depth_encoding)
    return (
        store.serialize_cdr(_camera_info(store, frame), CAMERA_INFO),
        store.serialize_cdr(_image(store, frame, "rgb8", frame.rgb), IMAGE),
        store.serialize_cdr(_image(store, frame, depth_encoding, counts), IMAGE),
    )


def _check(path: Path, depth_encoding: str, storage: str, compress: bool) -> None:
    if depth_encoding not in ("32FC1", "16UC1"):
        raise EncodingError(f"depth encoding {depth_encoding!r} cannot be written; choose 32FC1 or 16UC1")
    if storage not in _FORMATS or (compress and storage != "mcap"):
        raise DataError(f"bag storage {storage!r} cannot be written; choose mcap (may be compressed) or sqlite3")
    if path.exists():
        raise DataError(f"{path} exists already; choose another name for the bag")


def _named(topics: TopicNames) -> TopicNames:
    return TopicNames(
        topics.colour or DEFAULT_TOPICS.colour,
        topics.depth or DEFAULT_TOPICS.depth,
        topics.info or DEFAULT_TOPICS.info,
    )


def _depth_counts(frame: DepthFrame, encoding: str) -> Array:
    if encoding == "32FC1":
        return frame.depth_m.astype("<f4")
    millimetres = np.nan_to_num(np.rint(frame.depth_m.astype(np.float64) * 1000.0), nan=0.0, posinf=0.0, neginf=0.0)
    return np.where((millimetres >= 0) & (millimetres <= 65535), millimetres, 0).astype("<u2")


def _header(store: Typestore, frame: DepthFrame) -> Any:
    sec, nanosec = divmod(frame.stamp_ns, 1_000_000_000)
    stamp = store.types["builtin_interfaces/msg/Time"](sec=sec, nanosec=nanosec)
    return store.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame.frame_id)


def _image(store: Typestore, frame: DepthFrame, encoding: str, pixels: Array) -> Any:
    height, width = pixels.shape[:2]
    return store.types[IMAGE](
        header=_header(store, frame),
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=0,
        step=pixels.nbytes // height,
        data=np.ascontiguousarray(pixels).reshape(-1).view(np.uint8),
    )


def _camera_info(store: Typestore, frame: DepthFrame) -> Any:
    k = np.asarray(frame.intrinsics, dtype=np.float64)
    region = store.types["sensor_msgs/msg/RegionOfInterest"](
        x_offset=0, y_offset=0, height=0, width=0, do_rectify=False
    )
    return store.types[CAMERA_INFO](
        header=_header(store, frame),
        height=frame.rgb.shape[0],
        width=frame.rgb.shape[1],
        distortion_model="plumb_bob",
        d=np.zeros(5),
        k=k.reshape(9),
        r=np.eye(3).reshape(9),
        p=np.hstack([k, np.zeros((3, 1))]).reshape(12),
        binning_x=0,
        binning_y=0,
        roi=region,
    )
