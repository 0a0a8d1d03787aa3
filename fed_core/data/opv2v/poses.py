"""Poses and cameras of one frame, from a YAML file that may come from anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from fed_core.errors import DataError

Floats = npt.NDArray[np.float64]

#: Real files have up to some hundred KB (all vehicles and a planned path).
MAX_BYTES = 4 * 2**20
#: Focal length over one pixel and condition number beyond which a matrix cannot be a camera.
_WORST_CONDITION = 1e9
#: Distance of a camera from its vehicle.
_FARTHEST_M = 1000.0
#: The C parser is ten times faster, but not in every build of the library.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Rig:
    """The cameras of a vehicle at one time.

    Attributes:
        intrinsics: (N, 3, 3) float64 pixels.
        extrinsics: (N, 4, 4) float64 camera to vehicle in metres, both x forward, y right, z up.
    """

    intrinsics: Floats
    extrinsics: Floats


def world_from(pose: Sequence[float] | Floats) -> Floats:
    """Return the (4, 4) matrix from an object to the CARLA map; ``pose`` is x, y, z [m], roll, yaw, pitch [deg].

    CARLA's axes are left-handed (x forward, y right, z up): yaw turns to the right, pitch lifts the nose.
    """
    x, y, z, roll, yaw, pitch = (float(value) for value in pose)
    (sr, sy, sp), (cr, cy, cp) = np.sin(np.radians([roll, yaw, pitch])), np.cos(np.radians([roll, yaw, pitch]))
    return np.array(
        [
            [cp * cy, cy * sp * sr - sy * cr, -cy * sp * cr - sy * sr, x],
            [sy * cp, sy * sp * sr + cy * cr, -sy * sp * cr + cy * sr, y],
            [sp, -cp * sr, cp * cr, z],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def read_rig(path: Path, cameras: Sequence[int]) -> Rig:
    """Return the cameras of a frame, found by id.

    Camera to vehicle is made of the camera's and the vehicle's own (true) pose in the map; the file's ``extrinsic``
    goes from LiDAR to camera, whatever its documentation says, and is not used.

    Raises:
        DataError: the file is missing, too large, no YAML, or lacks a camera or a pose; or a matrix is singular.
    """
    tree = read_tree(path)
    vehicle = _numbers(tree, "true_ego_pos", (6,), path)
    to_vehicle = np.linalg.inv(world_from(vehicle))
    intrinsics, extrinsics = [], []
    for camera in cameras:
        entry = tree.get(f"camera{camera}")
        if not isinstance(entry, dict):
            known = ", ".join(sorted(str(key) for key in tree if str(key).startswith("camera"))) or "none"
            raise DataError(f"{path} has no camera{camera}; it has {known[:80]}")
        where = f"camera{camera}."
        matrix = _numbers(entry, "intrinsic", (3, 3), path, where)
        _require_camera(matrix, f"{path}: {where}intrinsic")
        intrinsics.append(matrix)
        extrinsics.append(_mount(to_vehicle, _numbers(entry, "cords", (6,), path, where), f"{path}: {where}cords"))
    return Rig(np.array(intrinsics).reshape(-1, 3, 3), np.array(extrinsics).reshape(-1, 4, 4))


def read_tree(path: Path) -> dict[Any, Any]:
    """Return the keys and values of a YAML file, plain data only.

    Raises:
        DataError: the file is missing, too large, or not YAML with keys and values.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror}") from err
    if len(data) > MAX_BYTES:
        raise DataError(f"{path} has more than {MAX_BYTES // 2**20} MiB; that is no file of poses")
    try:
        tree = yaml.load(data, Loader=_LOADER)  # noqa: S506 - both loaders are safe ones
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise DataError(f"{path} is not valid YAML: {' '.join(str(err).split())[:160]}") from err
    if not isinstance(tree, dict):
        raise DataError(f"{path} holds no keys and values, so no poses")
    return tree


def _numbers(tree: dict[Any, Any], key: str, shape: tuple[int, ...], path: Path, where: str = "") -> Floats:
    """Return finite numbers of a shape; numbers written as text ("1e-05") count."""
    size = " x ".join(str(side) for side in shape)
    if key not in tree:
        raise DataError(f"{path}: {where}{key} is missing; expected {size} numbers")
    try:
        values = np.asarray(_plain(tree[key], len(shape), shape[0]), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as err:
        raise DataError(f"{path}: {where}{key} must be {size} numbers") from err
    if values.shape != shape:
        raise DataError(f"{path}: {where}{key} must be {size} numbers, found {' x '.join(map(str, values.shape))}")
    if not np.isfinite(values).all():
        raise DataError(f"{path}: {where}{key} has a number that is not finite")
    return values


def _plain(value: Any, depth: int, most: int) -> Any:
    """Return nested lists of floats; bounded, since an anchored YAML list may hold itself or be endless when copied."""
    if depth == 0:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError(f"{type(value).__name__} is no number")
        return float(value)
    if not isinstance(value, list) or len(value) > most:
        raise TypeError("no list of that length")
    return [_plain(item, depth - 1, most) for item in value]


def _mount(to_vehicle: Floats, pose: Floats, where: str) -> Floats:
    """Return camera to vehicle (4, 4); numbers of which nothing is left beside others are refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        mount: Floats = to_vehicle @ world_from(pose)
    if not (np.abs(mount[:3, 3]) < _FARTHEST_M).all():
        raise DataError(f"{where} is {_FARTHEST_M:g} m or more from true_ego_pos; no camera sits there")
    return mount


def _require_camera(matrix: Floats, where: str) -> None:
    scale = float(np.abs(matrix).max())
    if matrix[0, 0] <= 0 or matrix[1, 1] <= 0 or np.linalg.cond(matrix / max(scale, 1e-300)) > _WORST_CONDITION:
        raise DataError(f"{where} is singular or has no focal length; it cannot be a camera")
    if not np.allclose(matrix[2], [0.0, 0.0, 1.0]):
        raise DataError(f"{where} must end with the row 0 0 1")
