"""One scene of a domain: a street with its traffic over time, and what cameras and LiDAR record of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fed_core.scenes.domains.actors import actor_parts, attribute_of, label_of
from fed_core.scenes.domains.kinds import DomainKind
from fed_core.scenes.domains.lidar import NOISE_M, Lidar, lidar_to_ego, points_inside
from fed_core.scenes.domains.night import lamp_posts, vehicle_beams
from fed_core.scenes.domains.pictures import picture, with_headlight, with_rain
from fed_core.scenes.domains.surfaces import surfaces
from fed_core.scenes.domains.traffic import Cast, drawn_cast, kerb_of
from fed_core.scenes.driving.carriers import Mount
from fed_core.scenes.driving.palettes import drawn_sky
from fed_core.scenes.driving.streets import planned_street
from fed_core.scenes.driving.vehicles import Vehicle
from fed_core.scenes.driving.view import Stage, View, camera_pose
from fed_core.scenes.meshes import Floats, patch
from fed_core.scenes.renderer import Pinhole
from fed_core.scenes.sensor import Sensor
from fed_core.types import DETECTION_CLASSES, Boxes3D, DetectionFrame

#: Cameras by nuScenes' names; the heading of each, to the right.
CAMERAS: Mapping[str, Mount] = {
    "CAM_FRONT": Mount(1.5, 0.0, 1.5, 0.0),
    "CAM_FRONT_RIGHT": Mount(1.3, 0.5, 1.5, 55.0),
    "CAM_BACK_RIGHT": Mount(0.6, 0.5, 1.5, 110.0),
    "CAM_BACK": Mount(-1.3, 0.0, 1.5, 180.0),
    "CAM_BACK_LEFT": Mount(0.6, -0.5, 1.5, -110.0),
    "CAM_FRONT_LEFT": Mount(1.3, -0.5, 1.5, -55.0),
}
#: Cameras look down a little: over the roofs there is nothing to detect [deg].
PITCH_DEG = 5.0
#: True boxes are this much larger than the shapes, so that noisy points of their surface lie inside [m].
MARGIN_M = 2 * NOISE_M + 0.01
#: and begin this far over the ground, so that it is not inside.
LIFT_M = 0.03
KEYFRAME_S = 0.5
_STREET_MARGIN_M = 150.0


@dataclass(frozen=True)
class Recording:
    """How scenes are recorded.

    Attributes:
        width: of the pictures in pixels.
        height: of the pictures in pixels.
        view_deg: horizontal field of view.
        cameras: names.
        lidar: rays.
        keyframes: of a scene.
        radius_m: farthest true boxes.
    """

    width: int
    height: int
    view_deg: float
    cameras: tuple[str, ...]
    lidar: Lidar
    keyframes: int
    radius_m: float

    @property
    def camera(self) -> Pinhole:
        """The pinhole of all cameras."""
        return Pinhole(self.width, self.height, self.width / 2 / float(np.tan(np.radians(self.view_deg) / 2)))


@dataclass(frozen=True)
class Keyframe:
    """A keyframe with what the tables want to know beside it.

    Attributes:
        frame: pictures, points of this scan alone, boxes.
        instances: names of the objects.
        attributes: of the objects, "" = none.
    """

    frame: DetectionFrame
    instances: tuple[str, ...]
    attributes: tuple[str, ...]


class DomainScene:
    """A scene drawn from ``words``; every record follows from them and its time alone.

    Args:
        domain: city, weather, classes.
        recording: sensors.
        words: seeds, such as (seed, domain, split, number).
        full: show every class of the domain near the vehicle.

    Attributes:
        cast: everybody at time 0.
    """

    def __init__(self, domain: DomainKind, recording: Recording, words: Sequence[int], *, full: bool = False) -> None:
        self._domain, self._recording, self._words = domain, recording, tuple(words)
        rng, palette = self._rng(0), domain.weather.palette
        plan = domain.city.plans[int(rng.integers(len(domain.city.plans)))]
        reach = _STREET_MARGIN_M + plan.speed_mps[1] * KEYFRAME_S * recording.keyframes
        street = planned_street(rng, plan, palette, reach)
        kerb = kerb_of(street)[1]
        self.cast: Cast = drawn_cast(rng, street, domain, full)
        posts, self._lamps = lamp_posts(reach, kerb, rng)
        self._parts = [*street.parts, *posts]
        if plan.houses == "villas":
            for side in (-1, 1):
                y = min(side * kerb, side * (kerb + 3.0))
                self._parts.append((patch((-reach, y, -0.004), (2 * reach, 0, 0), (0, 3.0, 0)), "paving"))
        sky = drawn_sky(rng, palette)
        self._sky = replace(sky, cloud_rgb=0.8 * sky.horizon) if domain.weather.night else sky
        self._sensors = {name: Sensor.drawn(rng, domain.weather.noise) for name in CAMERAS}
        self._map = _pose(rng.uniform(200, 1800), rng.uniform(200, 1800), 0.0, rng.uniform(-np.pi, np.pi))

    def keyframe(self, index: int, stamp_ns: int, token: str) -> Keyframe:
        """Return keyframe ``index`` with the given time and name."""
        now = self.cast.at(index * KEYFRAME_S)
        view = self.view(index * KEYFRAME_S)
        points = self._scan(view, now, self._rng(2, index))
        near = self._near(now)
        grain = self._rng(1, index)
        cameras = self._recording.cameras
        optical = [_optical(CAMERAS[name]) for name in cameras]
        frame = DetectionFrame(
            cameras=cameras,
            images=tuple(self._image(view, now, name, grain) for name in cameras),
            intrinsics=np.stack([self._recording.camera.matrix] * len(cameras)),
            lidar_to_camera=np.stack([np.linalg.inv(pose) @ lidar_to_ego() for pose in optical]),
            points=np.column_stack([points[:, :4], np.zeros(len(points), np.float32)]),
            stamp_ns=stamp_ns,
            token=token,
            lidar_to_ego=lidar_to_ego(),
            ego_to_global=self._map @ _ego(now.ego),
            boxes=_boxes(near, np.linalg.inv(_ego(now.ego) @ lidar_to_ego()), points),
        )
        return Keyframe(frame, tuple(str(a.number) for a in near), tuple(attribute_of(a) for a in near))

    def sweep(self, time_s: float, number: int) -> tuple[npt.NDArray[np.float32], Floats]:
        """Return a scan at any time, (P, 5), and the pose (4, 4) of the vehicle on the map."""
        now = self.cast.at(time_s)
        return self._scan(self.view(time_s), now, self._rng(3, number)), self._map @ _ego(now.ego)

    @cached_property
    def _stage(self) -> Stage:
        weather = self._domain.weather
        return Stage(self._parts, self._sky, weather.palette.haze_per_m, surfaces(weather.night), actor_parts)

    def view(self, time_s: float) -> View:
        """Return the street at a time, without the vehicle with the sensors; parts are numbered as ``cast.others``."""
        now = self.cast.at(time_s)
        return self._stage.look(now.others, now.ego.place)

    def _scan(self, view: View, now: Cast, rng: np.random.Generator) -> npt.NDArray[np.float32]:
        pose = _ego(now.ego) @ lidar_to_ego()
        return self._recording.lidar.scan(view, pose, self._domain.weather, rng)

    def _image(self, view: View, now: Cast, name: str, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
        weather, pose = self._domain.weather, _ego(now.ego) @ _optical(CAMERAS[name])
        beams = [*self._lamps, *vehicle_beams(view.vehicles)] if weather.night else []
        if weather.night and abs(CAMERAS[name].yaw_deg) < 90:
            view = with_headlight(view)
        light = picture(view, self._recording.camera, pose, weather, beams)
        return self._sensors[name].develop(with_rain(light, weather, rng), weather.exposure, rng)

    def _near(self, now: Cast) -> list[Vehicle]:
        x, y = now.ego.place
        radius = self._recording.radius_m
        return [a for a in now.others if np.hypot(a.place[0] - x, a.place[1] - y) < radius]

    def _rng(self, *more: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([*self._words, *more])))


def _boxes(actors: Sequence[Vehicle], to_lidar: Floats, points: npt.NDArray[np.float32]) -> Boxes3D:
    """Return the true boxes in LiDAR axes; ``to_lidar`` (4, 4) is from the street's axes."""
    count = len(actors)
    sizes = np.array([a.size_m for a in actors]).reshape(count, 3) + np.array([2, 2, 1]) * MARGIN_M - [0, 0, LIFT_M]
    flat = np.array([a.place for a in actors]).reshape(count, 2)
    centres = np.column_stack([flat, sizes[:, 2] / 2 + LIFT_M]) @ to_lidar[:3, :3].T + to_lidar[:3, 3]
    turn = float(np.arctan2(to_lidar[1, 0], to_lidar[0, 0]))
    yaws = np.array([_wrapped(a.yaw + turn) for a in actors])
    speeds = np.array([a.speed_mps for a in actors])
    return Boxes3D(
        centres=centres,
        sizes=sizes,
        yaws=yaws,
        velocities=np.column_stack([speeds * np.cos(yaws), speeds * np.sin(yaws)]).reshape(count, 2),
        labels=np.array([DETECTION_CLASSES.index(label_of(a)) for a in actors], np.int64),
        scores=np.ones(count),
        num_points=np.array(
            [points_inside(points, c, s, float(y)) for c, s, y in zip(centres, sizes, yaws, strict=True)], np.int64
        ),
    )


def _wrapped(angle: float) -> float:
    return float((angle + np.pi) % (2 * np.pi) - np.pi)


def _pose(x: float, y: float, z: float, yaw: float) -> Floats:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s, 0.0, x], [s, c, 0.0, y], [0.0, 0.0, 1.0, z], [0.0, 0.0, 0.0, 1.0]])


def _ego(vehicle: Vehicle) -> Floats:
    return _pose(*vehicle.place, 0.0, vehicle.yaw)


def _optical(mount: Mount) -> Floats:
    """Return camera to ego (4, 4), optical axes (right, down, ahead) to x ahead, y left, z up."""
    level = camera_pose(Vehicle(0, "", (0.0, 0.0, 0.0), (0.0, 0.0), 0.0, (0.0, 0.0, 0.0)), mount)
    c, s = np.cos(np.radians(PITCH_DEG)), np.sin(np.radians(PITCH_DEG))
    level[:3, :3] = level[:3, :3] @ np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c]])
    return level
