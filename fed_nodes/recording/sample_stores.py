"""Where a robot's recorded samples lie: one camera's in a bag that may go on growing, a vehicle's in a folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from fed_core.data.keyframes import Grey
from fed_core.data.local_set import LocalSet, SetOptions
from fed_core.data.nuscenes.recording import ScanWriter
from fed_core.data.opv2v.writer import Opv2vWriter
from fed_core.data.snapshots import SNAPSHOTS, Snapshots
from fed_core.types import BevFrame, DepthFrame, DetectionFrame

AnyFrame: TypeAlias = "DepthFrame | BevFrame | DetectionFrame"
VehicleWriter: TypeAlias = "Opv2vWriter | ScanWriter"

#: The one snapshot of a recording that does not go on.
_WHOLE = "recorded"


class SampleStore(Protocol):
    """Takes frames, and offers what a training job can read.

    Attributes:
        mended: one line on what a power loss had left, "" = nothing.
    """

    mended: str

    @property
    def problem(self) -> str:
        """One line where it does not keep what the options say, "" = it does."""

    @property
    def num_frames(self) -> int:
        """Frames so far."""

    @property
    def size_bytes(self) -> int:
        """Their bytes."""

    def holds(self, stamp_ns: int) -> bool:
        """Tell whether a frame of this time is there."""

    def add(self, frame: Any, grey: Grey) -> bool:
        """Append a frame; False where there is no room for it."""

    def offer(self, name: str) -> None:
        """Let jobs read what is there now, under a name; a name that is offered already stays as it is."""

    def source(self) -> dict[str, Any] | None:
        """Return what was offered last, as the entry of a fleet file; None before."""

    def sync(self) -> None:
        """Flush to disk what was added; from any thread."""

    def close(self) -> None:
        """End writing; what can be kept is kept."""


class DepthStore:
    """RGB-D frames as a rosbag2 folder of several files, ``folder``; jobs read snapshots of it beside it.

    Args:
        folder: of the recording.
        record_bytes: bound of everything on disk.
        options: how it is kept.
        goes_on: whether it grows while jobs read it. Then it has half of the bytes, so that what a job still reads
            has room, too.
    """

    def __init__(self, folder: Path, record_bytes: int, options: SetOptions, *, goes_on: bool) -> None:
        limit_bytes = record_bytes // 2 if goes_on else record_bytes
        self._name, self._goes_on = folder.name, goes_on
        self._set = LocalSet(folder, limit_bytes, options, replaces=goes_on)
        self._snapshots = Snapshots(folder.with_name(SNAPSHOTS))
        self.mended = self._set.mended

    @property
    def problem(self) -> str:
        """One line where room is not made as the options say, "" = it is."""
        return self._set.problem

    @property
    def num_frames(self) -> int:
        """Frames so far."""
        return self._set.num_frames

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        return self._set.size_bytes

    def holds(self, stamp_ns: int) -> bool:
        """Tell whether a frame of this time is there."""
        return self._set.holds(stamp_ns)

    def add(self, frame: DepthFrame, grey: Grey) -> bool:
        """Append a frame; False where there is no room for it."""
        return self._set.add(frame, grey)

    def offer(self, name: str) -> None:
        """Take a snapshot; a recording that does not go on has one only."""
        self._snapshots.take(name if self._goes_on else _WHOLE, self._set.settled_files())

    def source(self) -> dict[str, Any] | None:
        """Return the snapshot, as the entry of a fleet file; None before the first."""
        newest = self._snapshots.newest
        return {"data": str(newest.absolute()), "name": self._name} if newest else None

    def sync(self) -> None:
        """Flush to disk what was added; from any thread."""
        self._set.sync()

    def close(self) -> None:
        """Close the open file."""
        self._set.close_file()


class VehicleStore:
    """Frames of all sensors of a vehicle in a folder that appears when it is complete; a half one starts again.

    Args:
        folder: of the recording.
        record_bytes: bound of the pictures and points.
        begin: begins to write into a new folder.
        entry: tells the entry of a folder in a fleet file.
    """

    mended = problem = ""

    def __init__(
        self,
        folder: Path,
        record_bytes: int,
        begin: Callable[[Path], VehicleWriter],
        entry: Callable[[Path], dict[str, Any]],
    ) -> None:
        self._folder, self._limit_bytes, self._begin, self._entry = folder, record_bytes, begin, entry
        self._part = folder.with_name(folder.name + ".part")
        self._writer: Any = None
        self.num_frames = self.size_bytes = 0
        if not folder.exists():
            shutil.rmtree(self._part, ignore_errors=True)

    def holds(self, stamp_ns: int) -> bool:
        """Nothing is compared here: a vehicle may be played twice."""
        return False

    def add(self, frame: BevFrame | DetectionFrame, grey: Grey) -> bool:
        """Append a frame; False where there is no room for it."""
        if self.size_bytes >= self._limit_bytes:
            return False
        self._writer = self._writer or self._begin(self._part)
        self._writer.add(frame)
        self.num_frames += 1
        self.size_bytes += sum(image.nbytes for image in frame.images)
        self.size_bytes += frame.points.nbytes if isinstance(frame, DetectionFrame) else 0
        return True

    def offer(self, name: str) -> None:
        """Finish the folder; where the disk refuses, it can be tried again."""
        if self._writer is not None:
            self._writer.close()
            self._part.rename(self._folder)
            self._writer = None

    def source(self) -> dict[str, Any] | None:
        """Return the entry of the finished folder; None while it is recorded."""
        return self._entry(self._folder) if self._folder.exists() else None

    def sync(self) -> None:
        """A folder that is not complete does not count after a power loss."""

    def close(self) -> None:
        """Give an unfinished folder up."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None
