"""One keyframe from tables and files: pictures, LiDAR scans and boxes, all told in the LiDAR frame."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fed_core.data.image_files import read_bytes, read_rgb
from fed_core.data.nuscenes.poses import Floats, inverse, matrix_of
from fed_core.data.nuscenes.tables import LIDAR
from fed_core.errors import DataError
from fed_core.types import DETECTION_CLASSES, Boxes3D, DetectionFrame

if TYPE_CHECKING:
    from nuscenes.nuscenes import NuScenes

Points = npt.NDArray[np.float32]
Record = Mapping[str, Any]

#: Columns of a ``.pcd.bin`` file: x, y, z [m], intensity, ring.
COLUMNS = 5
#: Half side of the square around the sensor where earlier scans see the vehicle itself.
CLOSE_M = 1.0


def read_frame(
    tables: "NuScenes",
    sample: Record,
    cameras: Sequence[str],
    *,
    sweeps: int,
    min_points: int,
    on_missing: Callable[[str], None],
) -> DetectionFrame:
    """Return one keyframe.

    Args:
        tables: what the devkit opened.
        sample: record of the keyframe.
        cameras: channels.
        sweeps: earlier scans to add.
        min_points: boxes with fewer LiDAR points are left out.
        on_missing: called with one line for every earlier scan that cannot be read.
    """
    scan = _record(tables, sample, LIDAR)
    lidar_to_ego, ego_to_global = _poses(tables, scan)
    lidar_to_global = ego_to_global @ lidar_to_ego
    pictures = [_picture(tables, _record(tables, sample, channel), lidar_to_global) for channel in cameras]
    clouds = [_with_lag(_scan(tables, scan), 0.0)]
    clouds += _sweeps(tables, scan, inverse(lidar_to_global), sweeps, on_missing)
    return DetectionFrame(
        cameras=tuple(cameras),
        images=tuple(image for image, _, _ in pictures),
        intrinsics=np.array([matrix for _, matrix, _ in pictures]).reshape(-1, 3, 3),
        lidar_to_camera=np.array([pose for _, _, pose in pictures]).reshape(-1, 4, 4),
        points=np.concatenate(clouds),
        stamp_ns=int(scan["timestamp"]) * 1000,
        token=sample["token"],
        lidar_to_ego=lidar_to_ego,
        ego_to_global=ego_to_global,
        boxes=read_boxes(tables, sample, lidar_to_global, min_points),
    )


def read_boxes(tables: "NuScenes", sample: Record, lidar_to_global: Floats, min_points: int = 0) -> Boxes3D:
    """Return the boxes of the ten classes in the LiDAR frame, in the order of the annotations.

    The heading is that of the box's length on the LiDAR's x-y plane.

    Args:
        tables: what the devkit opened.
        sample: record of the keyframe.
        lidar_to_global: (4, 4) at the LiDAR's time.
        min_points: boxes with fewer LiDAR points are left out.
    """
    notes = list(_wanted(tables, sample, min_points))
    to_lidar = inverse(lidar_to_global)
    poses = np.array([to_lidar @ matrix_of(note) for note, _ in notes]).reshape(-1, 4, 4)
    # nuScenes has width, length, height.
    sizes = np.array([note["size"] for note, _ in notes], dtype=np.float64).reshape(-1, 3)[:, [1, 0, 2]]
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise DataError(f"keyframe {sample['token']} has a box without a size")
    over_ground = np.array([_velocity(tables, note["token"]) for note, _ in notes]).reshape(-1, 3)
    return Boxes3D(
        centres=poses[:, :3, 3],
        sizes=sizes,
        yaws=np.arctan2(poses[:, 1, 0], poses[:, 0, 0]),
        velocities=(over_ground @ to_lidar[:3, :3].T)[:, :2],
        labels=np.array([label for _, label in notes], dtype=np.int64),
        scores=np.ones(len(notes)),
        num_points=np.array([note["num_lidar_pts"] for note, _ in notes], dtype=np.int64),
    )


def _wanted(tables: "NuScenes", sample: Record, min_points: int) -> Iterator[tuple[Record, int]]:
    """Yield the annotations of a keyframe that are of the ten classes and have enough points, with their label."""
    for token in sample["anns"]:
        note = tables.get("sample_annotation", token)
        label = label_of(note["category_name"])
        if label is not None and int(note["num_lidar_pts"]) >= min_points:
            yield note, label


@lru_cache(maxsize=256)
def label_of(category: str) -> int | None:
    """Return the index of a category in ``DETECTION_CLASSES`` by the devkit's mapping, None for what is not scored."""
    from nuscenes.eval.detection.utils import category_to_detection_name

    name = category_to_detection_name(category)
    return None if name is None else DETECTION_CLASSES.index(name)


