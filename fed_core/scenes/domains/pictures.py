"""Pictures of a street in its weather: lamps at night, what wet ground mirrors, streaks and drops of rain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.scenes.domains.kinds import Weather
from fed_core.scenes.domains.night import HEADLIGHT, Beam, lamp_gain
from fed_core.scenes.driving.view import View
from fed_core.scenes.meshes import Floats
from fed_core.scenes.raycast import Hits
from fed_core.scenes.renderer import Pinhole
from fed_core.scenes.scene import World
from fed_core.scenes.shading import shade

F32 = npt.NDArray[np.float32]

#: Ground is what lies lower than this and faces up [m].
_GROUND_M = 0.05
_REFERENCE_PX = 160 * 64
_DRY = 0.02  # reflectance of water straight from above


@dataclass(frozen=True)
class _Shot:
    """What rays of one camera meet, and its light.

    Attributes:
        world: the street.
        beams: lamps; none by day.
        pixel_rad: angle of one pixel.
    """

    world: World
    beams: Sequence[Beam]
    pixel_rad: float

    def surface(self, origin: F32, ways: F32, hits: Hits) -> tuple[Floats, Floats]:
        """Return place and normal, (N, 3) each, of what was hit."""
        points = origin + hits.t[:, None] * ways
        normals = self.world.attributes[self.world.corners[0, hits.face], 2:5]
        return points.astype(np.float64), normals.astype(np.float64)

    def gain(self, points: Floats, normals: Floats) -> F32:
        """Return the factor (N, 3) of the lamps' light."""
        return lamp_gain(self.world.sky, points, normals, self.beams)

    def mirrored(self, origin: F32, ways: F32, reach: F32) -> F32:
        """Return the radiance (N, 3) that still water at height 0 throws back; ``reach`` (N,) is where rays meet it.

        It is what a camera as far below the ground as ours is above it would see from there on.
        """
        flip = np.array([1, 1, -1], np.float32)
        start, below = origin * flip, ways * flip
        lift = reach * np.float32(1.0005) + np.float32(0.02)
        hits = self.world.rays.closest(start + lift[:, None] * below, below)
        hits = Hits(hits.t + lift, hits.face, hits.u, hits.v)
        light = shade(self.world, start, below, hits, self.pixel_rad)
        if self.beams:
            met = np.flatnonzero(hits.face >= 0)
            light[met] *= self.gain(*self.surface(start, below[met], _some(hits, met)))
        return light


def picture(view: View, camera: Pinhole, pose: Floats, weather: Weather, beams: Sequence[Beam]) -> F32:
    """Return linear light, (H, W, 3), without streaks.

    Args:
        view: the street; at night with the vehicle's own headlight where the camera looks ahead.
        camera: intrinsics.
        pose: (4, 4) camera to street, optical axes.
        weather: light and rain.
        beams: lamps; none by day.
    """
    light = view.picture(camera, pose)
    if not beams and not weather.wet:
        return light
    shot, origin = _Shot(view.world, beams, 1 / camera.focal_px), pose[:3, 3].astype(np.float32)
    ways = (camera.directions() @ pose[:3, :3].T).astype(np.float32)
    hits = view.world.rays.closest(np.broadcast_to(origin, ways.shape).copy(), ways)
    met = np.flatnonzero(hits.face >= 0)
    points, normals = shot.surface(origin, ways[met], _some(hits, met))
    flat = light.reshape(-1, 3)
    if beams:
        flat[met] *= shot.gain(points, normals)
    if weather.wet:
        wet = (points[:, 2] < _GROUND_M) & (normals[:, 2] > 0.99)
        ground = met[wet]
        share = weather.wet * _water(points[wet]) * _fresnel(ways[ground])
        flat[ground] += share[:, None] * (shot.mirrored(origin, ways[ground], hits.t[ground]) - flat[ground])
    return light


def with_headlight(view: View) -> View:
    """Return the street as lit by the vehicle's own headlights, for cameras that look ahead."""
    return replace(view, world=replace(view.world, headlight=HEADLIGHT))


def _some(hits: Hits, index: npt.NDArray[np.intp]) -> Hits:
    return Hits(hits.t[index], hits.face[index], hits.u[index], hits.v[index])


def _fresnel(ways: F32) -> F32:
    cosine = -ways[:, 2] / np.sqrt(np.einsum("ij,ij->i", ways, ways))
    share: F32 = _DRY + (1 - _DRY) * (1 - np.clip(cosine, 0, 1)) ** np.float32(5)
    return share


def _water(points: Floats) -> Floats:
    """Return 0.35 to 1, (N,): puddles and a thin film between them, fixed to the ground."""
    x, y = points[:, 0], points[:, 1]
    waves = np.sin(0.55 * x + 0.8 * np.sin(0.43 * y)) + np.sin(0.81 * y + 1.1 * np.sin(0.29 * x) + 2.0)
    return np.asarray(np.clip(0.65 + 0.35 * waves, 0.35, 1.0))


def with_rain(light: F32, weather: Weather, rng: np.random.Generator) -> F32:
    """Return the picture (H, W, 3) with streaks of falling rain and a few drops on the glass."""
    if not weather.rain:
        return light
    height, width = light.shape[:2]
    streaks = np.zeros((height, width), np.float32)
    slant = float(rng.normal(0, 0.12))
    for _ in range(int(rng.poisson(weather.rain * height * width / _REFERENCE_PX))):
        x, y = rng.uniform(0, width), rng.uniform(-0.1 * height, height)
        long = float(rng.uniform(0.06, 0.22)) * height
        ends = [(int(16 * a), int(16 * b)) for a, b in ((x, y), (x + slant * long, y + long))]
        cv2.line(streaks, ends[0], ends[1], (float(rng.uniform(0.08, 0.28)),), 1, cv2.LINE_AA, 4)
    tone = np.float32(1.25) * light.mean((0, 1)) + np.float32(0.01)
    light = light + streaks[..., None] * (tone - light)
    return _with_drops(light, rng)


def _with_drops(light: F32, rng: np.random.Generator) -> F32:
    """Return the picture with soft blots where drops sit on the glass."""
    height, width = light.shape[:2]
    soft = cv2.GaussianBlur(light, (0, 0), height / 20)
    share = np.zeros((height, width), np.float32)
    for _ in range(int(rng.poisson(5))):
        at = int(rng.uniform(0, width)), int(rng.uniform(0, height))
        cv2.circle(share, at, max(1, int(rng.uniform(0.02, 0.06) * height)), (0.8,), -1, cv2.LINE_AA)
    result: F32 = light + share[..., None] * (np.asarray(soft, np.float32) - light)
    return result
