"""NpzFrames: folders of .npz files, one frame each, as arrays ``rgb`` and ``depth_m`` beside a ``camera.txt``.

``rgb`` is (H, W, 3) uint8, ``depth_m`` (H, W) float32 metres with 0 or NaN where no depth is known. ``camera.txt``
holds fx fy cx cy in pixels. Files follow each other by name.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fed_core.data.intrinsics import pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.readers.base import DEFAULT_FRAME_ID, FolderReader, readers, stamps_from_names
from fed_core.data.units import require_same_size, require_some_depth
from fed_core.errors import DataError
from fed_core.types import DepthFrame

CAMERA = "camera.txt"


@dataclass
class NpzFramesSequence:
    """Frames of one folder.

    Attributes:
        name: short name.
        source: the folder.
        files: in time order.
        stamps_ns: their times.
        intrinsics: (3, 3) float64 pixels.
        frame_id: optical frame.
    """

    name: str
    source: str
    files: list[Path]
    stamps_ns: list[int]
    intrinsics: npt.NDArray[np.float64]
    frame_id: str

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.files)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read frame ``index``; a broken file raises :class:`DataError`."""
        file = self.files[index]
        try:
            with np.load(file, allow_pickle=False) as arrays:
                rgb, depth_m = arrays["rgb"], arrays["depth_m"].astype(np.float32)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as err:
            raise DataError(f"{file} is no frame of arrays rgb and depth_m: {err}") from err
        if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8:
            raise DataError(f"{file}: rgb is {rgb.dtype} {rgb.shape}, expected uint8 (H, W, 3)")
        depth_m[depth_m <= 0.0] = np.nan
        require_same_size(rgb, depth_m, str(file))
        require_some_depth(depth_m, str(file))
        return DepthFrame(rgb, depth_m, self.stamps_ns[index], self.intrinsics.copy(), self.frame_id)


@readers.register("npz_frames")
class NpzFrames(FolderReader):
    """Reader of these folders; ``layout`` is shown when no reader knows a folder."""

    layout = "*.npz with rgb and depth_m beside camera.txt"

    def matches(self, path: Path) -> bool:
        """Tell whether camera.txt and .npz files are there."""
        return (path / CAMERA).is_file() and any(path.glob("*.npz"))

    def open(self, path: Path, options: OpenOptions) -> NpzFramesSequence:
        """Return the recording; ``intrinsics`` of the caller beat camera.txt."""
        files = sorted(path.glob("*.npz"))
        if not files:
            raise DataError(f"{path} holds no .npz file; expected {self.layout}")
        return NpzFramesSequence(
            options.name or path.resolve().name,
            str(path),
            files,
            stamps_from_names(files, options),
            pinhole(options.intrinsics or _camera(path / CAMERA)),
            options.frame_id or DEFAULT_FRAME_ID,
        )


def _camera(file: Path) -> tuple[float, ...]:
    try:
        values = tuple(float(word) for word in file.read_text(encoding="utf-8").split())
    except (OSError, ValueError) as err:
        raise DataError(f"cannot read {file}: {err}; write fx fy cx cy in pixels into it") from err
    if len(values) != 4 or not min(values[:2]) > 0.0:
        raise DataError(f"{file} holds {values}; expected fx fy cx cy in pixels, focal lengths above 0")
    return values
