"""Small nuScenes folders for tests, made by our own writer: two cameras, a tilted LiDAR, a vehicle that drives."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.data.nuscenes.writer import TableWriter
from fed_core.types import DETECTION_CLASSES, Boxes3D, DetectionFrame

VERSION = "v1.0-generated"
CAMERAS = ("CAM_FRONT", "CAM_BACK")
START_NS = 1_600_000_000_000_000_000
#: Time between keyframes.
STEP_NS = 500_000_000
#: Half a second of driving [m].
STEP_M = 2.0
INTRINSICS = np.array([[20.0, 0.0, 16.0], [0.0, 20.0, 8.0], [0.0, 0.0, 1.0]])
_OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])

Floats = npt.NDArray[np.float64]


def about_z(angle: float, place: Sequence[float] = (0.0, 0.0, 0.0)) -> Floats:
    """Return (4, 4) of a turn about z [rad] and a place [m]."""
    matrix = np.eye(4)
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix[:2, :2], matrix[:3, 3] = [[cosine, -sine], [sine, cosine]], place
    return matrix


def lidar_to_ego() -> Floats:
    """Return the mount of the LiDAR: on the roof, its y axis ahead (as in nuScenes), tilted by half a degree."""
    tilt = np.eye(4)
    angle = np.radians(0.5)
    tilt[1:3, 1:3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return about_z(-np.pi / 2, (0.9, 0.0, 1.8)) @ tilt


def ego_to_global(number: int) -> Floats:
    """Return where the vehicle is at keyframe ``number``, which may be a fraction: it drives straight on."""
    heading = 0.7
    return about_z(heading, (100 + number * STEP_M * np.cos(heading), 50 + number * STEP_M * np.sin(heading), 0.0))


def boxes_of(labels: Sequence[str], number: int = 0, num_points: int = 5) -> Boxes3D:
    """Return one box of each class in the LiDAR frame, ahead of the vehicle, all in one row."""
    count = len(labels)
    row = np.arange(count, dtype=np.float64)
    return Boxes3D(
        centres=np.column_stack([2 * row, 10 + row, np.full(count, -1.0)]),
        sizes=np.column_stack([4 + row, 2 + row, 1.5 + row]),
        yaws=0.3 + 0.5 * row,
        velocities=np.full((count, 2), np.nan),
        labels=np.array([DETECTION_CLASSES.index(label) for label in labels], dtype=np.int64),
        scores=np.ones(count),
        num_points=np.full(count, num_points, dtype=np.int64),
    )


def make_frame(number: int = 0, labels: Sequence[str] = ("car", "pedestrian"), **changes: Any) -> DetectionFrame:
    """Return keyframe ``number`` of a drive; ``changes`` replace fields."""
    mounts = []
    for turn in (0.0, np.pi):
        camera_to_ego = about_z(turn, (1.5, 0.0, 1.5))
        camera_to_ego[:3, :3] = camera_to_ego[:3, :3] @ _OPTICAL
        mounts.append(np.linalg.inv(camera_to_ego) @ lidar_to_ego())
    grey = np.full((16, 32, 3), 60 + 10 * number, np.uint8)
    rng = np.random.default_rng(number)
    points = np.column_stack([rng.uniform(-40, 40, (50, 3)), rng.uniform(0, 255, 50), np.zeros(50)])
    values: dict[str, Any] = {
        "cameras": CAMERAS,
        "images": (grey, grey + 50),
        "intrinsics": np.stack([INTRINSICS, INTRINSICS]),
        "lidar_to_camera": np.array(mounts),
        "points": points.astype(np.float32),
        "stamp_ns": START_NS + number * STEP_NS,
        "token": "",
        "lidar_to_ego": lidar_to_ego(),
        "ego_to_global": ego_to_global(number),
        "boxes": boxes_of(labels, number),
    }
    return DetectionFrame(**{**values, **changes})


def write_scenes(
    root: Path, scenes: Sequence[tuple[str, str, str, str]], frames: int = 3, version: str = VERSION
) -> None:
    """Write scenes of (name, location, description, split) with a car and a pedestrian each."""
    writer = TableWriter(root, version)
    for name, location, description, split in scenes:
        writer.add_log(f"log-{location}", location=location)
        writer.add_scene(name, description, split=split)
        for number in range(frames):
            writer.add_keyframe(make_frame(number), ("car_1", "walker_1"), ("vehicle.moving", "pedestrian.standing"))
    writer.close()


def edit_table(root: Path, table: str, change: Any, version: str = VERSION) -> None:
    """Rewrite one table by a function of its records."""
    path = root / version / f"{table}.json"
    records = json.loads(path.read_text())
    path.write_text(json.dumps(change(records)))
