"""Where cameras and LiDAR of a vehicle sit: the parameters ``rig`` and ``lidar`` of the nodes of task detection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_nodes.sensing.rigs import Floats, Mount, Rig, is_topic, rig_from_tree


@dataclass(frozen=True)
class ScanRig:
    """The sensors of a vehicle that detects.

    Attributes:
        cameras: may be none.
        lidar: topic prefix of the LiDAR.
        mount: where the LiDAR sits: its own frame, x right, y ahead, z up as nuScenes has it, or whatever the network
            learned from.
    """

    cameras: Rig
    lidar: str
    mount: Mount

    @property
    def lidar_to_camera(self) -> Floats:
        """LiDAR frame to the optical frames, (N, 4, 4) metres."""
        found = [np.linalg.inv(mount.to_vehicle) @ self.mount.to_vehicle for mount in self.cameras.mounts]
        return np.stack(found) if found else np.zeros((0, 4, 4))

    @property
    def names(self) -> tuple[str, ...]:
        """Topic prefixes of all sensors, the LiDAR last."""
        return (*self.cameras.names, self.lidar)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of all sensors, the LiDAR's last."""
        return (*(f"{name}/image_raw" for name in self.cameras.names), f"{self.lidar}/points")


def scan_rig_from_tree(cameras: Mapping[str, Any], lidar: Mapping[str, Any]) -> ScanRig:
    """Return the sensors of the parameters' trees: mounts by topic prefix.

    Raises:
        ConfigError: there is not exactly one LiDAR, or a mount is wrong.
    """
    if len(lidar) != 1:
        named = ", ".join(map(str, lidar)) or "none"
        raise ConfigError(f"lidar names {named}; name one LiDAR by its topic prefix and where it sits")
    ((name, tree),) = lidar.items()
    if not is_topic(str(name)) or name in cameras:
        raise ConfigError(f"lidar: {name!r} cannot begin its topic; name it by letters, digits, _ and /, as no camera")
    mount = tree if isinstance(tree, Mount) else from_tree(Mount, tree, f"lidar.{name}")
    return ScanRig(rig_from_tree(cameras), str(name), mount)
