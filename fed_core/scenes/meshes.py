"""Triangle meshes of simple solids, with outward winding, normals and texture coordinates in metres.

World axes follow REP 103: x east, y north, z up. Faces are counter-clockwise seen from outside, so a ray that meets
a back face started inside a solid.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Vec = Sequence[float] | Floats


@dataclass(frozen=True)
class Mesh:
    """N vertices and M triangles.

    Attributes:
        vertices: (N, 3) float64 metres.
        faces: (M, 3) int64 vertex numbers.
        normals: (N, 3) float64, unit length.
        uvs: (N, 2) float64, metres along the surface.
        colors: (N, 3) float64, linear factor on the texture.
    """

    vertices: Floats
    faces: Ints
    normals: Floats
    uvs: Floats
    colors: Floats

    def moved(self, offset: Vec, yaw: float = 0.0) -> "Mesh":
        """Return the mesh turned by ``yaw`` radians about z and then shifted."""
        c, s = np.cos(yaw), np.sin(yaw)
        turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
        return replace(self, vertices=self.vertices @ turn + np.asarray(offset, float), normals=self.normals @ turn)

    def tilted(self, angle: float) -> "Mesh":
        """Return the mesh turned by ``angle`` radians about y."""
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
        return replace(self, vertices=self.vertices @ turn, normals=self.normals @ turn)

    def tinted(self, rgb: Vec) -> "Mesh":
        """Return the mesh with its colours multiplied by ``rgb``, (3,) or (N, 3)."""
        return replace(self, colors=self.colors * np.asarray(rgb, float))


def _mesh(vertices: Floats, faces: Ints, normals: Floats, uvs: Floats) -> Mesh:
    return Mesh(vertices, faces, normals, uvs, np.ones_like(vertices))


def merged(parts: Sequence[Mesh]) -> Mesh:
    """Return one mesh of all ``parts``."""
    counts = np.cumsum([0] + [len(p.vertices) for p in parts[:-1]])
    return Mesh(
        np.concatenate([p.vertices for p in parts]),
        np.concatenate([p.faces + n for p, n in zip(parts, counts, strict=True)]),
        np.concatenate([p.normals for p in parts]),
        np.concatenate([p.uvs for p in parts]),
        np.concatenate([p.colors for p in parts]),
    )


def _grid_faces(rows: int, columns: int) -> Ints:
    """Return the triangles of a grid of (rows + 1) x (columns + 1) vertices in row order."""
    r, c = np.mgrid[0:rows, 0:columns]
    a = (r * (columns + 1) + c).ravel()
    b, d = a + 1, a + columns + 1
    faces: Ints = np.concatenate([np.stack([a, b, d + 1], 1), np.stack([a, d + 1, d], 1)]).astype(np.int64)
    return faces


def patch(origin: Vec, edge_u: Vec, edge_v: Vec, step: float = 1e9) -> Mesh:
    """Return a parallelogram facing ``edge_u`` x ``edge_v``, cut into cells of about ``step`` metres."""
    o, eu, ev = (np.asarray(x, float) for x in (origin, edge_u, edge_v))
    lu, lv = float(np.linalg.norm(eu)), float(np.linalg.norm(ev))
    nu, nv = max(1, round(lu / step)), max(1, round(lv / step))
    v, u = (g.ravel()[:, None] for g in np.mgrid[0 : nv + 1, 0 : nu + 1] / np.array([nv, nu]).reshape(2, 1, 1))
    normal = np.cross(eu, ev)
    normal /= np.linalg.norm(normal)
    vertices = o + u * eu + v * ev
    return _mesh(vertices, _grid_faces(nv, nu), np.tile(normal, (len(vertices), 1)), np.hstack([u * lu, v * lv]))


def box(size: Vec, step: float = 1e9, bottom: bool = False) -> Mesh:
    """Return a box centred in x and y that stands on z = 0; texture coordinates run along each side."""
    return tapered_box(size, (float(size[0]), float(size[1])), step=step, bottom=bottom)


def tapered_box(size: Vec, top: Vec, shift: float = 0.0, step: float = 1e9, bottom: bool = False) -> Mesh:
    """Return a box whose top face measures ``top`` (x, y) and is shifted along x."""
    sx, sy, sz = (float(x) for x in size)
    tx, ty = (float(x) for x in top)
    low = np.array([[-sx, -sy, 0], [sx, -sy, 0], [sx, sy, 0], [-sx, sy, 0]]) / 2
    high = np.array([[-tx, -ty, 0], [tx, -ty, 0], [tx, ty, 0], [-tx, ty, 0]]) / 2 + np.array([shift, 0, sz])
    quads = np.array([(low[i], low[(i + 1) % 4], high[(i + 1) % 4], high[i]) for i in range(4)] + [tuple(high)])
    if bottom:
        quads = np.concatenate([quads, [low[[0, 3, 2, 1]]]])
    if step > 1.5 * max(sx, sy, sz, tx, ty):
        return _plain_quads(quads)
    return merged([_quad(a, b, c, d, step) for a, b, c, d in quads])


def _plain_quads(quads: Floats) -> Mesh:
    """Return quads (Q, 4, 3), counter-clockwise, of two triangles each."""
    wide = np.linalg.norm(quads[:, 1] - quads[:, 0], axis=1)
    tall = np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1)
    normal = np.cross(quads[:, 2] - quads[:, 0], quads[:, 3] - quads[:, 1])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    zero = np.zeros_like(wide)
    uvs = np.stack([np.stack([zero, wide, wide, zero], 1), np.stack([zero, zero, tall, tall], 1)], -1)
    faces = (np.array([[0, 1, 2], [0, 2, 3]])[None] + 4 * np.arange(len(quads))[:, None, None]).reshape(-1, 3)
    return _mesh(quads.reshape(-1, 3), faces.astype(np.int64), np.repeat(normal, 4, 0), uvs.reshape(-1, 2))


def _quad(a: Floats, b: Floats, c: Floats, d: Floats, step: float) -> Mesh:
    """Return the bilinear patch a-b-c-d (counter-clockwise)."""
    width = max(float(np.linalg.norm(b - a)), float(np.linalg.norm(c - d)))
    height = float(np.linalg.norm(d - a))
    nu, nv = max(1, round(width / step)), max(1, round(height / step))
    v, u = (g.ravel()[:, None] for g in np.mgrid[0 : nv + 1, 0 : nu + 1] / np.array([nv, nu]).reshape(2, 1, 1))
    vertices = (a * (1 - u) + b * u) * (1 - v) + (d * (1 - u) + c * u) * v
    normal = np.cross(c - a, d - b)
    normal /= np.linalg.norm(normal)
    return _mesh(vertices, _grid_faces(nv, nu), np.tile(normal, (len(vertices), 1)), np.hstack([u * width, v * height]))


def cylinder(radius: float, height: float, top: float | None = None, sides: int = 10, rings: int = 1) -> Mesh:
    """Return an upright cylinder or cone frustum (``top`` = upper radius) that stands on z = 0, closed above."""
    upper = radius if top is None else top
    v, u = (g.ravel() for g in np.mgrid[0 : rings + 1, 0 : sides + 1] / np.array([rings, sides]).reshape(2, 1, 1))
    angle = u * 2 * np.pi
    r = radius + (upper - radius) * v
    out = np.stack([np.cos(angle), np.sin(angle)], 1)
    vertices = np.column_stack([out * r[:, None], v * height])
    normals = np.column_stack([out, np.full(len(v), (radius - upper) / max(height, 1e-6))])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    uvs = np.column_stack([u * 2 * np.pi * max(radius, upper), v * height])
    side = _mesh(vertices, _grid_faces(rings, sides), normals, uvs)
    if upper < 1e-3:
        return side
    return merged([side, disc(upper, sides).moved((0, 0, height))])


def disc(radius: float, sides: int = 12) -> Mesh:
    """Return a flat disc at z = 0 that faces up."""
    angle = np.arange(sides) * 2 * np.pi / sides
    ring = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(sides)]) * radius
    vertices = np.vstack([[0.0, 0.0, 0.0], ring])
    i = np.arange(sides)
    faces = np.stack([np.zeros_like(i), i + 1, (i + 1) % sides + 1], 1).astype(np.int64)
    return _mesh(vertices, faces, np.tile([0.0, 0.0, 1.0], (sides + 1, 1)), vertices[:, :2])


def sphere(detail: int) -> Mesh:
    """Return a unit sphere: an octahedron cut ``detail`` times (8 * 4**detail triangles)."""
    corner = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
    top = [[i, (i + 1) % 4, 4] for i in range(4)]
    tri = corner[np.array(top + [[(i + 1) % 4, i, 5] for i in range(4)])]
    for _ in range(detail):
        a, b, c = tri[:, 0], tri[:, 1], tri[:, 2]
        ab, bc, ca = ((x + y) / np.linalg.norm(x + y, axis=1, keepdims=True) for x, y in ((a, b), (b, c), (c, a)))
        tri = np.concatenate([np.stack(t, 1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    points, inverse = np.unique(np.round(tri.reshape(-1, 3), 9), axis=0, return_inverse=True)
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    return _mesh(points, inverse.reshape(-1, 3).astype(np.int64), points.copy(), points[:, :2] + 0.7 * points[:, 2:])


def blob(radii: Vec, rng: np.random.Generator, roughness: float = 0.2, detail: int = 2) -> Mesh:
    """Return a lumpy ellipsoid about the origin, such as a rock, a bush or a part of a tree crown."""
    ball = sphere(detail)
    n = ball.normals
    bump = np.zeros(len(n))
    for scale in (1.5, 3.0, 5.5):
        waves = rng.normal(size=(3, 3)) * scale
        bump += np.sin(n @ waves.T + rng.uniform(0, 6.3, 3)).sum(1) / (3 * scale**0.5)
    grain = rng.uniform(-0.5, 0.5, len(n))
    vertices = n * (1 + roughness * (bump + 0.5 * grain))[:, None] * np.asarray(radii, float)
    normals = vertex_normals(vertices, ball.faces)
    # The eight octants share one mirrored picture: no seam, and little stretch.
    part = np.abs(n) / np.abs(n).sum(1, keepdims=True)
    uvs = np.stack([part[:, 0] - part[:, 1], 1.5 * part[:, 2]], 1) * 1.3 * float(np.mean(radii))
    return _mesh(vertices, ball.faces, normals, uvs + rng.uniform(0, 3, 2))


def vertex_normals(vertices: Floats, faces: Ints) -> Floats:
    """Return area-weighted unit normals, (N, 3)."""
    tri = vertices[faces]
    face = np.cross(tri[:, 1] - tri[:, 0], tri[:, 2] - tri[:, 0])
    total = np.stack(
        [np.bincount(faces.ravel(), np.repeat(face[:, k], 3), minlength=len(vertices)) for k in range(3)], 1
    )
    unit: Floats = total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return unit


def terrain(height: Callable[[Floats, Floats], Floats], half_size: float, step: float) -> Mesh:
    """Return the surface z = ``height(x, y)`` over a square of side 2 * ``half_size``."""
    flat = patch((-half_size, -half_size, 0), (2 * half_size, 0, 0), (0, 2 * half_size, 0), step)
    vertices = flat.vertices.copy()
    vertices[:, 2] = height(vertices[:, 0], vertices[:, 1])
    return replace(flat, vertices=vertices, normals=vertex_normals(vertices, flat.faces))
