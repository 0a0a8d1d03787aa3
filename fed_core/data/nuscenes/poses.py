"""Poses of the nuScenes tables: a translation and a quaternion (w, x, y, z)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError

Floats = npt.NDArray[np.float64]


def turn_of(rotation: Any) -> Floats:
    """Return the rotation matrix (3, 3) of a quaternion (w, x, y, z), which need not have length 1.

    Raises:
        DataError: it has no four finite numbers, or no length.
    """
    q = np.asarray(rotation, dtype=np.float64)
    norm = float(np.linalg.norm(q)) if q.shape == (4,) else 0.0
    if not (np.isfinite(norm) and norm > 0.0):
        raise DataError(f"rotation {rotation} is no quaternion (w, x, y, z)")
    w, x, y, z = q / norm
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_of(record: Mapping[str, Any]) -> Floats:
    """Return (4, 4) of a record with ``translation`` [m] and ``rotation``: sensor to vehicle, or vehicle to map."""
    matrix = np.eye(4)
    matrix[:3, :3] = turn_of(record["rotation"])
    matrix[:3, 3] = record["translation"]
    if not np.isfinite(matrix).all():
        raise DataError(f"translation {record['translation']} is not finite")
    return matrix


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a rigid (4, 4) matrix."""
    result = np.eye(4)
    result[:3, :3] = matrix[:3, :3].T
    result[:3, 3] = -matrix[:3, :3].T @ matrix[:3, 3]
    return result


def quaternion_of(turn: Floats) -> list[float]:
    """Return the quaternion (w, x, y, z) of a rotation matrix (3, 3), w not negative."""
    # The eigenvector of the largest eigenvalue: exact for rotations, and the nearest one for what is almost one.
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = turn
    lower = np.array(
        [
            [xx + yy + zz, 0.0, 0.0, 0.0],
            [zy - yz, xx - yy - zz, 0.0, 0.0],
            [xz - zx, yx + xy, yy - xx - zz, 0.0],
            [yx - xy, zx + xz, zy + yz, zz - xx - yy],
        ]
    )
    q = np.linalg.eigh(lower)[1][:, -1]
    q = -q if q[0] < 0 else q
    return [float(value) for value in q]


def pose_of(matrix: Floats) -> dict[str, list[float]]:
    """Return ``translation`` and ``rotation`` of a rigid (4, 4) matrix, what :func:`matrix_of` reads."""
    return {"translation": [float(value) for value in matrix[:3, 3]], "rotation": quaternion_of(matrix[:3, :3])}
