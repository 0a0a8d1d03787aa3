"""Files of an M3ED recording, opened so that one image at a time is in memory; each fault is one line."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError
from fed_core.extras import needs
from fed_core.types import Array

DATA, DEPTH, VIDEO = "_data.h5", "_depth_gt.h5", "_rgb.avi"
IMAGES, IMAGE_TIMES = "ovc/rgb/data", "ovc/ts"
DEPTHS, DEPTH_TIMES, POSES = "depth/prophesee/left", "ts", "Cn_T_C0"
GROUP_RIGHT = "prophesee/right/calib"

#: Largest HDF5 chunk that is read; the published files hold one image (3 MB) per chunk.
_MAX_CHUNK_BYTES = 128 << 20
_CACHE_BYTES = 16 << 20

Micros = npt.NDArray[np.int64]


@dataclass(frozen=True)
class M3edFiles:
    """Files of one recording.

    Attributes:
        name: name of the recording ("car_forest_sand_1").
        data: ``<name>_data.h5``: calibration, times, and mostly the images.
        depth: ``<name>_depth_gt.h5``.
        video: ``<name>_rgb.avi``; None where it is not there.
    """

    name: str
    data: Path
    depth: Path
    video: Path | None = None


def holds_m3ed(folder: Path) -> bool:
    """Tell whether a folder has files named like M3ED's."""
    return any(any(folder.glob(f"*{suffix}")) for suffix in (DATA, DEPTH))


def recording_names(folder: Path) -> list[str]:
    """Return the names of the recordings whose ``_data.h5`` or ``_depth_gt.h5`` lie in a folder, sorted."""
    return sorted({f.name[: -len(end)] for end in (DATA, DEPTH) for f in folder.glob(f"*{end}")})


def find_files(folder: Path, name: str = "") -> M3edFiles:
    """Return the files of a recording.

    Args:
        folder: holds ``<name>_data.h5`` and ``<name>_depth_gt.h5``.
        name: which recording; needed only where the folder holds several.

    Raises:
        DataError: a file is missing, or the files are of several recordings.
    """
    names = recording_names(folder)
    if not names:
        raise DataError(f"{folder} holds no M3ED recording; it needs <name>{DATA} and <name>{DEPTH}")
    if name not in names:
        name = names[0]
        with_data, with_depth = ([n for n in names if (folder / f"{n}{end}").is_file()] for end in (DATA, DEPTH))
        if len(names) > 1 and len(with_data) == len(with_depth) == 1:
            raise DataError(
                f"{folder} holds images of {with_data[0]} but depth of {with_depth[0]}; "
                "put the two files of one recording into it"
            )
        if len(names) > 1:
            raise DataError(f"{folder} holds {len(names)} recordings; name one: {', '.join(names[:8])}")
    data, depth, video = (folder / f"{name}{suffix}" for suffix in (DATA, DEPTH, VIDEO))
    for file, what in ((data, "calibration and image times"), (depth, "depth")):
        if not file.is_file():
            raise DataError(
                f"{folder}: recording {name} has no {what}; {file.name} is missing (M3ED's test files have no depth)"
            )
    return M3edFiles(name, data, depth, video if video.is_file() else None)


def open_hdf5(path: Path) -> Any:
    """Open an HDF5 file for reading, with a small cache; a broken file raises :class:`DataError`."""
    with needs("depth", f"{path} is HDF5 and needs h5py", DataError):
        h5py = import_module("h5py")
    try:
        return h5py.File(path, "r", rdcc_nbytes=_CACHE_BYTES)
    except OSError as err:
        reason = " ".join(str(err).split())
        if "truncated" in reason:
            raise DataError(f"{path} is cut off; copy or download it again ({reason})") from err
        raise DataError(f"{path} cannot be read as HDF5; is the download complete? ({reason})") from err


def image_stack(file: Any, key: str, path: Path, tail: tuple[int, ...]) -> Any:
    """Return the dataset ``key`` of images after a check of its shape; nothing is read yet.

    Args:
        file: open HDF5 file.
        key: path of the dataset.
        path: path of the file, for messages.
        tail: the shape that one image must have.
    """
    if key not in file:
        raise DataError(f"{path} has no /{key}")
    stack = file[key]
    if tuple(stack.shape[1:]) != tail:
        found, wanted = (" x ".join(map(str, shape)) for shape in (stack.shape[1:], tail))
        raise DataError(f"{path}, /{key}: images are {found}; the calibration says {wanted}")
    chunk_bytes = int(np.prod(stack.chunks or (1,), dtype=np.int64)) * stack.dtype.itemsize
    if chunk_bytes > _MAX_CHUNK_BYTES:
        raise DataError(
            f"{path}, /{key}: chunks of {chunk_bytes >> 20} MiB would fill the memory; "
            "write the file anew with one image per chunk (h5repack)"
        )
    return stack


def read_image(stack: Any, index: int, path: Path) -> Array:
    """Return one image of a stack; a damaged chunk raises :class:`DataError`."""
    try:
        return np.asarray(stack[index])
    except OSError as err:
        raise DataError(f"{path}, {stack.name}: image {index} is damaged ({' '.join(str(err).split())})") from err


def read_times(file: Any, key: str, path: Path) -> Micros:
    """Return times in microseconds, (N,) int64; older files store them as floats.

    Raises:
        DataError: missing, empty, not finite, or not growing.
    """
    if key not in file:
        raise DataError(f"{path} has no times /{key}")
    raw = np.asarray(file[key][()])
    if raw.ndim != 1 or raw.size == 0 or not np.isfinite(raw).all():
        raise DataError(f"{path}, /{key}: expected a list of times, got shape {raw.shape}")
    times = np.rint(raw).astype(np.int64) if raw.dtype.kind == "f" else raw.astype(np.int64)
    back = np.flatnonzero(np.diff(times) <= 0)
    if back.size:
        i = int(back[0])
        raise DataError(f"{path}, /{key} runs backwards: {times[i + 1]} us follows {times[i]} us at index {i + 1}")
    return times


def require_counts(path: Path, counts: Sequence[tuple[str, int]]) -> None:
    """Raise :class:`DataError` where the named counts differ; the first is the reference."""
    (first, expected), *others = counts
    for name, count in others:
        if count != expected:
            raise DataError(f"{path} has {expected} {first} but {count} {name}; the files do not belong together")
