"""Where the cameras of a frame sit, in the axes that ROS uses (REP 103): a tree for people, YAML and parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fed_core.data.mounts import mount
from fed_core.data.opv2v.cameras import OPTICAL_TO_CARLA
from fed_core.errors import DataError
from fed_core.types import BevFrame

#: Names of the cameras by id.
NAMES = ("front", "right", "left", "back")
#: From x forward, y right to x forward, y left.
_TO_LEFT = np.diag([1.0, -1.0, 1.0])


def names_of(cameras: Sequence[int]) -> tuple[str, ...]:
    """Return the names of cameras; an id without a name raises ``DataError``."""
    unknown = [camera for camera in cameras if not 0 <= camera < len(NAMES)]
    if unknown:
        raise DataError(f"camera {unknown[0]} has no name; known are 0 to {len(NAMES) - 1}: {', '.join(NAMES)}")
    return tuple(NAMES[camera] for camera in cameras)


def rig_tree(frame: BevFrame) -> dict[str, dict[str, Any]]:
    """Return the mounts of a frame's cameras by name.

    ``position`` [m] and ``rotation`` (quaternion x, y, z, w) take the camera's optical frame (x right, y down,
    z forward) to the vehicle's (x forward, y left, z up); ``id`` is the camera's.
    """
    tree: dict[str, dict[str, Any]] = {}
    for name, camera, pose in zip(names_of(frame.cameras), frame.cameras, frame.extrinsics, strict=True):
        to_vehicle = np.eye(4)
        to_vehicle[:3, :3] = _TO_LEFT @ pose[:3, :3] @ OPTICAL_TO_CARLA
        to_vehicle[:3, 3] = _TO_LEFT @ pose[:3, 3]
        tree[name] = {"id": int(camera), **mount(to_vehicle)}
    return tree
