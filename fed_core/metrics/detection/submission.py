"""Predicted boxes of a frame as the devkit wants them: global coordinates, attributes, most 500 (fedcka spec 7.3)."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError
from fed_core.metrics.detection.devkit import protocol
from fed_core.types import DETECTION_CLASSES, Boxes3D

#: Speed from which on something moves [m/s].
MOVING_MPS = 0.2
_CYCLES = ("motorcycle", "bicycle")
_BARE = ("barrier", "traffic_cone")


class Placed(Protocol):
    """Where a frame was taken; :class:`fed_core.types.ScanFrame` is one."""

    @property
    def token(self) -> str:
        """Token of the sample."""

    @property
    def lidar_to_ego(self) -> npt.NDArray[np.float64]:
        """(4, 4) float64 [m]."""

    @property
    def ego_to_global(self) -> npt.NDArray[np.float64]:
        """(4, 4) float64 [m]."""


def to_submission(boxes: Boxes3D, frame: Placed, max_boxes: int = 500) -> list[dict[str, Any]]:
    """Return the boxes of a frame for a submission, best score first.

    Boxes beyond the range of their class are dropped, then the best ``max_boxes`` are kept. Attributes follow from the
    class and the speed; an unknown velocity counts as none.

    Args:
        boxes: predicted, in the LiDAR frame.
        frame: token and poses.
        max_boxes: most boxes; the devkit takes 500.
    """
    pose = frame.ego_to_global @ frame.lidar_to_ego
    centres = boxes.centres @ pose[:3, :3].T + pose[:3, 3]
    boxes_ok = np.isfinite(centres).all(1) & np.isfinite(boxes.sizes).all(1) & np.isfinite(boxes.yaws)
    if not (boxes_ok & np.isfinite(boxes.scores)).all():
        raise DataError(f"a predicted box of frame {frame.token} is not finite; did training diverge?")
    ranges = np.array([protocol().class_range[name] for name in DETECTION_CLASSES])
    near = np.hypot(*(centres - frame.ego_to_global[:3, 3])[:, :2].T) < ranges[boxes.labels]
    best = np.argsort(-boxes.scores, kind="stable")
    best = best[near[best]][: min(max_boxes, protocol().max_boxes_per_sample)]
    moves = np.nan_to_num(boxes.velocities) @ pose[:2, :2].T
    rotations = _quaternions(pose[:3, :3], boxes.yaws)
    return [
        {
            "sample_token": frame.token,
            "translation": centres[i].tolist(),
            "size": boxes.sizes[i][[1, 0, 2]].tolist(),  # the devkit has width, length, height
            "rotation": rotations[i].tolist(),
            "velocity": moves[i].tolist(),
            "detection_name": (name := DETECTION_CLASSES[boxes.labels[i]]),
            "detection_score": float(boxes.scores[i]),
            "attribute_name": attribute_of(name, float(np.hypot(*moves[i]))),
        }
        for i in best
    ]


def attribute_of(name: str, speed: float) -> str:
    """Return the likeliest attribute of a class at a speed [m/s]; "" where the class has none."""
    moves = speed > MOVING_MPS
    if name in _BARE:
        return ""
    if name == "pedestrian":
        return "pedestrian.moving" if moves else "pedestrian.standing"
    if name in _CYCLES:
        return "cycle.with_rider" if moves else "cycle.without_rider"
    if moves:
        return "vehicle.moving"
    return "vehicle.stopped" if name == "bus" else "vehicle.parked"


def _quaternions(rotation: npt.NDArray[np.float64], yaws: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``rotation`` after turns about z as quaternions w, x, y, z; (M, 4) float64."""
    from scipy.spatial.transform import Rotation

    zeros = np.zeros_like(yaws)
    turns = np.stack([zeros, zeros, np.sin(yaws / 2), np.cos(yaws / 2)], 1).reshape(-1, 4)  # scipy: x, y, z, w
    if not len(turns):
        return np.zeros((0, 4))
    found: npt.NDArray[np.float64] = (Rotation.from_matrix(rotation) * Rotation.from_quat(turns)).as_quat()
    return found[:, [3, 0, 1, 2]]
