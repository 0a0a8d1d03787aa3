"""Trees, bushes, grass and rocks. A world makes a few of each kind and plants copies of them."""

from dataclasses import dataclass

import numpy as np

from fed_core.scenes.meshes import Floats, Mesh, blob, cylinder, merged
from fed_core.scenes.scene import Layout

GREENS = ((0.16, 0.30, 0.07), (0.22, 0.36, 0.08), (0.12, 0.26, 0.08), (0.28, 0.36, 0.10))
AUTUMN = ((0.55, 0.24, 0.05), (0.62, 0.40, 0.07), (0.42, 0.14, 0.05), (0.30, 0.34, 0.08))
NEEDLES = ((0.08, 0.20, 0.09), (0.10, 0.22, 0.07), (0.07, 0.17, 0.10))


@dataclass(frozen=True)
class Tree:
    """One tree at the origin: wood and leaves are separate meshes because they are of different materials."""

    wood: Mesh
    leaves: Mesh | None

    def plant(self, layout: Layout, place: Floats, yaw: float, tint: Floats) -> None:
        """Add a copy to ``layout``."""
        layout.add(self.wood.moved(place, yaw).tinted((0.46, 0.38, 0.31)), "bark", "tree")
        if self.leaves is not None:
            layout.add(self.leaves.moved(place, yaw).tinted(tint), "leaves", "tree")


def cards(rng: np.random.Generator, centers: Floats, radii: Floats, count: int, size_m: float) -> Mesh:
    """Return ``count`` loose leaves around ellipsoids at ``centers`` (N, 3) with ``radii`` (N, 3)."""
    which = rng.integers(len(centers), size=count)
    way = rng.normal(size=(count, 3))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    middle = centers[which] + way * radii[which] * rng.uniform(0.85, 1.22, (count, 1))
    side = rng.normal(size=(count, 3))
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    other = np.cross(side, way)
    length = size_m * rng.uniform(0.6, 1.4, (count, 1))
    corners = np.stack([middle - side * length, middle + other * length * 0.6, middle + side * length], 1)
    vertices = corners.reshape(-1, 3)
    faces = np.arange(3 * count).reshape(-1, 3)
    normals = np.repeat(way, 3, 0)
    tone = np.repeat(rng.uniform(0.75, 1.35, (count, 1)), 3, 0)
    return Mesh(vertices, faces, normals, vertices[:, :2] + vertices[:, 2:], np.ones_like(vertices) * tone)


def broadleaf(rng: np.random.Generator, height_m: float, crown_m: float, clear_m: float, detail: int = 2) -> Tree:
    """Return a tree with a round crown of radius ``crown_m`` from ``clear_m`` above the ground; ``detail`` 1: far."""
    radius = 0.035 * height_m * rng.uniform(0.8, 1.2)
    wood = [cylinder(radius * 1.15, height_m * 0.72, radius * 0.35, sides=9, rings=4)]
    middle = (clear_m + height_m) / 2
    tall = (height_m - clear_m) / 2
    count = int(rng.integers(6, 10))
    turn = rng.uniform(0, 6.28) + np.arange(count) * 2.4
    out = crown_m * 0.55 * rng.uniform(0.6, 1.1, count)
    centers = np.stack([out * np.cos(turn), out * np.sin(turn), middle + tall * rng.uniform(-0.55, 0.6, count)], 1)
    centers[0] = [0, 0, height_m - tall * 0.55]
    radii = np.stack([crown_m * rng.uniform(0.45, 0.62, count)] * 2 + [tall * rng.uniform(0.36, 0.5, count)], 1)
    for c in centers[1:4]:
        reach = float(np.hypot(c[0], c[1]))
        lean = float(np.arctan2(reach, c[2] - clear_m * 0.8))
        branch = cylinder(radius * 0.4, float(np.hypot(reach, c[2] - clear_m * 0.8)), radius * 0.12, sides=6)
        wood.append(branch.tilted(lean).moved((0, 0, clear_m * 0.8), float(np.arctan2(c[1], c[0]))))
    lumps = [blob(r, rng, 0.22, detail).moved(c) for c, r in zip(centers, radii, strict=True)]
    loose = cards(rng, centers, radii, 280 if detail > 1 else 40, 0.05 * crown_m + 0.12)
    crown = merged([*lumps, loose])
    return Tree(merged(wood), _shaded(crown, np.array([0, 0, middle]), np.array([crown_m, crown_m, tall])))


