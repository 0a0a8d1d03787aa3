"""A wood on uneven ground with a trail through it."""

from collections.abc import Callable

import numpy as np

from fed_core.scenes import textures
from fed_core.scenes.lighting import Ambient, Sky
from fed_core.scenes.materials import Material
from fed_core.scenes.meshes import Floats, Mesh, cylinder, terrain
from fed_core.scenes.routes import Route
from fed_core.scenes.scene import Air, Layout, Look, World, build_world
from fed_core.scenes.worlds import _plants as plants
from fed_core.scenes.worlds import worlds

HALF_M = 72.0
TRAIL_M = 1.3  # half width
Height = Callable[[Floats, Floats], Floats]


@worlds.register("forest")
def build(rng: np.random.Generator) -> World:
    """Return a forest; season, kinds of trees, ground and weather follow from ``rng``."""
    height = _ground(rng)
    trail = _trail(rng, height)
    layout = Layout(_materials(rng))
    layout.add(_floor(rng, height, trail), "litter", "terrain")
    _plant_trees(rng, layout, height, trail)
    _plant_undergrowth(rng, layout, height, trail)
    return build_world(layout, _look(rng), {"air": trail, "drive": trail, "walk": trail})


def _ground(rng: np.random.Generator) -> Height:
    """Return the height of the ground: rolling, with hills all around that close the view."""
    waves = rng.normal(0, 1, (5, 2)) * np.array([0.05, 0.07, 0.10, 0.14, 0.25])[:, None]
    size = np.array([0.9, 0.6, 0.35, 0.2, 0.05]) * rng.uniform(0.7, 1.3)
    phase = rng.uniform(0, 6.28, 5)

    def height(x: Floats, y: Floats) -> Floats:
        rolling = sum(s * np.sin(w[0] * x + w[1] * y + p) for s, w, p in zip(size, waves, phase, strict=True))
        rim = np.clip((np.hypot(x, y) - 46) / 26, 0, 1.4)
        result: Floats = rolling + 7 * rim * rim
        return result

    return height


def _trail(rng: np.random.Generator, height: Height) -> Route:
    count = 9
    turn = np.arange(count) * 2 * np.pi / count
    r = 27 * rng.uniform(0.72, 1.18, count)
    flat = Route(np.column_stack([r * np.cos(turn), r * np.sin(turn), np.zeros(count)]), 9.0)
    points = flat.points.copy()
    points[:, 2] = height(points[:, 0], points[:, 1])
    return Route(points, 1.0)


def _materials(rng: np.random.Generator) -> dict[str, Material]:
    return {
        "litter": Material(textures.litter(rng), 3.2),
        "bark": Material(textures.bark(rng), 1.1),
        "leaves": Material(textures.leaves(rng), 1.7, soft=True),
        "grass": Material(textures.plain(rng), 1.0, soft=True),
        "rock": Material(textures.rock(rng), 2.4),
    }


def _look(rng: np.random.Generator) -> Look:
    high, turn = np.radians(rng.uniform(32, 55)), rng.uniform(0, 6.28)
    sun = np.array([np.cos(high) * np.cos(turn), np.cos(high) * np.sin(turn), np.sin(high)])
    warm = rng.uniform(0, 1)
    sky = Sky(
        zenith=np.array([0.20, 0.38, 0.75]) * rng.uniform(0.8, 1.2),
        horizon=np.array([0.62, 0.70, 0.74]) + warm * np.array([0.12, 0.02, -0.10]),
        sun_dir=sun,
        sun_rgb=np.array([3.6, 3.2, 2.6]) + warm * np.array([0.2, -0.1, -0.5]),
        clouds=np.clip(textures.noise(rng, 4, 5) * 2.6 - 1.1, 0, 0.9),
    )
    air = Air(rng.uniform(0.003, 0.007), flight_m=(15.0, 20.0), flight_pitch_deg=(32.0, 45.0), speed=0.8)
    return Look(sky, Ambient(np.array([0.42, 0.46, 0.28]), 0.8, 40, 1.5), air, exposure=1.0)


def _floor(rng: np.random.Generator, height: Height, trail: Route) -> Mesh:
    """Return the ground, coloured by the trail and by patches of grass."""
    ground = terrain(height, HALF_M, 0.9)
    gap = trail.distance_to(ground.vertices[:, :2])
    wet = np.sin(ground.vertices[:, :2] @ rng.normal(0, 0.25, (2, 3)) + rng.uniform(0, 6, 3)).mean(1)
    path = np.clip(1.6 - gap / TRAIL_M + 0.35 * wet, 0, 1)[:, None]
    soil, green = np.array([1.75, 1.6, 1.45]), np.array([0.75, 1.35, 0.5])
    brown = np.array([1.0, 1.0, 0.85])
    grassy = np.clip(0.5 + 0.9 * wet, 0, 1)[:, None]
    color = (green * grassy + brown * (1 - grassy)) * (1 - path) + soil * path
    return ground.tinted(color * rng.uniform(0.88, 1.12, (len(gap), 1)))