def _velocity(tables: "NuScenes", token: str) -> Floats:
    x, y, _ = tables.box_velocity(token)
    return np.array([x, y, 0.0])


def _record(tables: "NuScenes", sample: Record, channel: str) -> Record:
    token = sample["data"].get(channel)
    if token is None:
        raise DataError(f"keyframe {sample['token']} has no {channel}; it has {', '.join(sorted(sample['data']))}")
    found: Record = tables.get("sample_data", token)
    return found


def _poses(tables: "NuScenes", record: Record) -> tuple[Floats, Floats]:
    """Return sensor to vehicle and vehicle to map, (4, 4) each."""
    mount = tables.get("calibrated_sensor", record["calibrated_sensor_token"])
    return matrix_of(mount), matrix_of(tables.get("ego_pose", record["ego_pose_token"]))


def _picture(
    tables: "NuScenes", record: Record, lidar_to_global: Floats
) -> tuple[npt.NDArray[np.uint8], Floats, Floats]:
    """Return a picture (H, W, 3) RGB, its matrix (3, 3) and the way (4, 4) from the LiDAR frame to its own."""
    path = Path(tables.dataroot) / record["filename"]
    image = read_rgb(path)
    height, width = image.shape[:2]
    if (record["width"] or width, record["height"] or height) != (width, height):
        told = f"{path} is {width}x{height}, the tables say {record['width']}x{record['height']}"
        raise DataError(f"{told}; was the picture resized?")
    mount = tables.get("calibrated_sensor", record["calibrated_sensor_token"])
    matrix = np.asarray(mount["camera_intrinsic"], dtype=np.float64)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        raise DataError(f"calibrated_sensor {mount['token']} has no camera matrix of 3 x 3")
    camera_to_ego, ego_to_global = _poses(tables, record)
    return image, matrix, inverse(ego_to_global @ camera_to_ego) @ lidar_to_global


def _scan(tables: "NuScenes", record: Record) -> Points:
    """Return the points (P, 4) x, y, z, intensity of one scan in its own frame; those that are not finite are gone."""
    path = Path(tables.dataroot) / record["filename"]
    data = read_bytes(path)
    if len(data) % (4 * COLUMNS):
        raise DataError(f"{path} holds {len(data)} bytes, no whole points of {COLUMNS} x 4; the file is cut off")
    points = np.frombuffer(data, dtype="<f4").reshape(-1, COLUMNS)[:, :4]
    finite: Points = points[np.isfinite(points).all(1)]
    return finite


def _sweeps(
    tables: "NuScenes", scan: Record, to_lidar: Floats, count: int, on_missing: Callable[[str], None]
) -> list[Points]:
    """Return earlier scans, the latest first, in the frame of ``scan``; the vehicle itself is cut out of them."""
    clouds: list[Points] = []
    earlier = scan
    for _ in range(count):
        if not earlier["prev"]:
            break
        earlier = tables.get("sample_data", earlier["prev"])
        try:
            points = _scan(tables, earlier)
        except DataError as err:
            on_missing(str(err))
            continue
        points = points[(np.abs(points[:, :2]) >= CLOSE_M).any(1)]
        lidar_to_ego, ego_to_global = _poses(tables, earlier)
        way = to_lidar @ ego_to_global @ lidar_to_ego
        moved = points.astype(np.float64)
        moved[:, :3] = moved[:, :3] @ way[:3, :3].T + way[:3, 3]
        clouds.append(_with_lag(moved, (scan["timestamp"] - earlier["timestamp"]) * 1e-6))
    return clouds


def _with_lag(points: npt.NDArray[Any], lag_s: float) -> Points:
    cloud: Points = np.column_stack([points, np.full(len(points), lag_s)]).astype(np.float32)
    return cloud
