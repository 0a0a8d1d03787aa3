"""Surfaces of the five domains by day and by night: at night windows are lit and lamps shine."""

from functools import lru_cache

import numpy as np

from fed_core.scenes import textures
from fed_core.scenes.materials import Atlas, Material

_WALL = (0.84, 0.83, 0.81), (1.0, 0.99, 0.97)
_SPECKLED = {
    "asphalt": ((0.26, 0.26, 0.27), (0.40, 0.40, 0.40), 8, 6.0),
    "marking": ((0.74, 0.74, 0.72), (0.92, 0.92, 0.90), 16, 1.5),
}


@lru_cache(maxsize=2)
def surfaces(night: bool) -> Atlas:
    """Return the materials of all streets by name."""
    rng = np.random.default_rng(2022)
    wall = textures.speckle(rng, *_WALL)
    shiny = textures.plain(rng)
    shiny[..., 3] = 1.0
    lit, glow, mirror = (0.22, 0.35, 0.0) if night else (0.0, 0.0, 0.2)
    materials = {
        name: Material(textures.speckle(rng, dark, light, cells), tile_m)
        for name, (dark, light, cells, tile_m) in _SPECKLED.items()
    }
    materials |= {
        "paving": Material(textures.tiles(rng, 8) * np.array([0.72, 0.72, 0.72, 1]), 4.8),
        "lawn": Material(textures.blades(rng), 3.2),
        "facade": Material(textures.facade(rng, wall, 0, lit), 24.0, glow=glow, mirror=mirror),
        "office": Material(textures.facade(rng, wall, 1, 1.5 * lit), 24.0, glow=glow, mirror=mirror),
        "leaves": Material(textures.leaves(rng, 500), 1.5, soft=True),
        "bark": Material(textures.bark(rng), 1.1),
        "plain": Material(textures.plain(rng), 1.0),
        "paint": Material(shiny, 1.0, mirror=0.10),
        "glass": Material(shiny, 1.0, mirror=0.30),
        "headlamp": Material(shiny, 1.0, glow=2.5 if night else 0.0),
        "tail_lamp": Material(shiny, 1.0, glow=0.9 if night else 0.0),
        "street_lamp": Material(shiny, 1.0, glow=3.0 if night else 0.0),
    }
    return Atlas(materials)
