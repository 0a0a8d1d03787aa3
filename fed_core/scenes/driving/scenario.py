"""One scenario: a street, its traffic over time, and what the cameras of its carriers record."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.scenes.driving.carriers import LIDAR, MOUNTS, ClientKind, Mount
from fed_core.scenes.driving.maps import MapDrawer
from fed_core.scenes.driving.palettes import PALETTES, drawn_sky
from fed_core.scenes.driving.streets import Street, drawn_street, plan_of
from fed_core.scenes.driving.traffic import Traffic, drawn_traffic
from fed_core.scenes.driving.vehicles import Vehicle
from fed_core.scenes.driving.view import Stage, View, camera_of, camera_pose, visible
from fed_core.scenes.meshes import Floats
from fed_core.scenes.sensor import Sensor

#: The street is built this far beyond what the vehicles reach.
_MARGIN_M = 170.0


@dataclass(frozen=True)
class Recording:
    """How a scenario is recorded.

    Attributes:
        width: of the pictures in pixels.
        height: of the pictures in pixels.
        map_size: side of the maps in pixels.
        radius_m: half side of the maps.
        min_visible_px: pixels of a vehicle that a camera must see for it to be on the visibility map.
        period_s: time between frames.
        frames: number of frames.
        carriers: vehicles with cameras.
    """

    width: int
    height: int
    map_size: int
    radius_m: float
    min_visible_px: int
    period_s: float
    frames: int
    carriers: int


@dataclass(frozen=True)
class Recorded:
    """One frame of one carrier.

    Attributes:
        images: (H, W, 3) uint8 RGB by camera id.
        maps: (S, S) uint8 by the end of the file name without ``bev_``.
        poses: tree of the YAML file.
    """

    images: tuple[npt.NDArray[np.uint8], ...]
    maps: dict[str, npt.NDArray[np.uint8]]
    poses: dict[str, Any]


class Scenario:
    """A scenario drawn from ``words``; every frame follows from them and its number alone.

    Args:
        kind: whose data it is.
        recording: sizes and times.
        words: seeds, such as (seed, client, split, number).

    Attributes:
        street: where it happens.
        traffic: all vehicles at the time of frame 0.
    """

    def __init__(self, kind: ClientKind, recording: Recording, words: Sequence[int]) -> None:
        self._kind, self._recording, self._words = kind, recording, tuple(words)
        rng = self._rng(0)
        layout = kind.layouts[int(rng.integers(len(kind.layouts)))]
        palette = PALETTES[kind.palette]
        reach = _MARGIN_M + 2 * plan_of(layout).speed_mps[1] * recording.period_s * recording.frames
        self.street: Street = drawn_street(rng, layout, palette, reach)
        self.traffic: Traffic = drawn_traffic(rng, self.street, kind, recording.carriers)
        self._sky, self._haze = drawn_sky(rng, palette), palette.haze_per_m
        # Where the street lies in the simulator's map: shift, turn and height over its zero.
        self._origin = np.array([*rng.uniform(-300, 300, 2), rng.uniform(0.0, 8.0), rng.uniform(-180, 180)])

    @cached_property
    def stage(self) -> Stage:
        """What cameras see, built on first use."""
        return Stage(self.street.parts, self._sky, self._haze)

    @property
    def carrier_numbers(self) -> tuple[int, ...]:
        """Ids of the vehicles with cameras."""
        return tuple(vehicle.number for vehicle in self.traffic.carriers)

    def frame(self, index: int) -> dict[int, Recorded]:
        """Return what every carrier records in frame ``index``."""
        now = self.traffic.at(index * self._recording.period_s)
        return {
            carrier.number: self._record(carrier, others_of(carrier, now), index * len(now.carriers) + k)
            for k, carrier in enumerate(now.carriers)
        }

    def _record(self, carrier: Vehicle, others: list[Vehicle], shot: int) -> Recorded:
        recording, camera = self._recording, camera_of(self._recording.width, self._recording.height)
        view = self.stage.look(others, carrier.place)
        poses = [camera_pose(carrier, mount) for mount in MOUNTS[self._kind.vehicle]]
        grain = self._rng(2, shot)
        images = tuple(self._sensor.develop(view.picture(camera, pose), 1.0, grain) for pose in poses)
        owners = [view.owners(camera, pose) for pose in poses]
        drawer = MapDrawer(carrier, recording.map_size, recording.radius_m)
        seen = visible(owners, recording.min_visible_px)
        maps = {
            "visibility": drawer.vehicles(v for v in view.vehicles if v.number in seen),
            "dynamic": drawer.vehicles(v for v in view.vehicles if v.on_road),
            "static": drawer.polygons(self.street.roads),
            "lane": drawer.lines(self.street.lines),
        }
        return Recorded(images, maps, self._poses(carrier, view, visible(owners, 1), grain))

    def _poses(self, carrier: Vehicle, view: View, hit: frozenset[int], rng: np.random.Generator) -> dict[str, Any]:
        """Return the YAML tree of a frame; only vehicles that are ``hit`` are listed."""
        own = self._map_pose(carrier, Mount(0, 0, 0, 0))
        lidar = self._map_pose(carrier, LIDAR)
        matrix = corner_matrix(camera_of(self._recording.width, self._recording.height).matrix)
        tree: dict[str, Any] = {
            "true_ego_pos": own,
            "predicted_ego_pos": [*(np.array(own[:2]) + rng.normal(0, 0.2, 2)).tolist(), *own[2:]],
            "lidar_pose": lidar,
            "ego_speed": carrier.speed_mps * 3.6,
            "plan_trajectory": [],
            "vehicles": {v.number: self._listed(v) for v in view.vehicles if v.number in hit},
        }
        for camera, mount in enumerate(MOUNTS[self._kind.vehicle]):
            cords = self._map_pose(carrier, mount)
            tree[f"camera{camera}"] = {
                "cords": cords,
                "intrinsic": matrix.tolist(),
                "extrinsic": _lidar_to_camera(mount).tolist(),
            }
        return tree

    def _map_pose(self, vehicle: Vehicle, mount: Mount) -> list[float]:
        """Return x, y, z, roll, yaw, pitch in the simulator's map, whose y and yaw go to the right."""
        c, s = np.cos(vehicle.yaw), np.sin(vehicle.yaw)
        x = vehicle.place[0] + c * mount.x + s * mount.y
        y = vehicle.place[1] + s * mount.x - c * mount.y
        shift_x, shift_y, height, turn = (float(value) for value in self._origin)
        c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        yaw = (turn - float(np.degrees(vehicle.yaw)) + mount.yaw_deg + 180.0) % 360.0 - 180.0
        return [
            float(shift_x + c * x + s * y),
            float(shift_y + s * x - c * y),
            height + mount.z,
            0.0,
            yaw,
            0.0,
        ]

    def _listed(self, vehicle: Vehicle) -> dict[str, Any]:
        x, y, z, roll, yaw, pitch = self._map_pose(vehicle, Mount(0, 0, 0, 0))
        half = [side / 2 for side in vehicle.size_m]
        return {
            "angle": [roll, yaw, pitch],
            "center": [0.0, 0.0, half[2]],
            "extent": half,
            "location": [x, y, z],
            "speed": vehicle.speed_mps * 3.6,
        }

    @cached_property
    def _sensor(self) -> Sensor:
        return Sensor.drawn(self._rng(1), 1.0)

    def _rng(self, *more: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([*self._words, *more])))


def others_of(carrier: Vehicle, traffic: Traffic) -> list[Vehicle]:
    """Return all vehicles but the carrier: its cameras would look into its own body."""
    return [vehicle for vehicle in (*traffic.carriers, *traffic.others) if vehicle.number != carrier.number]


def corner_matrix(matrix: Floats) -> Floats:
    """Return intrinsics (3, 3) that count pixels from the corner of the picture instead of the middle of the first."""
    result = matrix.copy()
    result[:2, 2] += 0.5
    return result


def _lidar_to_camera(mount: Mount) -> Floats:
    """Return (4, 4), both axes x forward, y right, z up."""
    yaw = np.radians(mount.yaw_deg)
    c, s = np.cos(yaw), np.sin(yaw)
    turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    result = np.eye(4)
    result[:3, :3] = turn
    result[:3, 3] = turn @ np.array([LIDAR.x - mount.x, LIDAR.y - mount.y, LIDAR.z - mount.z])
    return result
