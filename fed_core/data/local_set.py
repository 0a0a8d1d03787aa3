"""A robot's own RGB-D samples on its disk: a rosbag2 folder of several MCAP files that grows, bounded in bytes."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcap.writer import CompressionType

from fed_core.config import check, option
from fed_core.data.bag_files import METADATA
from fed_core.data.bag_metadata import metadata_text
from fed_core.data.bag_writer import frame_messages
from fed_core.data.frame_files import (
    FrameFile,
    FrameFileWriter,
    RawFrame,
    copy_frames,
    frame_bytes,
    mend,
    part_of,
    read_frame_file,
    typestore,
)
from fed_core.data.keyframes import Grey
from fed_core.data.redundancy import frames_to_keep, most_redundant
from fed_core.errors import DataError, StoreError
from fed_core.types import DepthFrame
from fed_core.wire.files import store_error, write_text

#: What makes room when the set is full.
OLDEST, REDUNDANT = "oldest", "redundant"
#: A reader holds every file open, so there must not be too many.
MAX_FILES = 200

_NUMBER = re.compile(r"_(\d+)\.mcap")
_COMPRESSIONS = {"none": CompressionType.NONE, "lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}


@dataclass(frozen=True)
class SetOptions:
    """How a robot keeps its recorded samples (``docs/recording.md``)."""

    segment_bytes: int = option(
        32_000_000, help="size of one file of the recording", unit="bytes", low=100_000, high=4_000_000_000
    )
    record_keep: str = option(
        OLDEST, help="what makes room in a full recording that goes on", choices=(OLDEST, REDUNDANT)
    )
    record_compression: str = option("none", help="compression of the recording", choices=tuple(_COMPRESSIONS))

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)


class LocalSet:
    """Frames in ``<folder>/<name of folder>_<n>.mcap``; closed files are listed in ``metadata.yaml``.

    Opening it mends what a power loss left: whole frames stay, what is torn goes.

    Args:
        folder: made when the first frame comes.
        limit_bytes: of all files together, also while one is rewritten.
        options: size of files, and what makes room.
        replaces: whether new frames replace old ones in a full set; else it takes no more.

    Attributes:
        mended: one line on what was mended, or could not be; "" = nothing.
        problem: one line where room was not made as the options say; "" = all is well.
    """

    def __init__(self, folder: Path, limit_bytes: int, options: SetOptions, *, replaces: bool) -> None:
        self._folder, self._options, self._replaces = folder, options, replaces
        self._compression = _COMPRESSIONS[options.record_compression]
        # A fiftieth is for the lists of files, here and in a snapshot.
        self._limit_bytes = limit_bytes - limit_bytes // 50
        self._file_bytes = min(max(options.segment_bytes, limit_bytes // 128), limit_bytes // 8)
        self._writer: FrameFileWriter | None = None
        self._next, self.problem = 0, ""
        self._files, self.mended = self._read()
        self._stamps = {int(stamp) for file in self._files for stamp in file.stamps_ns}
        if self._files:
            try:
                self._write_list()
            except StoreError as err:  # a robot must start with a full disk, too; the next closed file writes it
                self.mended = "; ".join(filter(None, (self.mended, str(err))))

    @property
    def files(self) -> tuple[FrameFile, ...]:
        """The closed files, oldest first."""
        return tuple(self._files)

    @property
    def num_frames(self) -> int:
        """Frames, those of the open file too."""
        return sum(map(len, self._files)) + (len(self._writer) if self._writer is not None else 0)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return self._closed_bytes + (self._writer.size_bytes if self._writer is not None else 0)

    def holds(self, stamp_ns: int) -> bool:
        """Tell whether a frame of this time is there; a replay that starts again brings it once more."""
        return stamp_ns in self._stamps

    def add(self, frame: DepthFrame, grey: Grey) -> bool:
        """Append a frame; its small grey picture is kept with it.

        Returns:
            Whether there was room; False only in a set that does not replace, or for a frame larger than the set.

        Raises:
            StoreError: it cannot be written (:class:`DiskFullError`: no space is left); what was there still is.
        """
        raw = RawFrame(frame.stamp_ns, frame_messages(typestore(), frame))
        need_bytes = frame_bytes(raw.messages)
        if self._writer is not None and self._writer.size_bytes + need_bytes > self._file_bytes:
            self.close_file()
        if not self._make_room(need_bytes):
            return False
        try:
            if self._writer is None:
                self._writer = FrameFileWriter(self._path(), self._compression)
            self._writer.add(raw, grey)
        except StoreError:
            self.close_file()
            raise
        self._stamps.add(frame.stamp_ns)
        return True

    def sync(self) -> None:
        """Flush to disk what was added; from any thread."""
        writer = self._writer
        if writer is not None:
            writer.sync()

    def close_file(self) -> None:
        """Close the file that is being written, so that it counts to :attr:`files`."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        if not len(writer):
            writer.abandon()
            return
        self._next += 1
        self._files.append(writer.close())
        self._write_list()

    def settled_files(self) -> tuple[FrameFile, ...]:
        """Return the closed files, after closing the open one; not in a set that goes on and has many already."""
        if not self._replaces or len(self._files) < MAX_FILES // 2:
            self.close_file()
        return self.files

    @property
    def _closed_bytes(self) -> int:
        return sum(file.size_bytes for file in self._files)

    def _path(self) -> Path:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise store_error(err, self._folder) from err
        return self._folder / f"{self._folder.name}_{self._next}.mcap"

    def _make_room(self, need_bytes: int) -> bool:
        """Return whether a frame fits, after others made room where they may."""
        if not self._replaces:
            return self.size_bytes + need_bytes + _new_file_bytes(self._writer) <= self._limit_bytes
        if self._writer is not None:
            return True  # room for the whole file was made when it was opened
        # Twice: a file may be rewritten while another is open.
        room_bytes = max(self._file_bytes, need_bytes + _new_file_bytes(None)) + self._file_bytes
        if room_bytes > self._limit_bytes:
            return False
        if self._closed_bytes + room_bytes > self._limit_bytes:
            self.problem = self._why_not_redundant()
        while self._closed_bytes + room_bytes > self._limit_bytes:
            self._evict()
        return True

    def _why_not_redundant(self) -> str:
        if self._options.record_keep != REDUNDANT or len(self._files) <= MAX_FILES:
            return ""
        text = f"record_keep is {REDUNDANT}, but above {MAX_FILES} files the oldest goes"
        return f"{text}; a larger segment_bytes makes fewer"

    def _evict(self) -> None:
        """Let the oldest file go, or half of the one with the most redundant frames."""
        greys = [file.greys for file in self._files]
        thins = self._options.record_keep == REDUNDANT and len(greys) <= MAX_FILES
        which = most_redundant(greys) if thins else 0
        gone = self._files.pop(which)
        thinned = None
        if thins and len(gone) > 1:
            new = gone.path.with_name(gone.path.name + ".thinned")
            part_of(new).unlink(missing_ok=True)
            with suppress(StoreError):  # no room even for that: then the whole file goes
                thinned = copy_frames(gone.path, new, frames_to_keep(greys, which), compression=self._compression)
        if thinned is not None:
            thinned.path.replace(gone.path)
            self._files.insert(which, FrameFile(gone.path, thinned.stamps_ns, thinned.greys, thinned.size_bytes))
        self._stamps -= {int(stamp) for stamp in gone.stamps_ns}
        self._stamps |= {int(stamp) for stamp in thinned.stamps_ns} if thinned is not None else set()
        self._write_list()
        if thinned is None:
            gone.path.unlink()

    def _write_list(self) -> None:
        if self._files:
            write_text(self._folder / METADATA, metadata_text(self._files))
        else:
            (self._folder / METADATA).unlink(missing_ok=True)

    def _read(self) -> tuple[list[FrameFile], str]:
        """Return the closed files in order, and what was mended."""
        for leftover in (*self._folder.glob("*.thinned*"), *self._folder.glob("*.mended*")):
            leftover.unlink()
        paths = sorted(self._folder.glob("*.mcap"), key=_number)
        files, told = {}, []
        for path in [*paths, *self._folder.glob("*.mcap.part")]:
            file = _read_closed(path)
            if file is None:
                file, text = _mended(path, self._compression)
                told.append(text)
            if file is not None and len(file):
                files[file.path] = file
            self._next = max(self._next, _number(path) + 1)
        return list(files.values()), "; ".join(told)


def _number(path: Path) -> int:
    found = _NUMBER.search(path.name)
    return int(found[1]) if found else -1


def _read_closed(path: Path) -> FrameFile | None:
    """Return a closed file, None for one that must be mended."""
    if path.suffix == ".part":
        return None
    try:
        return read_frame_file(path)
    except DataError:
        return None


def _mended(torn: Path, compression: CompressionType) -> tuple[FrameFile | None, str]:
    """Mend a file that was not closed; return it and what people should know."""
    try:
        file = mend(torn, torn.with_name(torn.name.removesuffix(".part")), compression)
    except (StoreError, DataError, OSError) as err:
        return None, f"{torn.name} was cut off and cannot be mended now: {err}"
    return file, f"{torn.name} was cut off: its {len(file) if file else 0} whole frames are kept"


def _new_file_bytes(writer: FrameFileWriter | None) -> int:
    """Return what a file takes before its first frame, where one must be opened."""
    return 32 * 1024 if writer is None else 0
