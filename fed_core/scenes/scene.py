"""Geometry of a world: triangles with materials and labels, and the finished world that is rendered."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fed_core.scenes.lighting import Ambient, Lamp, Nearby, Sky, ambient_light, lamp_light
from fed_core.scenes.materials import Atlas, Material
from fed_core.scenes.meshes import Floats, Mesh, merged
from fed_core.scenes.raycast import Raycaster
from fed_core.scenes.routes import Route

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """One object of a world: its mesh, what it is made of and what it is."""

    mesh: Mesh
    material: str
    label: str
    casts_shadow: bool = True


@dataclass
class Layout:
    """What an environment puts together before light and rays.

    Attributes:
        materials: by name.
        parts: objects, in the order in which they were added.
        lamps: lamps of the world.
    """

    materials: Mapping[str, Material]
    parts: list[Part] = field(default_factory=list)
    lamps: list[Lamp] = field(default_factory=list)

    def add(self, mesh: Mesh, material: str, label: str, casts_shadow: bool = True) -> None:
        """Add one object."""
        self.parts.append(Part(mesh, material, label, casts_shadow))


@dataclass(frozen=True)
class Air:
    """Fog and flight of an environment.

    Attributes:
        haze_per_m: share of light lost per metre.
        flight_m: lowest and highest height of a UAV over the ground.
        flight_pitch_deg: range of its camera's downward pitch.
        speed: factor on every platform's speed.
    """

    haze_per_m: float
    flight_m: tuple[float, float]
    flight_pitch_deg: tuple[float, float]
    speed: float = 1.0


@dataclass(frozen=True)
class World:
    """A finished world.

    Attributes:
        rays: all triangles, for cameras.
        shadows: triangles that stop sunlight.
        atlas: materials.
        corners: (3, M) int32 vertex numbers of every triangle.
        attributes: (N, 11) float32 per vertex: uv 2, normal 3, colour 3, light 3.
        material: (M,) int32 material number of every triangle.
        part: (M,) int32 object number of every triangle.
        labels: what every object is.
        sky: sky and sun.
        air: fog and flight.
        routes: closed paths over the ground by kind: "air", "drive", "walk".
        exposure: factor from light to the sensor's full scale.
        headlight: (3,) intensity of the robots' own lamp, zeros for none.
    """

    rays: Raycaster
    shadows: Raycaster
    atlas: Atlas
    corners: npt.NDArray[np.int32]
    attributes: F32
    material: npt.NDArray[np.int32]
    part: npt.NDArray[np.int32]
    labels: tuple[str, ...]
    sky: Sky
    air: Air
    routes: Mapping[str, Route]
    exposure: float
    headlight: Floats


@dataclass(frozen=True)
class Look:
    """Light and camera settings with which a layout becomes a world; see :class:`World`."""

    sky: Sky
    ambient: Ambient
    air: Air
    exposure: float
    headlight: Floats = field(default_factory=lambda: np.zeros(3))


def build_world(layout: Layout, look: Look, routes: Mapping[str, Route]) -> World:
    """Return the world of ``layout`` with its light worked out."""
    mesh = merged([p.mesh for p in layout.parts])
    counts = [len(p.mesh.faces) for p in layout.parts]
    atlas = Atlas(layout.materials)
    number = np.array([atlas.numbers[p.material] for p in layout.parts], np.int32)
    part = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    casts = np.repeat([p.casts_shadow for p in layout.parts], counts)
    rays = Raycaster(mesh.vertices, mesh.faces)
    shadows = rays if casts.all() else Raycaster(mesh.vertices, mesh.faces[casts])
    light = _vertex_light(layout, look, mesh, shadows)
    attributes = np.concatenate([mesh.uvs, mesh.normals, mesh.colors, light], 1).astype(np.float32)
    return World(
        rays=rays,
        shadows=shadows,
        atlas=atlas,
        corners=np.ascontiguousarray(mesh.faces.T.astype(np.int32)),
        attributes=attributes,
        material=number[part],
        part=part,
        labels=tuple(p.label for p in layout.parts),
        sky=look.sky,
        air=look.air,
        routes=routes,
        exposure=look.exposure,
        headlight=look.headlight,
    )


def _vertex_light(layout: Layout, look: Look, mesh: Mesh, shadows: Raycaster) -> Floats:
    """Return (N, 3) light per vertex: traced for solid parts, by formula for foliage (too many vertices)."""
    sizes = [len(p.mesh.vertices) for p in layout.parts]
    soft = np.repeat([layout.materials[p.material].soft for p in layout.parts], sizes)
    light = np.zeros_like(mesh.vertices)
    solid = np.flatnonzero(~soft)
    points, normals = _drawn_in(mesh)[solid], mesh.normals[solid]
    light[solid] = ambient_light(shadows, points, normals, look.sky, look.ambient)
    light[solid] += lamp_light(shadows, points, normals, layout.lamps)
    if soft.any():
        up = mesh.normals[soft][:, 2:] * 0.5 + 0.5
        above = look.sky.gradient(np.array([[0.0], [0.0], [1.0]], np.float32))[:, 0] * 0.5 + look.sky.horizon * 0.5
        light[soft] = (above * up + look.ambient.rgb * (1 - up)) * 0.8
        light[soft] += _open_lamp_light(mesh.vertices[soft], layout.lamps)
    return light


def _drawn_in(mesh: Mesh) -> Floats:
    """Return the vertices drawn a little towards the middle of their triangles, (N, 3).

    A corner of a wall lies exactly on the floor and a base lies inside the ground; light found there would be black.
    """
    middle = mesh.vertices[mesh.faces].mean(1)
    corner = mesh.faces.ravel()
    count = np.maximum(np.bincount(corner, minlength=len(mesh.vertices)), 1)
    around = [np.bincount(corner, np.repeat(middle[:, k], 3), minlength=len(mesh.vertices)) / count for k in range(3)]
    inside: Floats = mesh.vertices + 0.3 * (np.stack(around, 1) - mesh.vertices)
    return inside


def _open_lamp_light(points: Floats, lamps: list[Lamp]) -> Floats:
    """Return (N, 3) lamp light on leaves: no shadows and no facing, leaves turn every way."""
    light = np.zeros_like(points)
    near_to = Nearby(points)
    for lamp in lamps:
        place = lamp.points.mean(0)
        near = near_to(place, lamp.reach_m)
        to = place - points[near]
        d2 = np.maximum(np.einsum("ij,ij->i", to, to), 1.0)
        beam = 1.0 if lamp.normal is None else np.clip(-(to @ lamp.normal) / np.sqrt(d2), 0, 1)
        light[near] += (0.25 * beam * np.clip(1 - d2 / lamp.reach_m**2, 0, 1) / d2)[:, None] * lamp.rgb
    return light
