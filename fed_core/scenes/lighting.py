"""Sky, sun and lamps, and the light that is worked out once per vertex when a world is built."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fed_core.scenes.meshes import Floats
from fed_core.scenes.raycast import Raycaster

F32 = npt.NDArray[np.float32]
CHUNK = 4096
LIFT_M = 0.03  # rays start this far off the surface


@dataclass(frozen=True)
class Sky:
    """What is seen above the horizon, in linear light.

    Attributes:
        zenith: (3,) colour straight up.
        horizon: (3,) colour at the horizon; haze takes this colour too.
        sun_dir: (3,) unit vector to the sun or moon.
        sun_rgb: (3,) light on a surface that faces it; zeros for none.
        glow: strength of the halo around the sun.
        clouds: (S, S) share of cloud 0..1 with S a power of two, or None.
        cloud_rgb: (3,) colour of the clouds.
        stars: True draws stars.
    """

    zenith: Floats
    horizon: Floats
    sun_dir: Floats
    sun_rgb: Floats
    glow: float = 0.4
    clouds: Floats | None = None
    cloud_rgb: Floats = field(default_factory=lambda: np.ones(3))
    stars: bool = False

    def gradient(self, directions: F32) -> F32:
        """Return the smooth part of the sky for unit ``directions`` (3, N), (3, N) float32."""
        low = 1 - np.maximum(directions[2], np.float32(0.0))
        low *= low
        low *= low
        x, y, z = self.sun_dir.astype(np.float32)
        toward = np.maximum(directions[0] * x + directions[1] * y + directions[2] * z, np.float32(0.0))
        wide = toward * toward
        wide = wide * wide * wide
        narrow = wide * wide
        narrow = narrow * narrow
        halo = np.float32(self.glow * 0.25) * (np.float32(0.35) * wide + narrow * narrow)
        rows = zip(self.zenith, self.horizon, self.sun_rgb, strict=True)
        return np.stack([np.float32(z) + np.float32(h - z) * low + np.float32(s) * halo for z, h, s in rows])

    def seen(self, directions: F32) -> F32:
        """Return the full sky with clouds, sun disc and stars, (3, N) as in :meth:`gradient`."""
        color = self.gradient(directions)
        up = directions[2]
        if self.clouds is not None:
            size = self.clouds.shape[0]
            scale = np.float32(size * 0.11) / np.maximum(up, np.float32(0.06))
            i, j = ((directions[k] * scale).astype(np.int32) & (size - 1) for k in (0, 1))
            share = self.clouds[i, j].astype(np.float32) * np.clip(up * 6 - np.float32(0.35), 0, 1)
            color += share * (self.cloud_rgb.astype(np.float32)[:, None] - color)
        if self.stars:
            cell = np.floor(directions * 90).astype(np.int64)
            pick = (cell[0] * 7919 + cell[1] * 104729 + cell[2] * 1299709) % 199
            color += ((pick == 0) & (up > 0.15)) * np.float32(0.10)
        if self.sun_rgb.any():
            disc = self.sun_dir.astype(np.float32) @ directions > np.float32(0.9985)
            color += disc * self.sun_rgb.astype(np.float32)[:, None] * np.float32(1.5)
        return color


@dataclass(frozen=True)
class Lamp:
    """A lamp that stays where it is.

    Attributes:
        points: (P, 3) metres; more than one point softens the shadows.
        rgb: (3,) intensity; light on a facing surface at d metres is rgb / d**2.
        normal: direction in which it shines most (cosine law), or None for all around.
        reach_m: no light beyond.
    """

    points: Floats
    rgb: Floats
    normal: Floats | None = None
    reach_m: float = 25.0


@dataclass(frozen=True)
class Ambient:
    """Light that arrives from surfaces, for the share of the sky that they hide.

    Attributes:
        rgb: (3,) radiance of a far surface.
        falloff_m: surfaces nearer than this darken corners and contacts.
        rays: directions over the whole sphere.
        sky_share: factor on the light of the open sky.
    """

    rgb: Floats
    falloff_m: float = 1.0
    rays: int = 48
    sky_share: float = 1.0


def fibonacci(count: int) -> Floats:
    """Return ``count`` even directions over the sphere, (count, 3)."""
    k = np.arange(count) + 0.5
    z = 1 - 2 * k / count
    angle = np.pi * (1 + 5**0.5) * k
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], 1)


def ambient_light(rays: Raycaster, points: Floats, normals: Floats, sky: Sky, ambient: Ambient) -> Floats:
    """Return irradiance over pi, (N, 3), from the sky and from nearby surfaces at ``points`` (N, 3)."""
    directions = fibonacci(ambient.rays)
    radiance = sky.gradient(directions.T.astype(np.float32)).T.astype(np.float64) * ambient.sky_share
    radiance[directions[:, 2] < 0] = ambient.rgb
    light = np.zeros_like(points)
    for first in range(0, len(points), CHUNK):
        part = slice(first, first + CHUNK)
        cosine = normals[part] @ directions.T
        i, j = np.nonzero(cosine > 0.02)
        start = (points[part] + LIFT_M * normals[part])[i].astype(np.float32)
        t = rays.closest(start, directions[j].astype(np.float32)).t.astype(np.float64)
        met = np.isfinite(t)[:, None]
        t = np.minimum(t, 1e6)
        value = np.where(met, (t / (t + ambient.falloff_m))[:, None] * ambient.rgb, radiance[j])
        weight = cosine[i, j]
        total = np.bincount(i, weight, minlength=len(cosine))
        for k in range(3):
            light[part, k] = np.bincount(i, weight * value[:, k], minlength=len(cosine)) / np.maximum(total, 1e-9)
    return light


class Nearby:
    """Finds which of the points (N, 3) lie near a place."""

    def __init__(self, points: Floats) -> None:
        self._order = np.argsort(points[:, 0], kind="stable")
        self._sorted = points[self._order]

    def __call__(self, place: Floats, reach_m: float) -> npt.NDArray[np.intp]:
        """Return the numbers of the points less than ``reach_m`` from ``place`` (3,)."""
        first, last = np.searchsorted(self._sorted[:, 0], [place[0] - reach_m, place[0] + reach_m])
        gap = self._sorted[first:last] - place
        near: npt.NDArray[np.intp] = self._order[first:last][np.einsum("ij,ij->i", gap, gap) < reach_m**2]
        return near


def lamp_light(rays: Raycaster, points: Floats, normals: Floats, lamps: Sequence[Lamp]) -> Floats:
    """Return irradiance over pi, (N, 3), from all ``lamps`` with shadows."""
    light = np.zeros_like(points)
    raised = points + LIFT_M * normals
    near_to = Nearby(raised)
    for lamp in lamps:
        near = near_to(lamp.points.mean(0), lamp.reach_m)
        for source in lamp.points:
            to = source - raised[near]
            d = np.maximum(np.linalg.norm(to, axis=1), 0.15)
            cosine = np.einsum("ij,ij->i", to, normals[near]) / d
            if lamp.normal is not None:
                cosine = cosine * np.clip(-(to @ lamp.normal) / d, 0, 1)
            fade = np.clip(1 - (d / lamp.reach_m) ** 2, 0, 1)
            use = np.flatnonzero(cosine * fade > 0.004 * d**2)  # too faint to see is not worth a ray
            start, way = raised[near[use]].astype(np.float32), to[use].astype(np.float32)
            free = ~rays.occluded(start, way, np.full(len(use), 0.98, np.float32))
            strength = free * cosine[use] * fade[use] / d[use] ** 2 / len(lamp.points)
            light[near[use]] += strength[:, None] * lamp.rgb
    return light