def conifer(rng: np.random.Generator, height_m: float, crown_m: float, clear_m: float, detail: int = 2) -> Tree:
    """Return a spruce: ragged tiers of needles around a straight trunk."""
    radius = 0.022 * height_m * rng.uniform(0.85, 1.2)
    wood = cylinder(radius * 1.2, height_m * 0.95, radius * 0.15, sides=8, rings=3)
    tiers = int(rng.integers(7, 10)) if detail > 1 else 6
    parts = []
    for k in range(tiers):
        f = k / tiers
        low = clear_m + (height_m - clear_m) * f
        wide = crown_m * (1 - f) ** 0.85 + 0.25
        tall = (height_m - clear_m) / tiers * 1.9
        skirt = cylinder(wide, tall, 0.0004, sides=13, rings=2 if detail > 1 else 1).moved(
            (0, 0, low), rng.uniform(0, 6.28)
        )
        ragged = skirt.vertices.copy()
        pull = rng.uniform(0.68, 1.15, 14)
        pull[-1] = pull[0]
        ragged[:14, :2] *= pull[:, None]
        ragged[:14, 2] -= 0.22 * wide * pull
        shade = np.repeat([1.15, 0.8, 0.5] if detail > 1 else [1.15, 0.5], 14)
        parts.append(Mesh(ragged, skirt.faces, skirt.normals, skirt.uvs, skirt.colors * shade[:, None]))
    return Tree(wood, merged(parts))


def birch(rng: np.random.Generator, height_m: float, crown_m: float, clear_m: float, detail: int = 2) -> Tree:
    """Return a slender pale tree."""
    tree = broadleaf(rng, height_m, crown_m * 0.75, clear_m, detail)
    pale = cylinder(0.013 * height_m, height_m * 0.85, 0.03, sides=8, rings=4).tinted((2.8, 3.2, 3.8))
    return Tree(pale, tree.leaves)


def snag(rng: np.random.Generator, height_m: float) -> Tree:
    """Return a dead trunk with a few bare branches."""
    parts = [cylinder(0.24, height_m, 0.10, sides=8, rings=3)]
    for _ in range(4):
        stick = cylinder(0.06, rng.uniform(0.7, 1.8), 0.015, sides=5).tilted(rng.uniform(0.7, 1.3))
        parts.append(stick.moved((0, 0, height_m * rng.uniform(0.5, 0.95)), rng.uniform(0, 6.28)))
    return Tree(merged(parts).tinted((0.8, 0.78, 0.76)), None)


def bush(rng: np.random.Generator, radius_m: float) -> Mesh:
    """Return a low bush."""
    centers = np.column_stack([rng.normal(0, 0.45 * radius_m, (4, 2)), np.full(4, 0.45 * radius_m)])
    radii = np.tile([0.6 * radius_m, 0.6 * radius_m, 0.62 * radius_m], (4, 1)) * rng.uniform(0.8, 1.1, (4, 1))
    lumps = [blob(r, rng, 0.25, 2).moved(c) for c, r in zip(centers, radii, strict=True)]
    whole = merged([*lumps, cards(rng, centers, radii, 120, 0.09)])
    return _shaded(whole, np.array([0, 0, 0.4 * radius_m]), np.full(3, radius_m))


def tuft(rng: np.random.Generator, height_m: float, blades: int, spread: float) -> Mesh:
    """Return blades of grass, or with a larger ``spread`` the fronds of a fern, bent outward."""
    turn = rng.uniform(0, 2 * np.pi, blades)
    tall = height_m * rng.uniform(0.6, 1.1, blades)
    out = np.stack([np.cos(turn), np.sin(turn), np.zeros(blades)], 1)
    side = np.stack([-np.sin(turn), np.cos(turn), np.zeros(blades)], 1) * (0.06 + 0.16 * spread) * height_m
    root = out * rng.uniform(0, 0.25, (blades, 1)) * height_m
    bend = root + out * (tall * 0.45 * spread)[:, None] + np.array([0, 0, 1]) * (tall * 0.75)[:, None]
    tip = root + out * (tall * (0.25 + spread))[:, None] + np.array([0, 0, 1]) * (tall * (1.0 - 0.35 * spread))[:, None]
    rows = np.stack([root - side * 0.5, root + side * 0.5, bend - side * 0.6, bend + side * 0.6, tip], 1)
    vertices = rows.reshape(-1, 3)
    one = np.array([[0, 1, 3], [0, 3, 2], [2, 3, 4]])
    faces = (one[None] + 5 * np.arange(blades)[:, None, None]).reshape(-1, 3)
    normals = np.tile([0.0, 0.0, 1.0], (len(vertices), 1)) * 0.8 + np.repeat(out, 5, 0) * 0.3
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    tone = np.tile([0.35, 0.35, 0.8, 0.8, 1.05], blades)[:, None] * np.ones(3)
    return Mesh(vertices, faces.astype(np.int64), normals, vertices[:, :2] * 0.5 + vertices[:, 2:], tone)


def boulder(rng: np.random.Generator, radius_m: float) -> Mesh:
    """Return a rock that sits a little in the ground."""
    radii = radius_m * rng.uniform((0.8, 0.8, 0.5), (1.3, 1.1, 0.85))
    return blob(radii, rng, 0.16, 2).moved((0, 0, 0.25 * radius_m))


def _shaded(mesh: Mesh, center: Floats, radii: Floats) -> Mesh:
    """Return foliage that is darker inside and below, as leaves above take the light."""
    inside = np.clip(np.linalg.norm((mesh.vertices - center) / radii, axis=1), 0, 1.2)
    below = np.clip((mesh.vertices[:, 2] - center[2]) / radii[2] * 0.5 + 0.5, 0, 1)
    return mesh.tinted(((0.35 + 0.65 * inside) * (0.6 + 0.5 * below))[:, None] * np.ones(3))
