"""Points of a LiDAR in the image of a camera."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Depth = npt.NDArray[np.float32]


def depth_of_points(
    points: npt.NDArray[np.float32],
    to_camera: Floats,
    intrinsics: Floats,
    size: tuple[int, int],
    limits_m: tuple[float, float],
) -> Depth:
    """Return the depth map that a pinhole camera sees of points: one pixel per point, the nearest point wins.

    Args:
        points: (N, 3) float32 metres; points that are not finite see nothing.
        to_camera: (4, 4) from the points' frame to the camera's optical one (x right, y down, z ahead).
        intrinsics: (3, 3) pinhole matrix in pixels, the first pixel's centre at 0.
        size: height and width of the map.
        limits_m: smallest and largest depth that counts, inclusive.

    Returns:
        (H, W) float32 metres along the optical axis, NaN where no point fell.
    """
    height, width = size
    # Columns, since rows of three are slow; float64, since pixels are rounded.
    with np.errstate(invalid="ignore"):
        placed = to_camera[:3, :3] @ points.T.astype(np.float64) + to_camera[:3, 3:]
    ahead = (placed[2] > 0) & (placed[2] >= limits_m[0]) & (placed[2] <= limits_m[1])
    x, y, z = placed[:, ahead & np.isfinite(placed[0]) & np.isfinite(placed[1])]
    (fx, skew, cx), (_, fy, cy) = intrinsics[:2]
    column, row = np.rint((fx * x + skew * y) / z + cx), np.rint(fy * y / z + cy)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    index = (row[inside] * width + column[inside]).astype(np.int64)
    nearest = np.full(height * width, np.inf, np.float32)
    np.minimum.at(nearest, index, z[inside].astype(np.float32))
    nearest[np.isinf(nearest)] = np.nan
    return nearest.reshape(height, width)
