"""Masks of the map around a vehicle: what is there, and where cameras look at all (AMCM)."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.image_files import read_bytes
from fed_core.data.images import decode_file
from fed_core.data.opv2v.cameras import RADIUS_M, cell_centres
from fed_core.data.opv2v.poses import Rig
from fed_core.errors import DataError

Mask = npt.NDArray[np.bool_]

FRONT, RIGHT, LEFT, BACK = range(4)


def read_mask(path: Path, size: int) -> Mask:
    """Return a mask file, (S, S) bool, True where it is not black: borders are smoothed and count.

    Raises:
        DataError: the file is missing, broken, or of another size.
    """
    image = decode_file(read_bytes(path), cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None:
        raise DataError(f"{path} cannot be read as an image; the file is broken or cut off")
    if image.shape[:2] != (size, size):
        raise DataError(f"{path} is {image.shape[1]}x{image.shape[0]}; masks of this data set are {size}x{size}")
    colours = image[..., :3] if image.ndim == 3 else image[..., None]  # an alpha channel says nothing
    return np.asarray((colours > 0).any(-1))


def pooled(mask: Mask, cells: int) -> Mask:
    """Return a mask (S, S) with ``cells`` cells on a side: a coarse cell is True where any of its parts is."""
    if cells < 1 or mask.shape[0] % cells:
        raise DataError(f"a mask of {mask.shape[0]} cells cannot be reduced to {cells}; {cells} must divide it")
    step = mask.shape[0] // cells
    return np.asarray(mask.reshape(cells, step, cells, step).any((1, 3)))


@lru_cache(maxsize=8)
def sectors(size: int) -> npt.NDArray[np.int8]:
    """Return which camera each cell of a map (S, S) belongs to by AMCM: 0 up, 1 right, 2 left, 3 down.

    The map is cut along its diagonals, so sectors do not overlap and leave nothing out (feddwa spec 8).
    """
    row, column = np.mgrid[0:size, 0:size]
    half = size / 2
    camera = np.where(column < half, LEFT, RIGHT)
    camera[(row < half) & (row <= column) & (column < size - row)] = FRONT
    camera[(row >= half) & (size - row <= column) & (column < row)] = BACK
    result = camera.astype(np.int8)
    result.setflags(write=False)
    return result


def sector_mask(size: int, cameras: Sequence[int]) -> Mask:
    """Return the cells (S, S) in the sectors of ``cameras``."""
    return np.isin(sectors(size), list(cameras))


def fov_mask(size: int, rig: Rig, widths: Sequence[int], radius_m: float = RADIUS_M) -> Mask:
    """Return the cells (S, S) between the left and right border of the picture of any camera.

    Args:
        size: S.
        rig: the cameras.
        widths: width of each picture in pixels.
        radius_m: half side of the map.
    """
    masks = [
        _wedge(size, matrix.tobytes(), pose.tobytes(), int(width), radius_m)
        for matrix, pose, width in zip(rig.intrinsics, rig.extrinsics.round(3), widths, strict=True)
    ]
    return np.asarray(np.any(masks, axis=0)) if masks else np.zeros((size, size), np.bool_)


@lru_cache(maxsize=64)
def _wedge(size: int, matrix: bytes, pose: bytes, width: int, radius_m: float) -> Mask:
    """Return the cells that one camera looks at; mounts rarely change, so this is worked out once for each."""
    intrinsics = np.frombuffer(matrix).reshape(3, 3)
    extrinsics = np.frombuffer(pose).reshape(4, 4)
    flat = cell_centres(size, radius_m=radius_m) - extrinsics[:2, 3]
    heading = np.arctan2(extrinsics[1, 0], extrinsics[0, 0])
    ahead = flat @ np.array([np.cos(heading), np.sin(heading)])
    aside = flat @ np.array([-np.sin(heading), np.cos(heading)])
    left, right = -intrinsics[0, 2] / intrinsics[0, 0], (width - intrinsics[0, 2]) / intrinsics[0, 0]
    return np.asarray((ahead > 0) & (left * ahead <= aside) & (aside <= right * ahead))
