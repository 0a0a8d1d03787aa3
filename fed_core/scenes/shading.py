"""Light and colour of hit points: texture, vertex light, hard sun shadows, reflections, headlight and haze."""

import numpy as np
import numpy.typing as npt

from fed_core.scenes.raycast import Hits
from fed_core.scenes.scene import World

F32 = npt.NDArray[np.float32]
HEADLIGHT_POWER = 14  # how narrow the robots' own lamp is


def shade(world: World, origin: F32, directions: F32, hits: Hits, pixel_rad: float) -> F32:
    """Return linear radiance, (N, 3) float32, of N rays from one point.

    Args:
        world: what is seen.
        origin: (3,) camera position in metres.
        directions: (N, 3) with length 1 along the optical axis, so that ``hits.t`` is z-depth.
        hits: what they met.
        pixel_rad: angle of one pixel, for the choice of texture level.
    """
    length = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    view = directions / length[:, None]
    color = np.empty_like(directions)
    met = hits.face >= 0
    i = np.flatnonzero(met)
    if len(i) < len(met):
        free = np.flatnonzero(~met)
        color[free] = world.sky.seen(view[free])
    if len(i):
        lit = _surface(world, origin, (view[i], length[i]), _subset(hits, i), pixel_rad)
        color[i] = _hazed(world, lit, view[i], hits.t[i] * length[i])
    return color


def _subset(hits: Hits, i: npt.NDArray[np.intp]) -> Hits:
    return Hits(hits.t[i], hits.face[i], hits.u[i], hits.v[i])


def _surface(world: World, origin: F32, rays: tuple[F32, F32], hits: Hits, pixel_rad: float) -> F32:
    """Return the radiance that leaves the hit points, before haze; ``rays`` = unit directions and lengths."""
    view, length = rays
    corners = world.corners[hits.face]
    values = world.attributes.take(corners[:, 0], axis=0) * (1 - hits.u - hits.v)[:, None]
    values += world.attributes.take(corners[:, 1], axis=0) * hits.u[:, None]
    values += world.attributes.take(corners[:, 2], axis=0) * hits.v[:, None]
    uv, normal, tint, light = values[:, 0:2], values[:, 2:5], values[:, 5:8], values[:, 8:11]
    normal = normal / np.sqrt(np.einsum("ij,ij->i", normal, normal))[:, None]
    facing = -np.einsum("ij,ij->i", normal, view)
    material = world.material[hits.face]
    distance = hits.t * length
    texel = world.atlas.sample(material, uv, distance * np.float32(pixel_rad) / np.maximum(facing, 0.2) ** 0.6)
    albedo = texel[:, :3] * tint
    points = origin + distance[:, None] * view
    total = light + _sunlight(world, points, normal, world.atlas.soft[material])
    if world.headlight.any():
        beam = np.maximum(facing, 0) / length**HEADLIGHT_POWER / (distance**2 + 1)
        total += beam[:, None] * world.headlight.astype(np.float32)
    total += (world.atlas.glow[material] * texel[:, 3])[:, None]
    color: F32 = albedo * total
    return _with_mirror(world, color, view, normal, world.atlas.mirror[material] * texel[:, 3])


def _sunlight(world: World, points: F32, normal: F32, soft: npt.NDArray[np.bool_]) -> F32:
    """Return direct sunlight, (N, 3), with hard shadows."""
    sun = world.sky.sun_dir.astype(np.float32)
    cosine = normal @ sun
    cosine = np.where(soft, cosine * np.float32(0.6) + np.float32(0.4), cosine)
    light = np.zeros_like(points)
    if not world.sky.sun_rgb.any():
        return light
    i = np.flatnonzero(cosine > 0.01)
    start = points[i] + normal[i] * np.float32(0.02) + sun * np.where(soft[i], 0.25, 0.02).astype(np.float32)[:, None]
    way = np.broadcast_to(sun, start.shape).astype(np.float32)
    free = ~world.shadows.occluded(start, way)
    # Leaves let part of the light through.
    share = np.maximum(free, np.where(soft[i], np.float32(0.22), np.float32(0.0)))
    light[i] = (share * cosine[i])[:, None] * world.sky.sun_rgb.astype(np.float32)
    return light


def _with_mirror(world: World, color: F32, view: F32, normal: F32, mirror: F32) -> F32:
    """Return ``color`` with the sky's reflection on glass, paint and water (Schlick's term at grazing angles)."""
    i = np.flatnonzero(mirror > 0.01)
    if len(i) == 0:
        return color
    v, n = view[i], normal[i]
    cosine = np.einsum("ij,ij->i", v, n)
    bounce = v - 2 * cosine[:, None] * n
    share = mirror[i] + (1 - mirror[i]) * np.float32(0.7) * (1 - np.minimum(np.abs(cosine), 1)) ** 5
    sky = world.sky.seen(bounce)
    sky[bounce[:, 2] < 0] *= np.float32(0.3)
    color[i] = color[i] * (1 - share[:, None]) + share[:, None] * np.minimum(sky, world.sky.horizon.max() * 4)
    return color


def _hazed(world: World, color: F32, view: F32, distance: F32) -> F32:
    """Return ``color`` as seen through the air."""
    if world.air.haze_per_m == 0:
        return color
    level = view.copy()
    level[:, 2] = np.maximum(level[:, 2], 0.02)
    share = 1 - np.exp(-distance * np.float32(world.air.haze_per_m))
    result: F32 = color + share[:, None] * (world.sky.gradient(level) - color)
    return result
