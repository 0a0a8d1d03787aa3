"""Houses and office blocks with shops, cornices, balconies and things on the roof."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from fed_core.scenes.lighting import Lamp
from fed_core.scenes.meshes import Floats, Mesh, box, cylinder, merged, patch, tapered_box
from fed_core.scenes.scene import Layout

BAY_M = 3.0
SHOP_M = 3.6
#: Wall colours by facade style: brick, plaster, concrete, glass.
PALETTES = {
    "brick": ((0.42, 0.16, 0.10), (0.50, 0.24, 0.15), (0.34, 0.15, 0.12), (0.55, 0.36, 0.24)),
    "plaster": ((0.80, 0.72, 0.55), (0.78, 0.55, 0.40), (0.60, 0.68, 0.66), (0.82, 0.80, 0.74), (0.72, 0.62, 0.62)),
    "office": ((0.55, 0.55, 0.54), (0.62, 0.58, 0.52), (0.45, 0.47, 0.50)),
    "tower": ((0.50, 0.58, 0.62), (0.42, 0.52, 0.50), (0.40, 0.44, 0.52)),
}

AWNINGS = (
    (0.45, 0.06, 0.05),
    (0.06, 0.22, 0.12),
    (0.08, 0.14, 0.36),
    (0.62, 0.42, 0.08),
    (0.35, 0.12, 0.22),
    (0.1, 0.3, 0.34),
)


@dataclass(frozen=True)
class Plot:
    """Ground of one building.

    Attributes:
        center: (x, y) in metres.
        size: (x, y) in metres.
        base: height of the ground in metres.
        fronts: which of the sides +x, +y, -x, -y look on a street that robots take.
    """

    center: tuple[float, float]
    size: tuple[float, float]
    base: float
    fronts: tuple[bool, ...] = (False, False, False, False)


def add_building(rng: np.random.Generator, layout: Layout, plot: Plot, lit: bool) -> None:
    """Add one building; ``lit`` turns its shop windows on."""
    detail = any(plot.fronts)
    style = str(rng.choice(list(PALETTES), p=(0.38, 0.30, 0.2, 0.12)))
    floors = int(rng.integers(3, 7) if style in ("brick", "plaster") else rng.integers(4, 10))
    height = floors * BAY_M
    palette = PALETTES[style]
    tint = np.array(palette[int(rng.integers(len(palette)))]) * rng.uniform(0.85, 1.15)
    place = np.array([*plot.center, plot.base])
    sx, sy = plot.size
    shop = box((sx, sy, SHOP_M), 3.0 if detail else 8.0)
    body = box((sx, sy, height), 3.0 if detail else 9.0)
    body = body.moved((0, 0, SHOP_M))
    shift = BAY_M * float(rng.integers(0, 8))
    body = type(body)(body.vertices, body.faces, body.normals, body.uvs + shift, body.colors)
    layout.add(shop.moved(place), "shop", "building")
    layout.add(body.tinted(tint).moved(place), style, "building")
    top = SHOP_M + height
    band = _rim(sx, sy, 0.22, 0.35).moved((0, 0, SHOP_M - 0.2))
    edge = _rim(sx, sy, 0.30 if style != "tower" else 0.12, 0.9).moved((0, 0, top - 0.35))
    layout.add(merged([band, edge]).tinted(tint * 0.5 + 0.3).moved(place), "concrete", "building")
    layout.add(patch((-sx / 2, -sy / 2, top + 0.02), (sx, 0, 0), (0, sy, 0), 5.0).moved(place), "roof", "building")
    _add_roof(rng, layout, plot, top)
    if detail:
        _add_fronts(rng, layout, plot, (height, style in ("brick", "plaster")), lit)


def _rim(sx: float, sy: float, out: float, tall: float) -> Mesh:
    """Return a band around a building that stands ``out`` metres off its walls."""
    long_x = box((sx + 2 * out, out + 0.15, tall), 4.0, bottom=True)
    long_y = box((out + 0.15, sy, tall), 4.0, bottom=True)
    dx, dy = (sx + out - 0.15) / 2, (sy + out - 0.15) / 2
    return merged(
        [long_x.moved((0, -dy, 0)), long_x.moved((0, dy, 0)), long_y.moved((-dx, 0, 0)), long_y.moved((dx, 0, 0))]
    )


def _add_roof(rng: np.random.Generator, layout: Layout, plot: Plot, top: float) -> None:
    sx, sy = plot.size
    for _ in range(int(rng.integers(2, 5))):
        x, y = rng.uniform(-0.35, 0.35, 2) * (sx, sy)
        spot = np.array([plot.center[0] + x, plot.center[1] + y, plot.base + top])
        kind = int(rng.integers(4))
        if kind == 0:
            layout.add(
                box((1.8, 1.4, 1.1)).tinted((0.55, 0.56, 0.57)).moved(spot, rng.uniform(0, 1.6)), "plain", "roof unit"
            )
        elif kind == 1:
            tank = merged(
                [
                    cylinder(1.2, 2.0, sides=12).moved((0, 0, 1.4)),
                    cylinder(1.35, 0.7, 0.05, sides=12).moved((0, 0, 3.4)),
                    *[box((0.12, 0.12, 1.4)).moved((a, b, 0)) for a in (-0.7, 0.7) for b in (-0.7, 0.7)],
                ]
            )
            layout.add(tank.tinted((0.36, 0.24, 0.16)).moved(spot), "wood", "roof unit")
        elif kind == 2:
            layout.add(box((2.8, 2.4, 2.3)).tinted((0.5, 0.45, 0.4)).moved(spot), "concrete", "roof unit")
        else:
            chimney = merged([box((0.6, 0.9, 1.6)), cylinder(0.05, 3.4, sides=5).moved((0.9, 0, 0))])
            layout.add(chimney.tinted((0.4, 0.2, 0.14)).moved(spot), "concrete", "roof unit")


def _add_fronts(rng: np.random.Generator, layout: Layout, plot: Plot, shape: tuple[float, bool], lit: bool) -> None:
    """Add awnings, balconies and the light of shop windows on the sides that are seen from near."""
    height, house = shape
    sx, sy = plot.size
    place = np.array([*plot.center, plot.base])
    for side, (width, depth) in enumerate(((sy, sx), (sx, sy), (sy, sx), (sx, sy))):
        if not plot.fronts[side]:
            continue
        yaw = side * np.pi / 2
        out = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        across = np.array([-np.sin(yaw), np.cos(yaw), 0.0])
        for k in range(int(width / 6)):
            spot = place + out * (depth / 2) + across * (-width / 2 + 3.2 + 6 * k)
            if rng.random() < 0.4:
                awning = tapered_box((0.95, 3.6, 0.75), (0.06, 3.6), shift=-0.44, bottom=True).moved((0.475, 0, 2.35))
                tint = np.array(AWNINGS[int(rng.integers(len(AWNINGS)))])
                layout.add(awning.tinted(tint).moved(spot, yaw), "stripes", "awning")
            if lit and rng.random() < 0.75:
                warm = np.array([1.0, 0.72, 0.42]) if rng.random() < 0.7 else rng.uniform(0.2, 1.0, 3)
                layout.lamps.append(Lamp((spot + out * 0.2 + [0, 0, 1.7])[None], warm * 2.4, out, 9.0))
            if house and rng.random() < 0.3:
                for floor in range(1, int(height / BAY_M)):
                    _add_balcony(layout, spot + [0, 0, SHOP_M + BAY_M * floor - 0.1], yaw)


@cache
def _balcony() -> tuple[Mesh, Mesh]:
    slab = box((0.9, 2.2, 0.14), bottom=True).moved((0.45, 0, 0))
    bars = [box((0.03, 0.03, 0.95)).moved((0.86, y, 0.14)) for y in np.linspace(-1.05, 1.05, 7)]
    rail = box((0.05, 2.2, 0.05), bottom=True).moved((0.86, 0, 1.05))
    return slab.tinted((0.6, 0.58, 0.55)), merged([*bars, rail]).tinted((0.07, 0.07, 0.08))


def _add_balcony(layout: Layout, spot: Floats, yaw: float) -> None:
    slab, rail = _balcony()
    layout.add(slab.moved(spot, yaw), "concrete", "balcony")
    layout.add(rail.moved(spot, yaw), "plain", "balcony")
