"""Pictures of a street in its weather: lamps at night, what wet ground mirrors, streaks and drops of rain."""

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.scenes.domains.kinds import Weather
from fed_core.scenes.domains.night import HEADLIGHT, Beam, lamp_gain
from fed_core.scenes.driving.view import SIGHT_M, View
from fed_core.scenes.meshes import Floats
from fed_core.scenes.raycast import Hits
from fed_core.scenes.renderer import Pinhole, render
from fed_core.scenes.scene import World
from fed_core.scenes.shading import shade

F32 = npt.NDArray[np.float32]

#: Ground is what lies lower than this and faces up [m].
_GROUND_M = 0.05
_REFERENCE_PX = 160 * 64
_DRY = 0.02  # reflectance of water straight from above


def picture(view: View, camera: Pinhole, pose: Floats, weather: Weather, beams: Sequence[Beam], *, ahead: bool) -> F32:
    """Return linear light, (H, W, 3), without streaks.

    Args:
        view: the street.
        camera: intrinsics.
        pose: (4, 4) camera to street, optical axes.
        weather: light and rain.
        beams: lamps, for the night.
        ahead: the camera looks where the vehicle's own headlights shine.
    """
    world = replace(view.world, headlight=HEADLIGHT) if weather.night and ahead else view.world
    light = render(world, camera, pose, SIGHT_M)[0]
    if not weather.night and not weather.wet:
        return light
    origin = pose[:3, 3].astype(np.float32)
    ways = (camera.directions() @ pose[:3, :3].T).astype(np.float32)
    hits = world.rays.closest(np.broadcast_to(origin, ways.shape).copy(), ways)
    met = np.flatnonzero(hits.face >= 0)
    points, normals = _surface(world, origin, ways[met], _some(hits, met))
    flat = light.reshape(-1, 3)
    if weather.night:
        flat[met] *= lamp_gain(world.sky, points, normals, beams)
    if weather.wet:
        wet = (points[:, 2] < _GROUND_M) & (normals[:, 2] > 0.99)
        ground = met[wet]
        mirrored = _mirrored(world, origin, ways[ground], hits.t[ground], 1 / camera.focal_px, beams, weather)
        share = weather.wet * _water(points[wet]) * _fresnel(ways[ground])
        flat[ground] += share[:, None] * (mirrored - flat[ground])
    return light


def _some(hits: Hits, index: npt.NDArray[np.intp]) -> Hits:
    return Hits(hits.t[index], hits.face[index], hits.u[index], hits.v[index])


def _surface(world: World, origin: F32, ways: F32, hits: Hits) -> tuple[Floats, Floats]:
    """Return place and normal, (N, 3) each, of what was hit."""
    points = origin + hits.t[:, None] * ways
    normals = world.attributes[world.corners[0, hits.face], 2:5]
    return points.astype(np.float64), normals.astype(np.float64)


def _mirrored(
    world: World, origin: F32, ways: F32, reach: F32, pixel_rad: float, beams: Sequence[Beam], weather: Weather
) -> F32:
    """Return the radiance (N, 3) that still water at height 0 throws back; ``reach`` (N,) is where rays meet it.

    It is what a camera as far below the ground as ours is above it would see from there on.
    """
    flip = np.array([1, 1, -1], np.float32)
    start, below = origin * flip, ways * flip
    lift = reach * np.float32(1.0005) + np.float32(0.02)
    hits = world.rays.closest(start + lift[:, None] * below, below)
    hits = Hits(hits.t + lift, hits.face, hits.u, hits.v)
    light = shade(world, start, below, hits, pixel_rad)
    if weather.night:
        met = np.flatnonzero(hits.face >= 0)
        points, normals = _surface(world, start, below[met], _some(hits, met))
        light[met] *= lamp_gain(world.sky, points, normals, beams)
    return light


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
