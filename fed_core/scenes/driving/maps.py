"""Maps around a vehicle, drawn as OPV2V draws them: smoothed polygons, forward is up, right is right."""

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.scenes.driving.vehicles import Vehicle
from fed_core.scenes.meshes import Floats

Picture = npt.NDArray[np.uint8]

_SHIFT = 6  # OpenCV takes 1/64 of a pixel
_LINE_M = 0.8  # a lane line must be seen on the map


class MapDrawer:
    """Draws on the map around one vehicle.

    Args:
        carrier: the vehicle in the middle.
        size: side of the map in pixels.
        radius_m: half side of the map in metres.
    """

    def __init__(self, carrier: Vehicle, size: int, radius_m: float) -> None:
        self._size, self._per_m = size, size / (2 * radius_m)
        self._place, self._yaw = np.array(carrier.place), carrier.yaw

    def pixels(self, points: Floats) -> Floats:
        """Return column and row (N, 2) of points (N, 2) in the world."""
        c, s = np.cos(self._yaw), np.sin(self._yaw)
        flat = (points - self._place) @ np.array([[c, -s], [s, c]])  # forward, left
        return np.stack([self._size / 2 - flat[:, 1] * self._per_m, self._size / 2 - flat[:, 0] * self._per_m], 1)

    def polygons(self, shapes: Iterable[Floats]) -> Picture:
        """Return the map (S, S) uint8 with convex polygons (N, 2) in white."""
        picture = np.zeros((self._size, self._size), np.uint8)
        for shape in shapes:
            at = self.pixels(shape)
            if (at.max(0) > -1).all() and (at.min(0) < self._size).all():
                points = np.round(at * 2**_SHIFT).astype(np.int32)
                cv2.fillConvexPoly(picture, points, (255.0,), cv2.LINE_AA, _SHIFT)
        return picture

    def vehicles(self, vehicles: Iterable[Vehicle]) -> Picture:
        """Return the map (S, S) uint8 of vehicles."""
        return self.polygons(vehicle.corners() for vehicle in vehicles)

    def lines(self, lines: Iterable[Floats]) -> Picture:
        """Return the map (S, S) uint8 of lane lines, each (2, 2)."""
        return self.polygons(_widened(line) for line in lines)


def _widened(line: Floats) -> Floats:
    way = line[1] - line[0]
    left = np.array([-way[1], way[0]]) / max(float(np.linalg.norm(way)), 1e-9) * _LINE_M / 2
    return np.array([line[0] - left, line[1] - left, line[1] + left, line[0] + left])
