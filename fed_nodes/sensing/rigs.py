"""Where the cameras of a vehicle sit: the parameter ``rig`` of the nodes, in the axes of REP 103.

A mount places a camera's optical frame (x right, y down, z forward) in the vehicle's frame (x forward, y left, z up).
Networks count in CARLA's axes, in which y points to the right and cameras look along x.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.config import check, from_tree, option
from fed_core.data.opv2v.cameras import OPTICAL_TO_CARLA
from fed_core.data.opv2v.mounts import NAMES
from fed_core.data.opv2v.sequence import OFF, SECTOR
from fed_core.errors import ConfigError

Floats = npt.NDArray[np.float64]

#: REP 103's y to CARLA's.
_MIRROR = np.diag([1.0, -1.0, 1.0])
_TOPIC = re.compile(r"[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True)
class Mount:
    """Where a sensor sits on a vehicle."""

    position: tuple[float, ...] = option(help="x, y, z of the sensor in the vehicle's frame", unit="m")
    rotation: tuple[float, ...] = option(
        help="of its (optical) frame: roll, pitch, yaw [rad] about fixed axes, or a quaternion x, y, z, w"
    )

    def __post_init__(self) -> None:
        """Check the numbers."""
        check(self)
        kind = type(self).__name__
        if len(self.position) != 3 or not np.isfinite(self.position).all():
            raise ConfigError(f"{kind}.position is {list(self.position)}; it must be x, y, z in metres")
        length = float(np.linalg.norm(self.rotation)) if len(self.rotation) == 4 else 1.0
        if len(self.rotation) not in (3, 4) or not np.isfinite(self.rotation).all() or abs(length - 1.0) > 1e-2:
            text = "roll, pitch, yaw in radians or a quaternion x, y, z, w of length 1"
            raise ConfigError(f"{kind}.rotation is {list(self.rotation)}; it must be {text}")

    @property
    def to_vehicle(self) -> Floats:
        """Sensor to vehicle, (4, 4) metres, in the axes of REP 103."""
        result = np.eye(4)
        result[:3, :3] = _of_angles(self.rotation) if len(self.rotation) == 3 else _of_quaternion(self.rotation)
        result[:3, 3] = self.position
        return result


@dataclass(frozen=True)
class CameraMount(Mount):
    """One camera of a rig."""

    id: int | None = option(None, help="0 front, 1 right, 2 left, 3 back; default: its place in the list", low=0)
    rectified: bool = option(False, help="images are rectified already: their camera is P, distortion is ignored")

    @property
    def extrinsics(self) -> Floats:
        """Camera to vehicle, (4, 4) metres, both x forward, y right, z up."""
        placed, result = self.to_vehicle, np.eye(4)
        result[:3, :3] = _MIRROR @ placed[:3, :3] @ OPTICAL_TO_CARLA.T
        result[:3, 3] = _MIRROR @ placed[:3, 3]
        return result


@dataclass(frozen=True)
class Rig:
    """The cameras of a vehicle, by id.

    Attributes:
        names: topic prefixes.
        ids: camera ids, sorted.
        mounts: where they sit.
    """

    names: tuple[str, ...]
    ids: tuple[int, ...]
    mounts: tuple[CameraMount, ...]

    @property
    def extrinsics(self) -> Floats:
        """Camera to vehicle, (N, 4, 4) metres, both x forward, y right, z up."""
        return np.stack([mount.extrinsics for mount in self.mounts])

    def require_known(self, known_cells: str) -> None:
        """Refuse camera ids that have no sector where sectors tell which cells are known."""
        wrong = [f"{name} ({id_})" for name, id_ in zip(self.names, self.ids, strict=True) if id_ >= len(NAMES)]
        if wrong and known_cells == SECTOR:
            text = f"rig: sectors are those of the ids 0 to 3, not of {', '.join(wrong)}"
            raise ConfigError(f"{text}; choose their ids, or known_cells fov or {OFF}")


def rig_option() -> Any:
    """Return the field ``rig`` of a node's configuration: mounts by the topic prefix of their camera."""
    text = "cameras of a vehicle by topic prefix, as YAML (docs/live_bev.md); empty = one camera"
    return field(default_factory=dict, metadata={"help": text})


def lidar_option() -> Any:
    """Return the field ``lidar`` of a node's configuration: the mount by its topic prefix."""
    text = "task detection: the LiDAR by topic prefix, as YAML (docs/live_detection.md); empty = none"
    return field(default_factory=dict, metadata={"help": text})


def is_topic(name: str) -> bool:
    """Return whether a name can begin a topic."""
    return bool(_TOPIC.fullmatch(name))


def rig_from_tree(mounts: Mapping[str, Any]) -> Rig:
    """Return the rig of the parameter's tree: mounts by the topic prefix of their camera.

    Raises:
        ConfigError: a name is no topic, two cameras share an id, or a mount is wrong.
    """
    made: dict[int, tuple[str, CameraMount]] = {}
    for place, (name, tree) in enumerate(mounts.items()):
        if not is_topic(str(name)):
            raise ConfigError(f"rig: {name!r} cannot begin a topic; name cameras by letters, digits, _ and /")
        mount = tree if isinstance(tree, CameraMount) else from_tree(CameraMount, tree, f"rig.{name}")
        number = place if mount.id is None else mount.id
        if number in made:
            raise ConfigError(f"rig: cameras {made[number][0]} and {name} both have the id {number}; give each its own")
        made[number] = (str(name), mount)
    ids = tuple(sorted(made))
    return Rig(tuple(made[k][0] for k in ids), ids, tuple(made[k][1] for k in ids))


def _of_angles(angles: Sequence[float]) -> Floats:
    """Return the rotation (3, 3) of roll, pitch and yaw about fixed axes, as in URDF."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    about_y = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    about_z = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    return np.asarray(about_z @ about_y @ about_x)


def _of_quaternion(quaternion: Sequence[float]) -> Floats:
    x, y, z, w = np.asarray(quaternion, np.float64) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
