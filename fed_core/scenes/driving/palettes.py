"""Colours and light of the clients' worlds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fed_core.scenes import textures
from fed_core.scenes.lighting import Sky
from fed_core.scenes.materials import Atlas, Material
from fed_core.scenes.meshes import Floats

Rgb = tuple[float, float, float]


@dataclass(frozen=True)
class Palette:
    """Light and colours.

    Attributes:
        zenith: linear colour of the sky straight up.
        horizon: of the sky at the horizon, and of the haze.
        sun_rgb: sunlight; zeros for none.
        sun_height_deg: lowest and highest height of the sun.
        haze_per_m: share of light lost per metre.
        ground: tint of grass and soil.
        road: tint of asphalt.
        walls: tints of houses.
    """

    zenith: Rgb
    horizon: Rgb
    sun_rgb: Rgb
    sun_height_deg: tuple[float, float]
    haze_per_m: float
    ground: Rgb
    road: Rgb
    walls: tuple[Rgb, ...]


PALETTES: Mapping[str, Palette] = {
    "noon": Palette(
        (0.16, 0.34, 0.80), (0.66, 0.76, 0.88), (2.2, 2.05, 1.8), (42, 65), 0.003,
        (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ((0.78, 0.55, 0.40), (0.80, 0.74, 0.60), (0.55, 0.55, 0.54)),
    ),
    "morning": Palette(
        (0.30, 0.38, 0.62), (0.92, 0.80, 0.70), (1.9, 1.5, 1.05), (16, 30), 0.006,
        (1.35, 1.05, 0.55), (1.25, 1.12, 1.0), ((0.86, 0.84, 0.80), (0.62, 0.68, 0.72), (0.70, 0.45, 0.38)),
    ),
    "overcast": Palette(
        (0.62, 0.66, 0.72), (0.74, 0.76, 0.79), (0.25, 0.25, 0.25), (35, 60), 0.008,
        (0.75, 0.85, 0.75), (0.75, 0.77, 0.82), ((0.42, 0.20, 0.15), (0.50, 0.50, 0.52), (0.38, 0.42, 0.46)),
    ),
    "evening": Palette(
        (0.20, 0.20, 0.42), (0.85, 0.50, 0.32), (1.5, 0.95, 0.55), (8, 20), 0.004,
        (1.1, 0.85, 0.5), (0.85, 0.8, 0.85), ((0.55, 0.45, 0.40), (0.45, 0.40, 0.45)),
    ),
}  # fmt: skip


def drawn_sky(rng: np.random.Generator, palette: Palette) -> Sky:
    """Return a sky of the palette with the sun somewhere and clouds drawn from ``rng``."""
    high, turn = np.radians(rng.uniform(*palette.sun_height_deg)), rng.uniform(0, 2 * np.pi)
    return Sky(
        zenith=np.array(palette.zenith) * rng.uniform(0.9, 1.1),
        horizon=np.array(palette.horizon) * rng.uniform(0.92, 1.08),
        sun_dir=np.array([np.cos(high) * np.cos(turn), np.cos(high) * np.sin(turn), np.sin(high)]),
        sun_rgb=np.array(palette.sun_rgb) * rng.uniform(0.85, 1.1),
        clouds=np.clip(textures.noise(rng, 4, 4) * rng.uniform(1.8, 2.8) - 1.0, 0, 0.95),
    )


def sky_light(sky: Sky, normals: Floats) -> Floats:
    """Return light of sky and ground on surfaces (N, 3) with unit ``normals`` (N, 3), without shadows."""
    up = normals[:, 2:] * 0.5 + 0.5
    above = 0.5 * (sky.zenith + sky.horizon)
    below = 0.25 * sky.horizon + 0.10 * sky.sun_rgb
    light: Floats = 1.15 * above * up + below * (1 - up)
    return light


@lru_cache(maxsize=1)
def atlas() -> Atlas:
    """Return the surfaces of all worlds; what differs is their tint, so they are drawn once."""
    rng = np.random.default_rng(2021)
    wall = textures.speckle(rng, (0.84, 0.83, 0.81), (1.0, 0.99, 0.97))
    shiny = textures.plain(rng)
    shiny[..., 3] = 1.0
    return Atlas(
        {
            "asphalt": Material(textures.speckle(rng, (0.26, 0.26, 0.27), (0.40, 0.40, 0.40), 8), 6.0),
            "paving": Material(textures.tiles(rng, 8) * np.array([0.72, 0.72, 0.72, 1]), 4.8),
            "lawn": Material(textures.blades(rng), 3.2),
            "marking": Material(textures.speckle(rng, (0.74, 0.74, 0.72), (0.92, 0.92, 0.90)), 1.5),
            "facade": Material(textures.facade(rng, wall, 0, 0.0), 24.0, mirror=0.2),
            "office": Material(textures.facade(rng, wall, 1, 0.0), 24.0, mirror=0.2),
            "leaves": Material(textures.leaves(rng, 500), 1.5, soft=True),
            "bark": Material(textures.bark(rng), 1.1),
            "plain": Material(textures.plain(rng), 1.0),
            "paint": Material(shiny, 1.0, mirror=0.10),
            "glass": Material(shiny, 1.0, mirror=0.30),
        }
    )
