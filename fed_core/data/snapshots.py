"""What a training job reads of a data set that goes on growing: hard links to its closed files."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from fed_core.data.bag_files import METADATA
from fed_core.data.bag_metadata import metadata_text
from fed_core.data.frame_files import FrameFile
from fed_core.errors import StoreError
from fed_core.wire.files import store_error, sync_folder, write_text

#: Folders of a robot's state: what it records, and what its jobs read of that.
SAMPLES, SNAPSHOTS = "samples", "snapshots"
_PART = ".part"


class Snapshots:
    """Keeps the newest snapshot in a folder, ``<folder>/<name>``; links take no room of their own.

    Args:
        folder: made when there is something to keep; on the same disk as the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for half in folder.glob(f"*{_PART}"):
            shutil.rmtree(half, ignore_errors=True)
        self._newest = max((path for path in folder.glob("*") if path.is_dir()), key=_made_ns, default=None)
        self._forget_others()

    @property
    def newest(self) -> Path | None:
        """The snapshot there is; None before the first."""
        return self._newest

    def take(self, name: str, files: Sequence[FrameFile]) -> Path:
        """Return snapshot ``name``; where it is not there, it is made of ``files`` and replaces the one before.

        Raises:
            StoreError: it cannot be made; the one before is still there.
        """
        path = self._folder / name
        if self._newest == path:
            return path
        part = path.with_name(name + _PART)
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            for file in files:
                os.link(file.path, part / file.path.name)
            write_text(part / METADATA, metadata_text(files))
            part.rename(path)
            sync_folder(self._folder)
        except (OSError, StoreError) as err:
            shutil.rmtree(part, ignore_errors=True)
            raise err if isinstance(err, StoreError) else _cannot(err, path) from err
        self._newest = path
        self._forget_others()
        return path

    def _forget_others(self) -> None:
        for path in self._folder.glob("*"):
            if path != self._newest:
                shutil.rmtree(path, ignore_errors=True)


def is_recorded(state_dir: Path) -> bool:
    """Tell whether a robot has recorded enough to train on.

    Then it has a snapshot, or the folder of a vehicle, which appears when it is complete.
    """
    if any(not path.name.endswith(_PART) for path in (state_dir / SNAPSHOTS).glob("*")):
        return True
    names = [path.name for path in (state_dir / SAMPLES).glob("*")]
    return bool(names) and not any(".mcap" in name for name in names)


def _made_ns(path: Path) -> int:
    return path.stat().st_mtime_ns


def _cannot(err: OSError, path: Path) -> StoreError:
    if isinstance(err, PermissionError):  # what vfat and exFAT answer
        return StoreError(f"cannot link samples into {path}: the disk has no hard links; move state_dir to another one")
    return store_error(err, path)
