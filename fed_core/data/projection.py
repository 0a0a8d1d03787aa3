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
    # float64: far from the origin float32 would move points by centimetres.
    finite = points[np.isfinite(points).all(1)].astype(np.float64)
    placed = finite @ to_camera[:3, :3].T + to_camera[:3, 3]
    z = placed[:, 2]
    placed = placed[(z > 0) & (z >= limits_m[0]) & (z <= limits_m[1])]
    pixels = placed @ intrinsics.T
    column, row = np.rint(pixels[:, :2] / pixels[:, 2:]).T
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    index = (row[inside] * width + column[inside]).astype(np.int64)
    nearest = np.full(height * width, np.inf, np.float32)
    np.minimum.at(nearest, index, placed[inside, 2].astype(np.float32))
    nearest[np.isinf(nearest)] = np.nan
    return nearest.reshape(height, width)
