"""One MCAP file of RGB-D frames that grows frame by frame and can be mended when its writer dies.

Each frame is one chunk with a checksum: what a power loss leaves is whole frames and at most one torn one. A file that
was closed also has an index, and an attachment with the time and the small grey picture of each frame.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from mcap.reader import make_reader
from mcap.records import Channel, Message
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from fed_core.data.bag_topics import CAMERA_INFO, IMAGE
from fed_core.data.bag_writer import DEFAULT_TOPICS
from fed_core.data.images import decode_colour
from fed_core.data.keyframes import SMALL_SHAPE, Grey, small_grey
from fed_core.errors import DataError, StoreError
from fed_core.wire.files import Buffer, store_error, sync_folder, write_all

#: Topics of a frame in the order of its messages; the last one makes it whole.
TOPICS = ((DEFAULT_TOPICS.info, CAMERA_INFO), (DEFAULT_TOPICS.colour, IMAGE), (DEFAULT_TOPICS.depth, IMAGE))

_ATTACHMENT = "small_grey"
_ROW = np.dtype([("stamp_ns", "<u8"), ("grey", "u1", SMALL_SHAPE)])
_ONE_CHUNK = 1 << 62  # chunks end when a frame does, never by size
#: Bytes that a file needs beyond the messages: once, and for each frame (chunk, index, row of the attachment).
_FILE_BYTES, _FRAME_BYTES = 24 * 1024, 768
#: Kept free on disk for the lists of files (metadata.yaml) that are written when the file is closed.
_LIST_BYTES = 64 * 1024

Messages = Sequence[Buffer]


@dataclass(frozen=True)
class FrameFile:
    """A closed file.

    Attributes:
        path: where it is.
        stamps_ns: (N,) uint64, times of its frames in the order in which they came.
        greys: (N, 12, 16) uint8, their small grey pictures.
        size_bytes: its size.
    """

    path: Path
    stamps_ns: npt.NDArray[np.uint64]
    greys: Grey
    size_bytes: int

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.stamps_ns)


@dataclass(frozen=True)
class RawFrame:
    """One frame as recorded: its time and its serialized messages in the order of :data:`TOPICS`."""

    stamp_ns: int
    messages: Messages


class _Output:
    """A file without a buffer: after a write returns, the death of this process loses nothing."""

    def __init__(self, path: Path) -> None:
        self.path, self.position = path, 0
        try:
            self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError as err:
            raise store_error(err, path) from err

    def write(self, data: Buffer) -> int:
        write_all(self.descriptor, data, self.path)
        self.position += memoryview(data).nbytes
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        """Nothing waits to be written."""

    def reserve(self, size_bytes: int) -> None:
        """Take room on disk beyond what is written, so that a full disk is noticed before half a frame is there."""
        try:
            os.posix_fallocate(self.descriptor, self.position, size_bytes)
        except OSError as err:
            raise store_error(err, self.path) from err

    def close(self) -> None:
        os.ftruncate(self.descriptor, self.position)
        os.fsync(self.descriptor)
        os.close(self.descriptor)


class FrameFileWriter:
    """Writes one file; its name appears when it is closed, until then it has the suffix ``.part``.

    Args:
        path: the file to be.
        compression: of the chunks.

    Raises:
        StoreError: it cannot be written (:class:`DiskFullError`: no space is left); so do the other calls.
    """

    def __init__(self, path: Path, compression: CompressionType = CompressionType.NONE) -> None:
        self.path = path
        self._output = _Output(part_of(path))
        self._rows: list[tuple[int, Grey]] = []
        self._is_listed = False
        output: Any = self._output
        try:
            self._output.reserve(_FILE_BYTES + _LIST_BYTES)
            self._writer = Writer(output, chunk_size=_ONE_CHUNK, compression=compression)
            self._writer.start("ros2", "fed_perception")
            self._channels = _register(self._writer)
        except StoreError:
            self.abandon()
            raise

    @property
    def size_bytes(self) -> int:
        """Largest size the file would have, were it closed now."""
        return self._output.position + _FILE_BYTES + len(self._rows) * _FRAME_BYTES

    @property
    def stamps_ns(self) -> list[int]:
        """Times of the frames so far."""
        return [stamp_ns for stamp_ns, _ in self._rows]

    def __len__(self) -> int:
        """Return the number of frames so far."""
        return len(self._rows)

    def add(self, frame: RawFrame, grey: Grey) -> None:
        """Append a frame; where the disk is full, nothing of it is written, and the file can still be closed."""
        ending = _FILE_BYTES + _LIST_BYTES + (len(self._rows) + 1) * _FRAME_BYTES
        self._output.reserve(frame_bytes(frame.messages) + ending)
        for channel, data in zip(self._channels, frame.messages, strict=True):
            # The library asks for bytes and joins them with what stands before; any buffer does.
            self._writer.add_message(channel, frame.stamp_ns, data, frame.stamp_ns)  # type: ignore[arg-type]
        self._writer.flush()  # type: ignore[no-untyped-call]
        self._rows.append((frame.stamp_ns, grey))

    def sync(self) -> None:
        """Flush to disk what was added; from any thread, also beside :meth:`close`."""
        try:
            copy = os.dup(self._output.descriptor)
            try:
                os.fdatasync(copy)
            finally:
                os.close(copy)
            if not self._is_listed:  # a new file's name may be lost although its bytes are kept
                for folder in (self.path.parent, self.path.parent.parent):
                    sync_folder(folder)
                self._is_listed = True
        except OSError as err:
            if err.errno != errno.EBADF:  # else closed meanwhile, which has flushed it
                raise store_error(err, part_of(self.path)) from err

    def close(self) -> FrameFile:
        """Write the index, flush to disk and give the file its name."""
        rows = np.array(self._rows, dtype=_ROW)
        try:
            self._writer.add_attachment(0, 0, _ATTACHMENT, "application/octet-stream", rows.tobytes())
            self._writer.finish()  # type: ignore[no-untyped-call]
            self._output.close()
            os.replace(part_of(self.path), self.path)
            sync_folder(self.path.parent)
        except (OSError, StoreError) as err:
            with suppress(OSError):  # the part that is there is mended at the next start
                os.close(self._output.descriptor)
            raise err if isinstance(err, StoreError) else store_error(err, self.path) from err
        return FrameFile(self.path, rows["stamp_ns"], rows["grey"], self._output.position)

    def abandon(self) -> None:
        """Remove what was written."""
        with suppress(OSError):
            os.close(self._output.descriptor)
        part_of(self.path).unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """Return the name of a file while it is written."""
    return path.with_name(path.name + ".part")


def frame_bytes(messages: Messages) -> int:
    """Return the most that a frame can add to a file."""
    return sum(memoryview(data).nbytes for data in messages) + _FRAME_BYTES


def read_frame_file(path: Path) -> FrameFile:
    """Read what a closed file holds without its pictures; one without our attachment is read whole.

    Raises:
        DataError: the file is torn or no MCAP file.
    """
    try:
        with path.open("rb") as file:
            rows = _attached_rows(file)
    except Exception as err:  # the library raises whatever its parser meets in broken bytes
        raise DataError(f"{path} was not closed: {' '.join(str(err).split()) or type(err).__name__}") from err
    if rows is None:
        rows = np.array([(frame.stamp_ns, grey_of(frame)) for frame in raw_frames(path)], dtype=_ROW)
    return FrameFile(path, rows["stamp_ns"], rows["grey"], path.stat().st_size)


def raw_frames(path: Path) -> Iterator[RawFrame]:
    """Read the whole frames of a file in order, up to its end or to the first byte that is torn."""
    places = {topic: index for index, (topic, _) in enumerate(TOPICS)}
    channels: dict[int, int] = {}
    last: dict[int, tuple[int, Buffer]] = {}
    with path.open("rb") as file:
        for record in _whole_records(file, path.stat().st_size):
            if isinstance(record, Channel) and record.topic in places:
                channels[record.id] = places[record.topic]
            elif isinstance(record, Message) and record.channel_id in channels:
                place = channels[record.channel_id]
                last[place] = (record.log_time, record.data)
                if place == len(TOPICS) - 1 and len({time_ns for time_ns, _ in last.values()}) == 1 < len(last):
                    yield RawFrame(record.log_time, [last[index][1] for index in range(len(TOPICS))])
                    last = {}


def mend(torn: Path, path: Path, compression: CompressionType = CompressionType.NONE) -> FrameFile | None:
    """Write the whole frames of a torn file to ``path`` and remove the torn one; None where there are none.

    Killed in between, the torn file is still there and can be mended again.
    """
    new = path.with_name(path.name + ".mended")
    part_of(new).unlink(missing_ok=True)
    mended = copy_frames(torn, new, compression=compression)
    if mended is not None:
        os.replace(new, path)
        mended = FrameFile(path, mended.stamps_ns, mended.greys, mended.size_bytes)
    if mended is None or torn != path:
        torn.unlink()
    sync_folder(path.parent)
    return mended


def copy_frames(
    source: Path,
    path: Path,
    keep: Sequence[bool] | None = None,
    *,
    compression: CompressionType = CompressionType.NONE,
) -> FrameFile | None:
    """Copy the frames of a file, or those with a true entry in ``keep``, to a new file; None where there are none."""
    writer: FrameFileWriter | None = None
    try:
        for index, frame in enumerate(raw_frames(source)):
            if keep is None or keep[index]:
                if writer is None:
                    writer = FrameFileWriter(path, compression)
                writer.add(frame, grey_of(frame))
        return writer.close() if writer is not None else None
    except (StoreError, DataError):
        if writer is not None:  # one without a frame, too
            writer.abandon()
        raise


def grey_of(frame: RawFrame) -> Grey:
    """Return the small grey picture of a recorded frame; :class:`DataError` where that is none of ours."""
    try:
        msg: Any = typestore().deserialize_cdr(bytes(frame.messages[1]), IMAGE)
    except Exception as err:  # the library raises whatever its parser meets in foreign bytes
        raise DataError(f"{TOPICS[1][0]} holds no {IMAGE} ({type(err).__name__})") from err
    return small_grey(decode_colour(msg.data, msg.encoding, msg.height, msg.width, msg.step))


@lru_cache(maxsize=1)
def typestore() -> Typestore:
    """Return the message definitions."""
    return get_typestore(Stores.ROS2_KILTED)


def _register(writer: Writer) -> list[int]:
    """Return the channels of :data:`TOPICS` in a new file."""
    schemas: dict[str, int] = {}
    for _, kind in TOPICS:
        if kind not in schemas:
            definition, _ = typestore().generate_msgdef(kind, ros_version=2)
            schemas[kind] = writer.register_schema(kind, "ros2msg", definition.encode())
    qos = {"offered_qos_profiles": ""}
    return [writer.register_channel(topic, "cdr", schemas[kind], qos) for topic, kind in TOPICS]


class _ExactInput:
    """Hands out all bytes that are asked for or says that the file ends; the library takes short reads for whole."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError(f"{size - len(data)} bytes are missing")
        return data


def _whole_records(file: BinaryIO, size_bytes: int) -> Iterator[Any]:
    source: Any = _ExactInput(file)
    # A torn length must not make the reader ask for more memory than there are bytes.
    records = StreamReader(source, validate_crcs=True, record_size_limit=size_bytes).records
    while True:
        try:
            record = next(records)
        except Exception:  # the end, or whatever the parser raises on torn bytes: the frames before it count
            return
        yield record


def _attached_rows(file: BinaryIO) -> Any:
    """Return the rows of our attachment, None where there is none; a torn file raises."""
    reader = make_reader(file)
    summary = reader.get_summary()
    if summary is None or summary.statistics is None:
        raise EOFError("it has no index")
    for attachment in reader.iter_attachments():
        if attachment.name == _ATTACHMENT:
            return np.frombuffer(attachment.data, dtype=_ROW)
    return None
