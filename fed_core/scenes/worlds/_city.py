"""Streets and blocks of a town; day and night share them, so one seed is one town at both times."""

from collections.abc import Mapping

import numpy as np

from fed_core.scenes import textures
from fed_core.scenes.materials import Material
from fed_core.scenes.meshes import Floats, Mesh, disc, merged, patch
from fed_core.scenes.routes import Route, rectangle
from fed_core.scenes.scene import Layout
from fed_core.scenes.worlds import _plants as plants
from fed_core.scenes.worlds import _street as street
from fed_core.scenes.worlds._buildings import BAY_M, Plot, add_building

ROAD_M = 11.0  # kerb to kerb: two lanes and parking on both sides
WALK_M = 3.2  # pavement
KERB_M = 0.13
REACH = 2  # blocks on each side of the middle one


class City:
    """Builds one town.

    Args:
        rng: draws everything.
        night: True lights lamps, windows and cars.
    """

    def __init__(self, rng: np.random.Generator, night: bool) -> None:
        self._rng, self._night = rng, night
        self._half = np.round(rng.uniform(21, 27, 2) / BAY_M) * BAY_M + WALK_M  # of a block, to the kerb
        self._pitch = 2 * self._half + ROAD_M
        self.layout = Layout(self._materials())
        sizes = [(rng.uniform(5.5, 7.5), rng.uniform(1.5, 1.9)) for _ in range(4)]
        self._trees = [[plants.broadleaf(rng, *size, 2.6, detail) for size in sizes] for detail in (1, 2)]
        self._bushes = [plants.bush(rng, rng.uniform(0.5, 1.0)) for _ in range(3)]
        self._lamp_color = np.array([1.0, 0.62, 0.28]) if rng.random() < 0.55 else np.array([0.9, 0.92, 1.0])
        self._season = plants.AUTUMN if rng.random() < 0.25 else plants.GREENS
        self._build()

    @property
    def routes(self) -> Mapping[str, Route]:
        """Closed paths around the middle block: pavement, right-hand lane, middle of the street."""
        x, y = self._half
        walk, drive, air = -1.75, 3.85, ROAD_M / 2
        return {
            "walk": Route(rectangle(x + walk, y + walk, z=KERB_M), 2.0),
            "drive": Route(rectangle(x + drive, y + drive), 7.0),
            "air": Route(rectangle(x + air, y + air), 7.0),
        }

    def _materials(self) -> dict[str, Material]:
        rng = self._rng
        lit = 0.38 if self._night else 0.0
        shine = 0.0 if self._night else 0.28
        polished = _glowing(textures.plain(rng))
        glow = 2.2 if self._night else 0.0
        wall = textures.speckle(rng, (0.84, 0.83, 0.81), (1.0, 0.99, 0.97))
        tower = textures.speckle(rng, (0.55, 0.57, 0.60), (0.7, 0.72, 0.75))
        return {
            "asphalt": Material(textures.speckle(rng, (0.26, 0.26, 0.27), (0.40, 0.40, 0.40), 8), 6.0),
            "paving": Material(textures.tiles(rng, 8) * np.array([0.78, 0.78, 0.78, 1]), 4.8),
            "concrete": Material(textures.speckle(rng, (0.70, 0.69, 0.67), (0.92, 0.91, 0.89)), 3.0),
            "roof": Material(textures.speckle(rng, (0.34, 0.33, 0.33), (0.52, 0.51, 0.49)), 4.0),
            "marking": Material(textures.speckle(rng, (0.72, 0.72, 0.70), (0.90, 0.90, 0.87)), 1.5),
            "brick": Material(textures.facade(rng, textures.bricks(rng, 64, 32), 0, lit), 8 * BAY_M, glow, shine),
            "plaster": Material(textures.facade(rng, wall, 0, lit), 8 * BAY_M, glow, shine),
            "office": Material(textures.facade(rng, wall, 1, lit), 8 * BAY_M, glow, shine),
            "tower": Material(textures.facade(rng, tower, 2, lit), 8 * BAY_M, glow, shine),
            "shop": Material(
                textures.shop(rng, 0.75 if self._night else 0.0), 14.4, 1.6 if self._night else 0.0, shine
            ),
            "lawn": Material(textures.blades(rng), 2.2),
            "bark": Material(textures.bark(rng), 1.1),
            "leaves": Material(textures.leaves(rng), 1.5, soft=True),
            "plain": Material(textures.plain(rng), 1.0),
            "cloth": Material(textures.weave(rng), 0.5),
            "stripes": Material(_striped(textures.plain(rng)), 1.2),
            "wood": Material(textures.wood(rng), 1.0),
            "paint": Material(polished, 1.0, mirror=0.10),
            "glass": Material(polished, 1.0, mirror=0.30),
            "glow": Material(polished, 1.0, 9.0),
        }

    def _build(self) -> None:
        reach_m = (REACH + 0.5) * self._pitch + ROAD_M / 2
        inner = 1.5 * self._pitch + ROAD_M / 2
        rx, ry = reach_m
        ground = patch((-inner[0], -inner[1], 0), (2 * inner[0], 0, 0), (0, 2 * inner[1], 0), 1.6)
        self.layout.add(self._worn(ground), "asphalt", "road")
        for x0, y0, sx, sy in (
            (-rx, -ry, 2 * rx, ry - inner[1]),
            (-rx, inner[1], 2 * rx, ry - inner[1]),
            (-rx, -inner[1], rx - inner[0], 2 * inner[1]),
            (inner[0], -inner[1], rx - inner[0], 2 * inner[1]),
        ):
            self.layout.add(patch((x0, y0, 0), (sx, 0, 0), (0, sy, 0), 8.0), "asphalt", "road")
        for i in range(-REACH, REACH + 1):
            for j in range(-REACH, REACH + 1):
                self._add_block(i, j, near=max(abs(i), abs(j)) <= 1)
        self._add_markings()

    def _worn(self, ground: Mesh) -> Mesh:
        """Return the road with darker and lighter patches."""
        waves = self._rng.normal(0, 0.35, (2, 5))
        tone = 1 + 0.10 * np.sin(ground.vertices[:, :2] @ waves + self._rng.uniform(0, 6, 5)).mean(1)
        return ground.tinted(tone[:, None] * self._rng.uniform(0.95, 1.05, (len(tone), 1)))

    def _add_block(self, i: int, j: int, near: bool) -> None:
        rng = self._rng
        center = np.array([i, j]) * self._pitch
        hx, hy = self._half
        step = 1.3 if near else 20.0
        top = patch((-hx, -hy, KERB_M), (2 * hx, 0, 0), (0, 2 * hy, 0), step)
        rim = [
            patch((sx * hx, sy * hy, 0), e, (0, 0, KERB_M), 2.0)
            for sx, sy, e in (
                (-1, -1, (2 * hx, 0, 0)),
                (1, -1, (0, 2 * hy, 0)),
                (1, 1, (-2 * hx, 0, 0)),
                (-1, 1, (0, -2 * hy, 0)),
            )
        ]
        park = near and (i, j) != (0, 0) and rng.random() < 0.22
        self.layout.add(top.moved((*center, 0)), "lawn" if park else "paving", "sidewalk")
        self.layout.add(merged(rim).tinted((0.8, 0.8, 0.8)).moved((*center, 0)), "concrete", "kerb")
        if park:
            self._add_park(center)
        else:
            self._add_plots(center, near)
        if near:
            self._furnish(center)

    def _add_plots(self, center: Floats, near: bool) -> None:
        """Divide a block into buildings without gaps along the streets."""
        rng = self._rng
        inner = 2 * (self._half - WALK_M)
        if not near:
            plot = Plot((float(center[0]), float(center[1])), (float(inner[0]), float(inner[1])), KERB_M)
            add_building(rng, self.layout, plot, False)
            return
        cut = [_cuts(rng, int(side / BAY_M)) for side in inner]
        for x0, x1 in zip(cut[0][:-1], cut[0][1:], strict=True):
            for y0, y1 in zip(cut[1][:-1], cut[1][1:], strict=True):
                low, high = np.array([x0, y0]) * BAY_M - inner / 2, np.array([x1, y1]) * BAY_M - inner / 2
                middle, size = center + (low + high) / 2, high - low
                plot = Plot(
                    (float(middle[0]), float(middle[1])),
                    (float(size[0]), float(size[1])),
                    KERB_M,
                    self._fronts(low + center, high + center),
                )
                add_building(rng, self.layout, plot, self._night)

    def _fronts(self, low: Floats, high: Floats) -> tuple[bool, ...]:
        """Return which sides (+x, +y, -x, -y) of a rectangle stand along a street around the middle block."""
        near = self._half - WALK_M - 0.1, self._half + ROAD_M + WALK_M + 0.1
        sides = ((high, 0), (high, 1), (low, 0), (low, 1))
        return tuple(bool(near[0][k] < abs(edge[k]) < near[1][k]) for edge, k in sides)

    def _add_park(self, center: Floats) -> None:
        rng = self._rng
        for _ in range(16):
            spot = center + rng.uniform(-0.8, 0.8, 2) * (self._half - WALK_M)
            self._plant(spot, False)
        for _ in range(10):
            spot = center + rng.uniform(-0.85, 0.85, 2) * (self._half - WALK_M)
            tint = np.array(self._season[int(rng.integers(4))]) * 1.4
            bush = self._bushes[int(rng.integers(3))]
            self.layout.add(bush.tinted(tint).moved((*spot, KERB_M)), "leaves", "bush")

    def _plant(self, spot: Floats, fine: bool) -> None:
        rng = self._rng
        tint = np.array(self._season[int(rng.integers(4))]) * rng.uniform(1.2, 1.8)
        self._trees[int(fine)][int(rng.integers(4))].plant(
            self.layout, np.array([*spot, KERB_M]), rng.uniform(0, 6.28), tint
        )

    def _furnish(self, center: Floats) -> None:
        """Line the four kerbs of a block with lamps, trees, parked cars, people and small things."""
        rng = self._rng
        for side in range(4):
            yaw = side * np.pi / 2
            out, along = np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])
            deep, half = self._half if side % 2 == 0 else self._half[::-1]
            for k, s in enumerate(np.arange(-half + 4, half - 3, 4.5)):
                kerb = center + out * (deep - 0.45) + along * s
                if k % 4 == 1:
                    street.add_street_lamp(self.layout, np.array([*kerb, KERB_M]), yaw, self._night, self._lamp_color)
                elif rng.random() < 0.45:
                    self._plant(kerb, bool(np.all(np.abs(kerb) < self._half + ROAD_M + 4)))
                elif rng.random() < 0.6:
                    street.add_small(rng, self.layout, np.array([*kerb, KERB_M]), yaw - np.pi / 2)
                if abs(s) < half - 6 and rng.random() < 0.62:
                    parked = center + out * (deep + 1.15) + along * (s + rng.uniform(-0.1, 0.1))
                    turn = yaw + np.pi / 2 + rng.normal(0, 0.02)
                    street.add_car(
                        rng, self.layout, np.array([*parked, 0.0]), turn, self._night and rng.random() < 0.15
                    )
                if rng.random() < 0.22:
                    near_wall = center + out * (deep - WALK_M + 0.42) + along * (s + 1.5)
                    turn = yaw + rng.choice([-1, 1]) * np.pi / 2
                    street.add_person(rng, self.layout, np.array([*near_wall, KERB_M]), turn)
            self._furnish_corner(center, (out, along), (deep, half), yaw)

    def _furnish_corner(
        self, center: Floats, axes: tuple[Floats, Floats], size: tuple[float, float], yaw: float
    ) -> None:
        (out, along), (deep, half), rng = axes, size, self._rng
        corner = center + out * (deep - 0.4) + along * (half - 1.2)
        street.add_traffic_light(self.layout, np.array([*corner, KERB_M]), yaw, int(rng.choice([0, 2])), self._night)
        spot = center + out * (deep - 0.4) - along * (half - 2.0)
        street.add_sign(rng, self.layout, np.array([*spot, KERB_M]), yaw - np.pi / 2)
        for _ in range(2):  # oncoming traffic keeps to the other lane
            s = rng.uniform(-half + 3, half - 3)
            place = center + out * (deep + 7.2) + along * s
            if np.all(np.abs(center) < 1):
                street.add_car(rng, self.layout, np.array([*place, 0.0]), yaw - np.pi / 2, self._night)

    def _add_markings(self) -> None:
        """Paint lane lines, crossings and manholes around the middle block."""
        rng = self._rng
        lines, covers = [], []
        for side in range(4):
            yaw = side * np.pi / 2
            deep, half = self._half if side % 2 == 0 else self._half[::-1]
            mid = deep + ROAD_M / 2
            for s in np.arange(-half + 4.5, half - 4.5, 5.0):
                lines.append(_stripe(mid, s, 0.14, 2.6).moved((0, 0, 0), yaw))
            for edge in (2.2, ROAD_M - 2.2):
                lines.append(_stripe(deep + edge, 0, 0.10, 2 * half - 8).moved((0, 0, 0), yaw))
            for end in (-1, 1):
                for across in np.arange(0.7, ROAD_M - 0.3, 0.95):
                    lines.append(_stripe(deep + across, end * (half - 1.6), 0.48, 2.4).moved((0, 0, 0), yaw))
                lines.append(_stripe(mid, end * (half - 3.6), ROAD_M - 4.6, 0.3).moved((0, 0, 0), yaw))
            for _ in range(3):
                spot = (deep + rng.uniform(3, 8), rng.uniform(-half, half) * 0.8, 0.012)
                covers.append(disc(0.34, 14).moved(spot).moved((0, 0, 0), yaw))
        self.layout.add(merged(lines), "marking", "road marking")
        self.layout.add(merged(covers).tinted((0.16, 0.15, 0.15)), "concrete", "manhole")


def _stripe(x: float, y: float, wide: float, long: float) -> Mesh:
    return patch((x - wide / 2, y - long / 2, 0.012), (wide, 0, 0), (0, long, 0), 1.5)


def _cuts(rng: np.random.Generator, bays: int) -> list[int]:
    """Return where a side of ``bays`` window bays is cut into buildings."""
    count = 3 if bays >= 15 else 2
    third = bays // count
    return [0, *[third * k + int(rng.integers(-1, 2)) for k in range(1, count)], bays]


def _striped(picture: Floats) -> Floats:
    """Return an awning's cloth: every second band white."""
    result = picture.copy()
    result[:, (np.arange(picture.shape[1]) // 32) % 2 == 0, :3] = 1.0
    return result


def _glowing(picture: Floats) -> Floats:
    result = picture.copy()
    result[..., 3] = 1.0
    return result
