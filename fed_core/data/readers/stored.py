"""Prepared recordings: the sequence store of :mod:`fed_core.data.store`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.data.image_files import read_depth_counts, read_rgb
from fed_core.data.options import OpenOptions
from fed_core.data.readers.base import FolderReader, readers
from fed_core.data.store import INDEX, UNIT, read_index
from fed_core.data.units import DepthCoding, require_same_size
from fed_core.errors import DataError
from fed_core.types import DepthFrame

_KEYS = ("file", "stamp_ns", "intrinsics", "frame_id")


@dataclass
class StoredSequence:
    """Frames of a store.

    Attributes:
        name: of the recording.
        source: the folder.
        info: what was noted with it (platform, environment, site).
        frames: entries of the index.
    """

    name: str
    source: str
    info: dict[str, str]
    frames: list[dict[str, Any]]

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.frames)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read frame ``index``; a broken file raises :class:`DataError`."""
        entry, folder = self.frames[index], Path(self.source)
        rgb = read_rgb(folder / "rgb" / entry["file"])
        depth_m = DepthCoding(UNIT).decode(read_depth_counts(folder / "depth" / entry["file"]))
        require_same_size(rgb, depth_m, str(folder / "depth" / entry["file"]))
        matrix = np.array(entry["intrinsics"], np.float64).reshape(3, 3)
        return DepthFrame(rgb, depth_m, int(entry["stamp_ns"]), matrix, str(entry["frame_id"]))


@readers.register("stored")
class Stored(FolderReader):
    """A recording prepared by ``fedperc prepare`` or by a study."""

    layout = "index.json, rgb/*.png and depth/*.png of 1/256 m, as fedperc prepare writes them"

    def matches(self, path: Path) -> bool:
        """Tell whether the index is there."""
        return (path / INDEX).is_file()

    def open(self, path: Path, options: OpenOptions) -> StoredSequence:
        """Return the recording; of the options only ``name`` applies, the rest is in the store."""
        tree = read_index(path)
        frames = tree.get("frames")
        if not isinstance(frames, list) or not frames or any(key not in f for f in frames for key in _KEYS):
            raise DataError(f"{path / INDEX} lists no complete frame; delete the folder and prepare it again")
        info = {str(key): str(value) for key, value in dict(tree.get("info", {})).items()}
        return StoredSequence(options.name or str(tree.get("name", path.name)), str(path), info, frames)
