"""Light and colour of hit points: texture, vertex light, hard sun shadows, reflections, headlight and haze.

Arrays here are (3, N): NumPy is several times faster over long rows than over triples.
"""

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
    way = np.ascontiguousarray(directions.T)
    length = np.sqrt(dot(way, way))
    view = way / length
    met = hits.face >= 0
    i = np.flatnonzero(met)
    if len(i) == len(met):
        lit = _surface(world, origin, (view, length), hits, pixel_rad)
        return np.ascontiguousarray(_hazed(world, lit, view, hits.t * length).T)
    color = np.empty_like(way)
    free = np.flatnonzero(~met)
    color[:, free] = world.sky.seen(view[:, free])
    if len(i):
        some = Hits(hits.t[i], hits.face[i], hits.u[i], hits.v[i])
        near, far = view[:, i], length[i]
        lit = _surface(world, origin, (near, far), some, pixel_rad)
        color[:, i] = _hazed(world, lit, near, some.t * far)
    return np.ascontiguousarray(color.T)


def dot(a: F32, b: F32) -> F32:
    """Return the products, (N,), of vectors (3, N)."""
    result: F32 = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return result


def _column(rgb: npt.NDArray[np.float64]) -> F32:
    return rgb.astype(np.float32)[:, None]


def _surface(world: World, origin: F32, rays: tuple[F32, F32], hits: Hits, pixel_rad: float) -> F32:
    """Return the radiance (3, N) that leaves the hit points, before haze; ``rays`` = unit directions and lengths."""
    view, length = rays
    values = _blended(world, hits)
    normal, tint, light = values[2:5], values[5:8], values[8:11]
    normal = normal / np.sqrt(dot(normal, normal))
    facing = -dot(normal, view)
    material = world.material[hits.face]
    distance = hits.t * length
    texel = world.atlas.sample(
        material, values[:2], distance * np.float32(pixel_rad) / np.sqrt(np.maximum(facing, 0.15))
    )
    albedo = texel[:3] * tint
    points = origin[:, None] + distance * view
    total = light + _sunlight(world, points, normal, world.atlas.soft[material])
    if world.headlight.any():
        beam = np.maximum(facing, 0) / length**HEADLIGHT_POWER / (distance**2 + 1)
        total += beam * _column(world.headlight)
    total += world.atlas.glow[material] * texel[3]
    color: F32 = albedo * total
    return _with_mirror(world, color, view, normal, world.atlas.mirror[material] * texel[3])


def _blended(world: World, hits: Hits) -> F32:
    """Return the vertex attributes at the hit points, (11, N)."""
    corners = world.corners.take(hits.face, axis=1)
    total = world.attributes.take(corners[0], axis=0).T * (1 - hits.u - hits.v)
    total += world.attributes.take(corners[1], axis=0).T * hits.u
    total += world.attributes.take(corners[2], axis=0).T * hits.v
    result: F32 = np.ascontiguousarray(total)
    return result


def _sunlight(world: World, points: F32, normal: F32, soft: npt.NDArray[np.bool_]) -> F32:
    """Return direct sunlight, (3, N), with hard shadows."""
    if not world.sky.sun_rgb.any():
        return np.zeros_like(points)
    sun = _column(world.sky.sun_dir)
    cosine = dot(normal, np.broadcast_to(sun, normal.shape))
    cosine = np.where(soft, cosine * np.float32(0.6) + np.float32(0.4), cosine)
    i = np.flatnonzero(cosine > 0.01)
    # Leaves start far off themselves, or every crown would be dark; walls not, or light would leak in at corners.
    start = points[:, i] + normal[:, i] * np.float32(0.004) + sun * np.where(soft[i], np.float32(0.25), np.float32(0.0))
    way = np.broadcast_to(sun[:, 0], (len(i), 3))
    free = ~world.shadows.occluded(np.ascontiguousarray(start.T), way.copy())
    # Leaves let part of the light through.
    share = np.maximum(free, np.where(soft[i], np.float32(0.22), np.float32(0.0)))
    light = np.zeros(points.shape[1], np.float32)
    light[i] = share * cosine[i]
    return light * _column(world.sky.sun_rgb)


def _with_mirror(world: World, color: F32, view: F32, normal: F32, mirror: F32) -> F32:
    """Return ``color`` with the sky's reflection on glass, paint and water (Schlick's term at grazing angles)."""
    i = np.flatnonzero(mirror > 0.01)
    if len(i) == 0:
        return color
    v, n = view[:, i], normal[:, i]
    cosine = dot(v, n)
    bounce = v - 2 * cosine * n
    share = mirror[i] + (1 - mirror[i]) * np.float32(0.7) * (1 - np.minimum(np.abs(cosine), 1)) ** 5
    sky = world.sky.seen(bounce) * np.where(bounce[2] < 0, np.float32(0.3), np.float32(1.0))
    color[:, i] = color[:, i] * (1 - share) + share * np.minimum(sky, np.float32(world.sky.horizon.max() * 4))
    return color


def _hazed(world: World, color: F32, view: F32, distance: F32) -> F32:
    """Return ``color`` as seen through the air."""
    if world.air.haze_per_m == 0:
        return color
    level = view.copy()
    level[2] = np.maximum(level[2], np.float32(0.02))
    share = 1 - np.exp(-distance * np.float32(world.air.haze_per_m))
    result: F32 = color + share * (world.sky.gradient(level) - color)
    return result
