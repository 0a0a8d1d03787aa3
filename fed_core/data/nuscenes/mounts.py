"""Where the sensors of a scan sit on the vehicle, in the axes of REP 103: trees for people, YAML and parameters."""

from typing import Any

import numpy as np

from fed_core.data.mounts import mount
from fed_core.data.nuscenes.tables import LIDAR
from fed_core.types import ScanFrame

Tree = dict[str, dict[str, Any]]


def scan_mounts(frame: ScanFrame) -> tuple[Tree, Tree]:
    """Return the mounts of a scan's cameras and of its LiDAR, by name.

    ``position`` [m] and ``rotation`` (quaternion x, y, z, w) take a camera's optical frame (x right, y down,
    z forward), or the LiDAR's own, to the vehicle's (x forward, y left, z up).
    """
    cameras = {
        name: mount(frame.lidar_to_ego @ np.linalg.inv(placed))
        for name, placed in zip(frame.cameras, frame.lidar_to_camera, strict=True)
    }
    return cameras, {LIDAR: mount(frame.lidar_to_ego)}