def _spots(rng: np.random.Generator, spacing_m: float, half_m: float) -> Floats:
    """Return jittered grid points, (N, 2)."""
    n = int(2 * half_m / spacing_m)
    grid = (np.stack(np.meshgrid(np.arange(n), np.arange(n)), -1).reshape(-1, 2) + 0.5) * spacing_m - half_m
    spots: Floats = grid + rng.uniform(-0.42, 0.42, grid.shape) * spacing_m
    return spots


def _tree(rng: np.random.Generator, kind: int, detail: int) -> plants.Tree:
    height, crown = rng.uniform(9, 14), rng.uniform(2.3, 3.4)
    if kind == 1:
        return plants.conifer(rng, height, crown, 1.9, detail)
    make = plants.broadleaf if kind == 0 else plants.birch
    return make(rng, height, crown, rng.uniform(2.6, 4.0), detail)


def _plant_trees(rng: np.random.Generator, layout: Layout, height: Height, trail: Route) -> None:
    """Plant trees of a few kinds at least 1.9 m from the trail."""
    share = rng.dirichlet((1.6, 1.6, 0.8))
    models = [[_tree(rng, kind, 2 if k < 5 else 1) for k in range(8)] for kind in range(3)]
    snags = [plants.snag(rng, rng.uniform(3, 7)) for _ in range(2)]
    season = plants.AUTUMN if rng.random() < 0.3 else plants.GREENS
    spots = _spots(rng, rng.uniform(4.9, 6.0), 62)
    gap = trail.distance_to(spots)
    low = height(spots[:, 0], spots[:, 1])
    for spot, near, z in zip(spots, gap, low, strict=True):
        kind = int(rng.choice(3, p=share))
        place = np.array([*spot, z - 0.1])
        yaw, tone = rng.uniform(0, 6.28), rng.uniform(0.75, 1.25)
        tints = plants.NEEDLES if kind == 1 else season
        tint = np.array(tints[int(rng.integers(len(tints)))]) * tone * (1.6 if kind == 1 else 1.5)
        which = int(rng.integers(5)) if near < 9 else int(rng.integers(5, 8))
        if near < (3.6 if kind == 1 else 1.9):
            continue
        if rng.random() < 0.04:
            snags[which % 2].plant(layout, place, yaw, tint)
        else:
            models[kind][which].plant(layout, place, yaw, tint)


def _plant_undergrowth(rng: np.random.Generator, layout: Layout, height: Height, trail: Route) -> None:
    """Scatter grass, ferns, bushes, rocks and fallen trunks off the trail."""
    green = np.array(plants.GREENS[int(rng.integers(4))])
    grass = [plants.tuft(rng, 0.32, 9, 0.35) for _ in range(4)]
    ferns = [plants.tuft(rng, 0.62, 12, 0.9) for _ in range(3)]
    bushes = [plants.bush(rng, rng.uniform(0.5, 0.9)) for _ in range(4)]
    rocks = [plants.boulder(rng, rng.uniform(0.3, 0.8)) for _ in range(4)]
    kinds = (
        ("grass", grass, 1.5, 38.0, TRAIL_M - 0.1, "grass"),
        ("grass", ferns, 3.2, 42.0, 1.9, "fern"),
        ("leaves", bushes, 6.5, 46.0, 2.1, "bush"),
        ("rock", rocks, 8.0, 50.0, 2.3, "rock"),
    )
    for material, models, spacing, half, clear, label in kinds:
        spots = _spots(rng, spacing, half)
        gap = trail.distance_to(spots)
        seen = gap < (10 if label == "grass" else 99)  # from farther away the ground's own colour does
        spots = spots[(gap > clear) & seen & (rng.random(len(spots)) < 0.7)]
        for spot, z in zip(spots, height(spots[:, 0], spots[:, 1]), strict=True):
            tint = np.full(3, 0.5) if material == "rock" else green * rng.uniform(0.45, 0.85)
            mesh = models[int(rng.integers(len(models)))].moved((*spot, z - 0.04), rng.uniform(0, 6.28))
            layout.add(mesh.tinted(tint), material, label)
    for spot in _spots(rng, 17.0, 40):
        if trail.distance_to(spot[None])[0] > 4.5:
            log = cylinder(0.28, rng.uniform(3, 5), 0.2, sides=10, rings=3).tilted(np.pi / 2)
            z = float(height(spot[:1], spot[1:])[0])
            layout.add(log.moved((*spot, z + 0.22), rng.uniform(0, 6.28)), "bark", "log")
