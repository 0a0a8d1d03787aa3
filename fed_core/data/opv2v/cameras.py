"""From pixels to the map around a vehicle and back (feddwa spec 4.2).

Pixels are counted as CARLA does: pixel (column, row) covers column..column + 1, its centre lies at + 0.5, and the
optical axis of a W x H picture passes through (W / 2, H / 2). So a resized picture needs its matrix scaled, no more.

``reference`` is what the published network does: it takes the camera's right/down/forward for the map's
forward/right/up, looks up an unscaled matrix, and believes that y points to the left. It is here to be compared with.
"""

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError

Floats = npt.NDArray[np.float64]

CORRECTED, REFERENCE = "corrected", "reference"
#: Optical axes (right, down, forward) to CARLA's (forward, right, up).
OPTICAL_TO_CARLA = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
#: Half side of a map [m].
RADIUS_M = 50.0


def scaled(intrinsics: Floats, old: tuple[int, int], new: tuple[int, int]) -> Floats:
    """Return the matrix (3, 3) of a picture resized from ``old`` to ``new`` (width, height)."""
    factor = np.array([new[0] / old[0], new[1] / old[1], 1.0])
    result: Floats = intrinsics * factor[:, None]
    return result


def rays(pixels: Floats, intrinsics: Floats, extrinsics: Floats, geometry: str = CORRECTED) -> Floats:
    """Return directions (N, 3) in vehicle axes, not of unit length.

    Args:
        pixels: (N, 2) column and row.
        intrinsics: (3, 3) pixels.
        extrinsics: (4, 4) camera to vehicle.
        geometry: "corrected", or "reference" for the published network's confusion of axes.
    """
    optical = np.column_stack([pixels, np.ones(len(pixels))]) @ np.linalg.inv(intrinsics).T
    axes = OPTICAL_TO_CARLA if _is_corrected(geometry) else np.eye(3)
    result: Floats = optical @ axes.T @ extrinsics[:3, :3].T
    return result


def project(points: Floats, intrinsics: Floats, extrinsics: Floats) -> tuple[Floats, Floats]:
    """Return where points are seen: (N, 2) pixels, NaN behind the camera, and (N,) distance along its axis [m].

    Args:
        points: (N, 3) metres in vehicle axes.
        intrinsics: (3, 3) pixels.
        extrinsics: (4, 4) camera to vehicle.
    """
    camera = (points - extrinsics[:3, 3]) @ extrinsics[:3, :3]
    optical = camera @ OPTICAL_TO_CARLA
    depth = optical[:, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        image = (optical @ intrinsics.T)[:, :2] / depth[:, None]
    return np.where(depth[:, None] > 0, image, np.nan), depth


def on_ground(
    pixels: Floats, intrinsics: Floats, extrinsics: Floats, geometry: str = CORRECTED, ground_m: float = 0.0
) -> Floats:
    """Return where the rays of pixels meet the ground, (N, 2) metres forward and right; NaN where they do not.

    Args:
        pixels: (N, 2) column and row.
        intrinsics: (3, 3) pixels.
        extrinsics: (4, 4) camera to vehicle.
        geometry: see :func:`rays`.
        ground_m: height of the ground in vehicle axes.
    """
    way, start = rays(pixels, intrinsics, extrinsics, geometry), extrinsics[:3, 3]
    with np.errstate(divide="ignore", invalid="ignore"):
        length = (ground_m - start[2]) / way[:, 2]
    length = np.where(np.isfinite(length) & (length > 0), length, np.nan)
    result: Floats = start[:2] + length[:, None] * way[:, :2]
    return result


def cell_centres(size: int, step: int = 1, geometry: str = CORRECTED, radius_m: float = RADIUS_M) -> Floats:
    """Return metres forward and right of the cells of a map, (size / step, size / step, 2).

    Args:
        size: S, side of the full map in cells.
        step: side of a coarse cell in full ones (2, 4, 8); its centre is the mean of theirs.
        geometry: "reference" mirrors y and stretches the map so that the outer cells sit at the radius.
        radius_m: half side of the map.
    """
    if step < 1 or size % step:
        raise DataError(f"a map of {size} cells cannot be cut into cells of {step}")
    place = np.arange(size // step, dtype=np.float64)
    if _is_corrected(geometry):
        forward = (size / 2 - (step * place + (step - 1) / 2)) * (2 * radius_m / size)
        right = -forward
    else:
        forward = radius_m - 2 * radius_m * place / max(1, size // step - 1)
        right = forward
    return np.stack(np.meshgrid(forward, right, indexing="ij"), -1)


def to_cells(points: Floats, size: int, radius_m: float = RADIUS_M) -> Floats:
    """Return row and column (N, 2), fractional, of metres forward and right (N, 2); whole numbers are centres."""
    result: Floats = size / 2 + np.asarray(points) * np.array([-1.0, 1.0]) * (size / (2 * radius_m))
    return result


def _is_corrected(geometry: str) -> bool:
    if geometry not in (CORRECTED, REFERENCE):
        raise DataError(f"geometry {geometry!r} is not known; choose {CORRECTED} or {REFERENCE}")
    return geometry == CORRECTED
