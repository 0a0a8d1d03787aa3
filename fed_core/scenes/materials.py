"""Surface pictures of a world in one array with all mip levels, so that one gather colours every pixel."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.scenes.textures import SIZE

Floats = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
LEVELS = SIZE.bit_length()  # 256, 128, ... 1


@dataclass(frozen=True)
class Material:
    """How a surface looks.

    Attributes:
        picture: (S, S, 4) sRGB colour and mask, see ``textures``.
        tile_m: side of one repeat in metres.
        glow: radiance under the mask, in the unit of the world's light.
        mirror: share of the sky that it reflects at normal incidence under the mask.
        soft: True for foliage, whose leaves let light through.
    """

    picture: Floats
    tile_m: float
    glow: float = 0.0
    mirror: float = 0.0
    soft: bool = False


class Atlas:
    """Materials by number, ready to be looked up for many points at once."""

    def __init__(self, materials: Mapping[str, Material]) -> None:
        self.numbers = {name: i for i, name in enumerate(materials)}
        chosen = list(materials.values())
        self.tile_m = np.array([m.tile_m for m in chosen], np.float32)
        self.glow = np.array([m.glow for m in chosen], np.float32)
        self.mirror = np.array([m.mirror for m in chosen], np.float32)
        self.soft = np.array([m.soft for m in chosen], np.bool_)
        sizes = [SIZE >> k for k in range(LEVELS)]
        self._start = np.cumsum([0] + [s * s for s in sizes[:-1]]).astype(np.int32)
        self._per_material = sum(s * s for s in sizes)
        self._texels = np.concatenate([_pyramid(m.picture) for m in chosen])

    def sample(self, material: npt.NDArray[np.int32], uv: F32, footprint_m: F32) -> F32:
        """Return linear colour and mask, (4, N) float32.

        Args:
            material: (N,) material numbers.
            uv: (2, N) float32 metres along the surface.
            footprint_m: (N,) side of the pixel on the surface in metres; picks the mip level.
        """
        tile = self.tile_m[material]
        level = np.log2(np.maximum(footprint_m / tile * SIZE, np.float32(1.0))) + np.float32(0.25)
        level = np.minimum(level, LEVELS - 1).astype(np.int32)
        side = (SIZE >> level).astype(np.int32)
        base = material * np.int32(self._per_material) + self._start[level]
        mask = side - 1  # sides are powers of two
        scale = side / tile
        x, y = uv[0] * scale - np.float32(0.5), uv[1] * scale - np.float32(0.5)
        left, low = np.floor(x), np.floor(y)
        fx, fy = (x - left).astype(np.float32), (y - low).astype(np.float32)
        x0, y0 = left.astype(np.int32), low.astype(np.int32)
        x1, y1 = (x0 + 1) & mask, (y0 + 1) & mask
        row0, row1 = base + (y0 & mask) * side, base + y1 * side
        x0 &= mask
        t = self._texels
        total = t.take(row0 + x0, axis=0).T * ((1 - fx) * (1 - fy))
        total += t.take(row0 + x1, axis=0).T * (fx * (1 - fy))
        total += t.take(row1 + x0, axis=0).T * ((1 - fx) * fy)
        total += t.take(row1 + x1, axis=0).T * (fx * fy)
        result: F32 = total
        return result


def _pyramid(picture: Floats) -> F32:
    """Return all mip levels in linear light, one below the other, (P, 4)."""
    level = np.concatenate([np.clip(picture[..., :3], 0, 1) ** 2.2, picture[..., 3:]], 2)
    rows = []
    while True:
        rows.append(level.reshape(-1, 4))
        if level.shape[0] == 1:
            levels: F32 = np.concatenate(rows).astype(np.float32)
            return levels
        half = level.shape[0] // 2
        level = level.reshape(half, 2, half, 2, 4).mean((1, 3))
