"""Flat streets with what stands beside them, where vehicles drive, queue and park. Axes as ``meshes``: x east, y north.

The street of the vehicles with cameras runs along x; traffic keeps to the right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fed_core.errors import ConfigError
from fed_core.scenes.driving.palettes import Palette
from fed_core.scenes.meshes import Floats, Mesh, Vec, blob, box, cylinder, merged, patch

LANE_M = 3.5
MARKING_M = 0.15
_MARK_LIFT_M = 0.012
_LAWN_DROP_M = -0.03
_FAR_M = 400.0  # the lawn reaches this far beyond the street


@dataclass(frozen=True)
class Plan:
    """What kind of street it is.

    Attributes:
        lanes: in each direction.
        median_m: width of the strip between the directions.
        speed_mps: range of the speed of a lane.
        parking: "along" the kerb, "across" it, or "" for none.
        houses: "blocks", "villas" or "" for none.
        crossing: lanes in each direction of a street that crosses; 0 for none.
        tree_gap_m: mean distance between trees on each side.
    """

    lanes: int
    median_m: float
    speed_mps: tuple[float, float]
    parking: str
    houses: str
    crossing: int
    tree_gap_m: float


PLANS: Mapping[str, Plan] = {
    "avenue": Plan(2, 0.0, (5.0, 11.0), "along", "blocks", 0, 16.0),
    "junction": Plan(2, 0.0, (3.0, 8.0), "along", "blocks", 2, 20.0),
    "suburb": Plan(1, 0.0, (4.0, 10.0), "across", "villas", 0, 9.0),
    "crossing": Plan(1, 0.0, (3.0, 8.0), "across", "villas", 1, 11.0),
    "motorway": Plan(3, 5.0, (17.0, 27.0), "", "", 0, 14.0),
}


@dataclass(frozen=True)
class Lane:
    """A straight line that vehicles follow.

    Attributes:
        start: (x, y) of its beginning [m].
        yaw: heading [rad].
        length_m: its length.
        speed_mps: of all vehicles on it; 0 for a queue.
    """

    start: tuple[float, float]
    yaw: float
    length_m: float
    speed_mps: float

    def at(self, distance_m: float) -> tuple[float, float]:
        """Return the (x, y) of a point on it."""
        x, y = self.start
        return x + distance_m * float(np.cos(self.yaw)), y + distance_m * float(np.sin(self.yaw))


@dataclass
class Street:
    """A street before vehicles come.

    Attributes:
        parts: meshes with material and tint.
        roads: (4, 2) corners of drivable ground.
        lines: (2, 2) ends of lane lines.
        lanes: where vehicles drive or queue; those of the vehicles with cameras first.
        own_lanes: how many of ``lanes`` vehicles with cameras may take.
        places: (x, y, yaw) of parking places.
    """

    parts: list[tuple[Mesh, str]] = field(default_factory=list)
    roads: list[Floats] = field(default_factory=list)
    lines: list[Floats] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    own_lanes: int = 0
    places: list[tuple[float, float, float]] = field(default_factory=list)


def plan_of(layout: str) -> Plan:
    """Return the plan of a layout; an unknown one raises :class:`ConfigError`."""
    if layout not in PLANS:
        raise ConfigError(f"no street layout is called {layout!r}; known: {', '.join(PLANS)}")
    return PLANS[layout]


def drawn_street(rng: np.random.Generator, layout: str, palette: Palette, reach_m: float) -> Street:
    """Return a street from -``reach_m`` to ``reach_m``, everything else drawn from ``rng``."""
    return planned_street(rng, plan_of(layout), palette, reach_m)


def planned_street(rng: np.random.Generator, plan: Plan, palette: Palette, reach_m: float) -> Street:
    """Return a street of a plan from -``reach_m`` to ``reach_m``, everything else drawn from ``rng``."""
    return _Builder(rng, plan, palette, reach_m).street


class _Builder:
    def __init__(self, rng: np.random.Generator, plan: Plan, palette: Palette, reach_m: float) -> None:
        self._rng, self._plan, self._palette, self._reach = rng, plan, palette, reach_m
        self.street = Street()
        self._half = plan.median_m / 2 + plan.lanes * LANE_M
        self._cross_x = float(rng.uniform(15.0, 45.0))
        self._cross_half = plan.crossing * LANE_M
        self._kerb = self._half + {"along": 2.6, "across": 6.0, "": 1.5}[plan.parking]
        self._add_ground()
        self._add_lanes()
        self._add_parking()
        if plan.houses:
            self._add_houses()
        self._add_trees()

    def _add(self, mesh: Mesh, material: str, tint: Vec = (1.0, 1.0, 1.0)) -> None:
        self.street.parts.append((mesh.tinted(tint), material))

    def _add_road(self, low: tuple[float, float], high: tuple[float, float]) -> None:
        (x0, y0), (x1, y1) = low, high
        self.street.roads.append(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]))
        self._add(patch((x0, y0, 0), (x1 - x0, 0, 0), (0, y1 - y0, 0)), "asphalt", self._palette.road)

    def _add_ground(self) -> None:
        plan, far, kerb = self._plan, self._reach + _FAR_M, self._kerb
        self._add(patch((-far, -far, _LAWN_DROP_M), (2 * far, 0, 0), (0, 2 * far, 0)), "lawn", self._palette.ground)
        reach = self._reach
        for side in (-1, 1):
            inner, outer = sorted((side * plan.median_m / 2, side * self._half))
            self._add_road((-reach, inner), (reach, outer))
            if plan.parking == "along":  # the strip is no road for the masks: parked vehicles stand off it
                y = min(side * self._half, side * kerb)
                self._add(patch((-reach, y, -0.002), (2 * reach, 0, 0), (0, 2.6, 0)), "asphalt", self._palette.road)
            if plan.houses == "blocks":
                y = min(side * kerb, side * (kerb + 3.0))
                self._add(patch((-reach, y, -0.004), (2 * reach, 0, 0), (0, 3.0, 0)), "paving")
        if plan.crossing:
            x = self._cross_x
            for low, high in ((-reach, -self._half), (self._half, reach)):
                self._add_road((x - self._cross_half, low), (x + self._cross_half, high))
        if plan.median_m:
            rail = box((2 * reach, 0.12, 0.5)).moved((0, 0, 0.3))
            self._add(rail, "plain", (0.5, 0.5, 0.52))

    def _add_lanes(self) -> None:
        """Lay lanes along x, to the right of the middle first, and queues on the street that crosses."""
        plan, rng, reach = self._plan, self._rng, self._reach
        middles = [plan.median_m / 2 + (k + 0.5) * LANE_M for k in range(plan.lanes)]
        for y in middles:
            self.street.lanes.append(Lane((-reach, -y), 0.0, 2 * reach, float(rng.uniform(*plan.speed_mps))))
        self.street.own_lanes = plan.lanes
        for y in middles:
            self.street.lanes.append(Lane((reach, y), np.pi, 2 * reach, float(rng.uniform(*plan.speed_mps))))
        for edge in {plan.median_m / 2 + k * LANE_M for k in range(plan.lanes + 1)}:
            for y in {edge, -edge}:
                self._add_line((-reach, y), (reach, y), dashed=plan.median_m / 2 < edge < self._half)
        if plan.crossing:
            self._add_queues()

    def _add_queues(self) -> None:
        x, half, reach = self._cross_x, self._half, self._reach
        for k in range(self._plan.crossing):
            aside = (k + 0.5) * LANE_M
            # Vehicles wait with their front 3 m before the crossing; a lane begins with the first of them.
            for side in (-1, 1):
                start = (x - side * aside, side * (half + 6.0))
                self.street.lanes.append(Lane(start, side * np.pi / 2, reach - half - 6.0, 0.0))
                away = (x + side * aside, side * (half + 6.0))
                speed = float(self._rng.uniform(3.0, 7.0))
                self.street.lanes.append(Lane(away, side * np.pi / 2, reach - half - 6.0, speed))
        for y0, y1 in ((-reach, -half), (half, reach)):
            self._add_line((x, y0), (x, y1), dashed=False)

    def _add_line(self, start: tuple[float, float], end: tuple[float, float], dashed: bool) -> None:
        line = np.array([start, end], float)
        self.street.lines.append(line)
        length = float(np.linalg.norm(line[1] - line[0]))
        way = (line[1] - line[0]) / length
        left = np.array([-way[1], way[0]]) * MARKING_M / 2
        starts = np.arange(0.0, length, 6.0) if dashed else np.array([0.0])
        long = 3.0 if dashed else length
        stripes = [
            patch((*(line[0] + way * s - left), _MARK_LIFT_M), (*(way * long), 0), (*(2 * left), 0)) for s in starts
        ]
        self._add(merged(stripes), "marking")

    def _free(self, x: float, half: float) -> bool:
        """Tell whether a thing of this half length at ``x`` beside the street leaves the crossing street free."""
        return not self._plan.crossing or abs(x - self._cross_x) > self._cross_half + half + 2.0

    def _add_parking(self) -> None:
        along = self._plan.parking == "along"
        if not self._plan.parking:
            return
        for side in (-1, 1):
            for x in np.arange(-self._reach, self._reach, 6.2 if along else 4.4):
                if self._free(float(x), 8.0):
                    yaw = (0.0 if side < 0 else np.pi) if along else side * np.pi / 2
                    self.street.places.append((float(x), side * (self._half + (1.3 if along else 3.6)), float(yaw)))

    def _add_houses(self) -> None:
        rng, blocks = self._rng, self._plan.houses == "blocks"
        for side in (-1, 1):
            x = -self._reach
            while x < self._reach:
                wide = float(rng.uniform(12, 24) if blocks else rng.uniform(8, 12))
                deep = float(rng.uniform(9, 14))
                tall = 3.0 * float(rng.integers(3, 7) if blocks else rng.integers(1, 3)) + 0.6
                back = self._kerb + (3.2 if blocks else float(rng.uniform(3, 9)))
                if self._free(x + wide / 2, wide / 2 + 3.0):
                    house = box((wide, deep, tall)).moved((x + wide / 2, side * (back + deep / 2), 0))
                    tint = np.array(self._palette.walls[int(rng.integers(len(self._palette.walls)))])
                    material = "office" if blocks and rng.random() < 0.35 else "facade"
                    self._add(house, material, tint * rng.uniform(0.85, 1.15))
                x += wide + float(rng.uniform(0.5, 3.0) if blocks else rng.uniform(5, 14))

    def _add_trees(self) -> None:
        rng, blocks = self._rng, self._plan.houses == "blocks"
        crowns = [blob((1.6, 1.6, 1.9), rng, 0.25, 1) for _ in range(3)]
        trunk = cylinder(0.16, 2.2, 0.11, sides=5)
        for side in (-1, 1):
            x = -self._reach
            while x < self._reach:
                x += float(rng.exponential(self._plan.tree_gap_m)) + 2.5
                y = side * (self._kerb + (0.8 if blocks else float(rng.uniform(1.0, 3.0))))
                if not self._free(x, 2.0):
                    continue
                tint = np.array([0.28, 0.42, 0.14]) * rng.uniform(0.9, 1.5) * np.array(self._palette.ground)
                crown = crowns[int(rng.integers(3))].moved((x, y, float(rng.uniform(3.1, 3.9))), rng.uniform(0, 6.28))
                self._add(crown, "leaves", tint)
                self._add(trunk.moved((x, y, 0)), "bark", (0.6, 0.5, 0.42))
