"""Pinhole matrices from the small files that recordings carry."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.data.image_files import read_text
from fed_core.errors import DataError

Matrix = npt.NDArray[np.float64]


def pinhole(values: Sequence[float]) -> Matrix:
    """Return the (3, 3) float64 matrix of (fx, fy, cx, cy) in pixels."""
    fx, fy, cx, cy = values
    return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]], dtype=np.float64)


def checked(matrix: Any, where: str) -> Matrix:
    """Return 9 numbers (row by row) as (3, 3) float64; a matrix without focal lengths raises :class:`DataError`."""
    try:
        k = np.array(matrix, dtype=np.float64).reshape(3, 3)
    except (TypeError, ValueError) as err:
        raise DataError(f"{where}: intrinsics need 9 numbers") from err
    if not np.isfinite(k).all() or k[0, 0] <= 0 or k[1, 1] <= 0:
        raise DataError(f"{where}: intrinsics have no positive focal length; state them with intrinsics: fx fy cx cy")
    return k


def from_matrix_text(path: Path) -> Matrix:
    """Read a text file of 3x3 numbers."""
    try:
        return checked([float(word) for word in read_text(path).split()], str(path))
    except ValueError as err:
        raise DataError(f"{path}: intrinsics need 9 numbers") from err


def from_camera_json(path: Path) -> Matrix:
    """Read a camera JSON of Open3D: ``intrinsic_matrix``, 9 numbers column by column."""
    tree = read_json(path)
    values = tree.get("intrinsic_matrix") if isinstance(tree, dict) else None
    where = f"{path}, intrinsic_matrix"
    if not isinstance(values, list) or len(values) != 9:
        raise DataError(f"{where}: intrinsics need 9 numbers")
    return checked([values[3 * column + row] for row in range(3) for column in range(3)], where)


def from_kitti_calib(path: Path, keys: Sequence[str]) -> Matrix | None:
    """Read the first three columns of a 3x4 projection of a KITTI calibration file; None where no key is in it."""
    for line in read_text(path).splitlines():
        key, _, rest = line.partition(":")
        if key.strip() not in keys:
            continue
        try:
            projection = np.array([float(word) for word in rest.split()]).reshape(3, 4)
        except ValueError as err:
            raise DataError(f"{path}: {key.strip()} needs 12 numbers") from err
        return checked(projection[:, :3], f"{path}, {key.strip()}")
    return None


def read_json(path: Path) -> Any:
    """Return the tree of a JSON file; a broken file raises :class:`DataError`."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as err:
        raise DataError(f"{path} is not valid JSON: {err.msg} in line {err.lineno}") from err
