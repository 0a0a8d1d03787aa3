"""Closest hits, shadows and distances to a set of triangles; embreex does the search."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from embreex.mesh_construction import TriangleMesh
from embreex.rtcore_scene import EmbreeScene

Floats = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Hits:
    """What N rays met first.

    Attributes:
        t: (N,) float32, hit point = origin + t * direction; inf where nothing is hit.
        face: (N,) int32 triangle number, -1 where nothing is hit.
        u: (N,) float32 weight of the second corner.
        v: (N,) float32 weight of the third corner.
    """

    t: F32
    face: npt.NDArray[np.int32]
    u: F32
    v: F32


class Raycaster:
    """A fixed set of triangles, (N, 3) vertices and (M, 3) faces."""

    def __init__(self, vertices: Floats, faces: Ints) -> None:
        self._triangles = np.ascontiguousarray(vertices[faces], np.float32)
        self._scene = EmbreeScene()
        # The scene keeps no reference to the mesh object; embree owns its own buffers.
        self._mesh = TriangleMesh(self._scene, self._triangles)
        self._low = self._triangles.min(1)
        self._high = self._triangles.max(1)

    def closest(self, origins: F32, directions: F32) -> Hits:
        """Return the first hits; directions need not have unit length. (N, 3) float32 both."""
        out = self._scene.run(origins, directions, output=1)
        face = out["primID"]
        t = out["tfar"]
        t[face < 0] = np.inf
        return Hits(t, face, out["u"], out["v"])

    def occluded(self, origins: F32, directions: F32, reach: F32 | None = None) -> npt.NDArray[np.bool_]:
        """Return, (N,) bool, whether anything lies within ``reach`` (N,) direction lengths (default: anywhere)."""
        dists = None if reach is None else np.array(reach, np.float32)
        result: npt.NDArray[np.bool_] = self._scene.run(origins, directions, dists=dists, query="OCCLUDED") >= 0
        return result

    def back_share(self, point: Floats) -> float:
        """Return the share of 26 directions around ``point`` (3,) that meet a triangle from behind."""
        way = np.stack(np.meshgrid(*[[-1.0, 0.02, 1.0]] * 3), -1).reshape(-1, 3).astype(np.float32)
        way = way[np.abs(way).max(1) > 0.5]
        hits = self.closest(np.broadcast_to(np.asarray(point, np.float32), way.shape).copy(), way)
        tri = self._triangles[np.maximum(hits.face, 0)]
        normal = np.cross(tri[:, 1] - tri[:, 0], tri[:, 2] - tri[:, 0])
        behind = (np.einsum("ij,ij->i", normal, way) > 0) & (hits.face >= 0)
        return float(behind.mean())

    def distances(self, points: Floats, limit: float) -> Floats:
        """Return the distance in metres from points (N, 3) to the nearest triangle, at most ``limit``."""
        found = np.full(len(points), limit)
        for first in range(0, len(points), 16):  # a first sieve for 16 neighbours on a path saves most of the time
            group = np.asarray(points[first : first + 16], np.float32)
            near = self._near(slice(None), group.min(0) - limit, group.max(0) + limit)
            for k, p in enumerate(group):
                tri = self._triangles[near[self._near(near, p - limit, p + limit)]].astype(np.float64)
                if len(tri):
                    found[first + k] = min(limit, float(_point_triangle_m(points[first + k], tri).min()))
        return found

    def _near(self, among: slice | npt.NDArray[np.intp], low: F32, high: F32) -> npt.NDArray[np.intp]:
        """Return which triangles ``among`` the given ones have a bounding box that meets the box low..high."""
        return np.flatnonzero(np.all((self._low[among] < high) & (self._high[among] > low), axis=1))


def _point_triangle_m(p: Floats, tri: Floats) -> Floats:
    """Return distances from ``p`` (3,) to triangles (N, 3, 3): to the plane if its foot is inside, else to an edge."""
    a, b, c = tri[:, 0], tri[:, 1], tri[:, 2]
    edges = np.stack([_point_segment_m(p, s, e) for s, e in ((a, b), (b, c), (c, a))]).min(0)
    normal = np.cross(b - a, c - a)
    length = np.maximum(np.linalg.norm(normal, axis=1), 1e-12)
    inside = np.ones(len(tri), np.bool_)
    for s, e in ((a, b), (b, c), (c, a)):
        inside &= np.einsum("ij,ij->i", np.cross(e - s, p - s), normal) >= 0
    plane = np.abs(np.einsum("ij,ij->i", p - a, normal)) / length
    return np.where(inside, np.minimum(plane, edges), edges)


def _point_segment_m(p: Floats, start: Floats, end: Floats) -> Floats:
    along = end - start
    t = np.einsum("ij,ij->i", p - start, along) / np.maximum(np.einsum("ij,ij->i", along, along), 1e-12)
    result: Floats = np.linalg.norm(p - (start + np.clip(t, 0, 1)[:, None] * along), axis=1)
    return result
