"""A spinning LiDAR: rays to the triangles of a street, losses in rain, points in its own axes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.scenes.domains.kinds import Weather
from fed_core.scenes.driving.view import View
from fed_core.scenes.meshes import Floats

F32 = npt.NDArray[np.float32]

#: Height over the ground and place along the vehicle [m].
HEIGHT_M = 1.8
FORWARD_M = 0.6
#: Elevation of the lowest and the highest beam [deg].
LOWEST_DEG, HIGHEST_DEG = -22.0, 3.5
RANGE_M = 70.0
#: Standard deviation of distances [m]; no error is larger than twice this.
NOISE_M = 0.015
_CLUTTER_M = (1.0, 8.0)
#: Share of the light that comes back from a surface that faces the sensor, by material; else 0.35.
_REFLECTANCE = {"glass": 0.08, "paint": 0.55, "asphalt": 0.15, "marking": 0.60, "lamp": 0.8, "leaves": 0.45}


def lidar_to_ego() -> Floats:
    """Return (4, 4): LiDAR axes x right, y ahead, z up to x ahead, y left, z up."""
    pose = np.eye(4)
    pose[:3, :3] = [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    pose[:3, 3] = [FORWARD_M, 0.0, HEIGHT_M]
    return pose


@dataclass(frozen=True)
class Lidar:
    """How many rays a turn has.

    Attributes:
        beams: rows.
        azimuths: columns.
    """

    beams: int
    azimuths: int

    def directions(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Return unit ray directions (beams * azimuths, 3) in LiDAR axes and the row of each, lowest first."""
        ring, turn = (grid.ravel() for grid in np.mgrid[0 : self.beams, 0 : self.azimuths])
        up = np.radians(np.linspace(LOWEST_DEG, HIGHEST_DEG, self.beams))[ring]
        # Clockwise from the right, as the sensor of nuScenes turns.
        around = -2 * np.pi * turn / self.azimuths
        flat = np.cos(up)
        return np.stack([flat * np.cos(around), flat * np.sin(around), np.sin(up)], 1), ring

    def scan(self, view: View, pose: Floats, weather: Weather, rng: np.random.Generator) -> F32:
        """Return the points of one turn, all at the same time.

        Args:
            view: the street.
            pose: (4, 4) LiDAR to the street's axes.
            weather: losses.
            rng: noise is drawn from it.

        Returns:
            (P, 5) float32 x, y, z [m] in LiDAR axes, intensity 0 to 255, row.
        """
        rays, ring = self.directions()
        ways = (rays @ pose[:3, :3].T).astype(np.float32)
        starts = np.broadcast_to(pose[:3, 3].astype(np.float32), ways.shape).copy()
        hits = view.world.rays.closest(starts, ways)
        distance = hits.t.astype(np.float64)
        face = np.maximum(hits.face, 0)
        corner = view.world.corners[0, face]
        facing = np.abs(np.einsum("ij,ij->i", view.world.attributes[corner, 2:5], ways)).astype(np.float64)
        back = _reflectance(view)[view.world.material[face]] * (0.25 + 0.75 * facing) * weather.echo
        kept = (hits.face >= 0) & (distance < RANGE_M)
        kept &= rng.random(len(kept)) < _returned(distance, facing, view.world.attributes[corner, 4], weather)
        distance = distance + np.clip(rng.normal(0, NOISE_M, len(kept)), -2 * NOISE_M, 2 * NOISE_M)
        drops = rng.random(len(kept)) < weather.clutter
        near = rng.uniform(*_CLUTTER_M, len(kept))
        # A drop is met only in front of what else the ray would meet.
        drops &= near < np.where(np.isfinite(distance), distance, np.inf)
        distance, back = np.where(drops, near, distance), np.where(drops, 0.03, back)
        kept |= drops
        intensity = np.clip(np.round(255 * back * rng.uniform(0.85, 1.15, len(kept))), 0, 255)
        points = np.column_stack([rays[kept] * distance[kept, None], intensity[kept], ring[kept]])
        return points.astype(np.float32)


def _returned(distance: Floats, facing: Floats, upward: F32, weather: Weather) -> Floats:
    """Return the share of pulses that come back; wet ground mirrors grazing ones away."""
    through = (1 - weather.dropout) * np.exp(-np.where(np.isfinite(distance), distance, 0.0) / weather.reach_m)
    mirrored = weather.wet * np.clip(upward, 0, 1) * (1 - np.clip(facing, 0, 1)) ** 2
    result: Floats = through * (1 - 0.8 * mirrored)
    return result


def _reflectance(view: View) -> Floats:
    atlas = view.world.atlas
    result = np.full(len(atlas.numbers), 0.35)
    for name, share in _REFLECTANCE.items():
        for full, number in atlas.numbers.items():
            if full == name or full.endswith(f"_{name}"):
                result[number] = share
    return result


def points_inside(points: npt.NDArray[np.float32], centre: Floats, size: Floats, yaw: float) -> int:
    """Return how many points (P, 3 or more) lie in a box of ``size`` (length, width, height), faces included."""
    local = points[:, :3].astype(np.float64) - centre
    c, s = np.cos(yaw), np.sin(yaw)
    along, across = local[:, 0] * c + local[:, 1] * s, local[:, 1] * c - local[:, 0] * s
    half = size / 2
    return int(((np.abs(along) <= half[0]) & (np.abs(across) <= half[1]) & (np.abs(local[:, 2]) <= half[2])).sum())
