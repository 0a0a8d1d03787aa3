"""Closed paths that robots follow, known by distance along them."""

import numpy as np
import numpy.typing as npt

from fed_core.scenes.meshes import Floats

STEP_M = 0.25


class Route:
    """A closed smooth path over the ground.

    Args:
        corners: (N, 3) metres, joined in a loop by straight lines.
        smooth_m: length over which corners are rounded.
    """

    def __init__(self, corners: Floats, smooth_m: float) -> None:
        points = _resampled(np.asarray(corners, float))
        window = max(1, round(smooth_m / STEP_M))
        self.points = _resampled(_rounded(_rounded(points, window), window))
        self.length_m = float(np.linalg.norm(np.diff(self.points, axis=0, append=self.points[:1]), axis=1).sum())
        self._smooth = _rounded(self.points, 12)  # 3 m: headings must not jump

    def point(self, distance_m: float) -> Floats:
        """Return the position (3,) in metres."""
        return self._at(self.points, distance_m)

    def heading(self, distance_m: float) -> float:
        """Return the direction of travel in radians, anticlockwise from x."""
        ahead = self._at(self._smooth, distance_m + 0.6) - self._at(self._smooth, distance_m - 0.6)
        return float(np.arctan2(ahead[1], ahead[0]))

    def distance_to(self, xy: Floats) -> Floats:
        """Return the distance in the plane from points (N, 2) to the path, (N,) metres."""
        path = self.points[:: max(1, round(0.5 / STEP_M)), :2]
        gaps = np.linalg.norm(xy[:, None, :] - path[None, :, :], axis=2)
        result: npt.NDArray[np.float64] = gaps.min(1)
        return result

    def _at(self, points: Floats, distance_m: float) -> Floats:
        place = distance_m / self.length_m * len(points) % len(points)
        i = int(place) % len(points)
        f = place - int(place)
        result: Floats = points[i] * (1 - f) + points[(i + 1) % len(points)] * f
        return result


def rectangle(half_x: float, half_y: float, center: tuple[float, float] = (0.0, 0.0), z: float = 0.0) -> Floats:
    """Return the corners, (4, 3), of an anticlockwise rectangle."""
    x, y = center
    signs = ((1, -1), (1, 1), (-1, 1), (-1, -1))
    return np.array([[x + sx * half_x, y + sy * half_y, z] for sx, sy in signs], float)


def _resampled(points: Floats) -> Floats:
    closed = np.vstack([points, points[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    count = max(8, round(along[-1] / STEP_M))
    at = np.arange(count) * along[-1] / count
    return np.stack([np.interp(at, along, closed[:, k]) for k in range(3)], 1)


def _rounded(points: Floats, window: int) -> Floats:
    """Return the running mean over ``window`` points around the loop."""
    padded = np.concatenate([points[-window:], points, points[:window]])
    total = np.cumsum(np.vstack([np.zeros((1, 3)), padded]), axis=0)
    half = window // 2
    start = np.arange(len(points)) + window - half
    result: Floats = (total[start + window] - total[start]) / window
    return result
