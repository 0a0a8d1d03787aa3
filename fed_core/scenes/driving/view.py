"""What cameras see of a street with traffic: pictures, and how many pixels of each vehicle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fed_core.scenes.driving.carriers import VIEW_DEG, Mount
from fed_core.scenes.driving.palettes import atlas, sky_light
from fed_core.scenes.driving.vehicles import Vehicle, vehicle_parts
from fed_core.scenes.lighting import Sky
from fed_core.scenes.materials import Atlas
from fed_core.scenes.meshes import Floats, Mesh, merged
from fed_core.scenes.raycast import Raycaster
from fed_core.scenes.renderer import Pinhole, render
from fed_core.scenes.scene import Air, World

F32 = npt.NDArray[np.float32]

#: Things farther than this are left out (measured along each axis); houses and haze hide most of what lies beyond.
SIGHT_M = 150.0
#: The same for vehicles, which are small.
TRAFFIC_M = 110.0
NOTHING = -1


@dataclass(frozen=True)
class Soup:
    """Triangles without names: N vertices and M triangles.

    Attributes:
        rows: (N, 14) float64 per vertex: place 3, texture place 2, normal 3, colour 3, light 3.
        faces: (M, 3) int64 vertex numbers.
        material: (M,) int32.
    """

    rows: Floats
    faces: npt.NDArray[np.int64]
    material: npt.NDArray[np.int32]


@dataclass(frozen=True)
class View:
    """A street at one time, ready to be looked at.

    Attributes:
        world: triangles and light; ``world.part`` is the number of the vehicle, or -1.
        vehicles: the vehicles in it.
    """

    world: World
    vehicles: tuple[Vehicle, ...]

    def picture(self, camera: Pinhole, pose: Floats) -> F32:
        """Return linear light, (H, W, 3); ``pose`` (4, 4) is camera to world, optical axes."""
        return render(self.world, camera, pose, SIGHT_M)[0]

    def owners(self, camera: Pinhole, pose: Floats) -> npt.NDArray[np.int32]:
        """Return the number of the vehicle seen in the middle of each pixel, (H, W), -1 for everything else."""
        ways = (camera.directions() @ pose[:3, :3].T).astype(np.float32)
        starts = np.broadcast_to(pose[:3, 3].astype(np.float32), ways.shape).copy()
        face = self.world.rays.closest(starts, ways).face
        seen = np.where(face >= 0, self.world.part[np.maximum(face, 0)], NOTHING)
        return np.asarray(seen.reshape(camera.height, camera.width).astype(np.int32))


class Stage:
    """A street at all times: what stands still, and the shapes of vehicles that were seen before.

    Args:
        parts: what stands still, meshes with their materials.
        sky: sky and sun.
        haze_per_m: share of light lost per metre.
        surfaces: materials by the names in ``parts``; default: those of all driving worlds.
        shapes: gives the meshes of a vehicle where it stands.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Mesh, str]],
        sky: Sky,
        haze_per_m: float,
        surfaces: Atlas | None = None,
        shapes: Callable[[Vehicle], Sequence[tuple[Mesh, str]]] = vehicle_parts,
    ) -> None:
        self._sky, self._haze_per_m, self._build = sky, haze_per_m, shapes
        self._surfaces = surfaces or atlas()
        self._still = _soup(parts, sky, self._surfaces)
        corners = self._still.rows[self._still.faces, :2]
        self._low, self._high = corners.min(1), corners.max(1)
        self._shapes: dict[tuple[int, float], Soup] = {}

    def look(self, vehicles: Sequence[Vehicle], around: tuple[float, float]) -> View:
        """Return the street as it is near a point; a vehicle whose own cameras look must not be among ``vehicles``."""
        place = np.array(around)
        near = [v for v in vehicles if np.hypot(*(np.array(v.place) - place)) < TRAFFIC_M]
        kept = np.all((self._low < place + SIGHT_M) & (self._high > place - SIGHT_M), axis=1)
        rows, faces, material = [self._still.rows], [self._still.faces[kept]], [self._still.material[kept]]
        owner = [np.full(len(faces[0]), NOTHING, np.int32)]
        count = len(self._still.rows)
        for vehicle in near:
            shape = self._shape(vehicle)
            rows.append(shape.rows + np.array([*vehicle.place, *[0.0] * (shape.rows.shape[1] - 2)]))
            faces.append(shape.faces + count)
            material.append(shape.material)
            owner.append(np.full(len(shape.faces), vehicle.number, np.int32))
            count += len(shape.rows)
        soup = Soup(np.concatenate(rows), np.concatenate(faces), np.concatenate(material))
        return View(self._world(soup, np.concatenate(owner)), tuple(near))

    def _shape(self, vehicle: Vehicle) -> Soup:
        """Return the vehicle at the origin; vehicles go straight on, so it is built once."""
        key = vehicle.number, vehicle.yaw
        if key not in self._shapes:
            self._shapes[key] = _soup(self._build(replace(vehicle, place=(0.0, 0.0))), self._sky, self._surfaces)
        return self._shapes[key]

    def _world(self, soup: Soup, owner: npt.NDArray[np.int32]) -> World:
        rays = Raycaster(soup.rows[:, :3], soup.faces)
        return World(
            rays=rays,
            shadows=rays,
            atlas=self._surfaces,
            corners=np.ascontiguousarray(soup.faces.T.astype(np.int32)),
            attributes=soup.rows[:, 3:].astype(np.float32),
            material=soup.material,
            part=owner,
            labels=(),
            sky=self._sky,
            air=Air(self._haze_per_m, (0.0, 0.0), (0.0, 0.0)),
            routes={},
            exposure=1.0,
            headlight=np.zeros(3),
        )


def _soup(parts: Sequence[tuple[Mesh, str]], sky: Sky, surfaces: Atlas) -> Soup:
    mesh = merged([mesh for mesh, _ in parts])
    light = sky_light(sky, mesh.normals)
    rows = np.concatenate([mesh.vertices, mesh.uvs, mesh.normals, mesh.colors, light], 1)
    number = surfaces.numbers
    material = np.concatenate([np.full(len(part.faces), number[name], np.int32) for part, name in parts])
    return Soup(rows, mesh.faces, material)


def camera_of(width: int, height: int) -> Pinhole:
    """Return the camera of all mounts for pictures of this size."""
    return Pinhole(width, height, width / 2 / float(np.tan(np.radians(VIEW_DEG) / 2)))


def camera_pose(vehicle: Vehicle, mount: Mount) -> Floats:
    """Return the pose (4, 4) of a camera in the world, optical axes (right, down, forward)."""
    c, s = np.cos(vehicle.yaw), np.sin(vehicle.yaw)
    x, y = vehicle.place
    left = -mount.y
    yaw = vehicle.yaw - np.radians(mount.yaw_deg)  # the mount turns to the right, the world to the left
    forward, right = np.array([np.cos(yaw), np.sin(yaw), 0.0]), np.array([np.sin(yaw), -np.cos(yaw), 0.0])
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.array([0.0, 0.0, -1.0]), forward], 1)
    pose[:3, 3] = [x + c * mount.x - s * left, y + s * mount.x + c * left, mount.z]
    return pose


def visible(owners: Sequence[npt.NDArray[np.int32]], min_px: int) -> frozenset[int]:
    """Return the numbers of vehicles of which a camera sees ``min_px`` pixels; ``owners`` (H, W) per camera."""
    found: set[int] = set()
    for picture in owners:
        numbers, counts = np.unique(picture[picture != NOTHING], return_counts=True)
        found.update(int(number) for number in numbers[counts >= min_px])
    return frozenset(found)
