"""Poses between the times at which they were measured."""

import numpy as np
import numpy.typing as npt

from fed_core.data.m3ed.files import Micros
from fed_core.errors import DataError

Pose = npt.NDArray[np.float64]


def inverse(pose: Pose) -> Pose:
    """Return the inverse of (4, 4) float64 rigid motions."""
    turned = pose[:3, :3].T
    result = np.eye(4)
    result[:3, :3] = turned
    result[:3, 3] = -turned @ pose[:3, 3]
    return result


class PoseTrack:
    """Camera poses over time.

    Args:
        times_us: (G,) int64 microseconds, growing.
        poses: (G, 4, 4) float64; x_camera(t) = T(t) x_first_camera.
        where: file and dataset, for messages.
    """

    def __init__(self, times_us: Micros, poses: Pose, where: str) -> None:
        if poses.shape != (len(times_us), 4, 4):
            raise DataError(f"{where} has shape {poses.shape}; {len(times_us)} times need ({len(times_us)}, 4, 4)")
        if not np.isfinite(poses).all():
            raise DataError(f"{where} holds numbers that are not finite; use pairing: strict")
        self._times_us, self._poses = times_us, poses

    def at(self, time_us: int) -> Pose:
        """Return T(time), (4, 4) float64: the rotation by slerp, the camera's centre on a straight line.

        The centre moves in the frame of the first camera. The translation column of T would not do: far from the
        start it also turns with the camera, and a straight line cuts that arc. Shortly before the first and after
        the last pose the motion next to it goes on.
        """
        # Imported on use: nodes that replay other recordings do not wait for SciPy.
        from scipy.spatial.transform import Rotation

        if len(self._times_us) == 1:
            return np.asarray(self._poses[0], dtype=np.float64)
        after = int(np.clip(np.searchsorted(self._times_us, time_us), 1, len(self._times_us) - 1))
        start_us, end_us = int(self._times_us[after - 1]), int(self._times_us[after])
        share = (time_us - start_us) / (end_us - start_us)
        first, second = inverse(self._poses[after - 1]), inverse(self._poses[after])
        start, end = Rotation.from_matrix(first[:3, :3]), Rotation.from_matrix(second[:3, :3])
        turn = Rotation.from_rotvec(share * (start.inv() * end).as_rotvec())
        world = np.eye(4)
        world[:3, :3] = (start * turn).as_matrix()
        world[:3, 3] = (1.0 - share) * first[:3, 3] + share * second[:3, 3]
        return inverse(world)

    def motion(self, from_us: int, to_us: int) -> Pose:
        """Return T(to) T(from)^-1, (4, 4): it moves points of a static scene from one camera time to another."""
        return np.asarray(self.at(to_us) @ inverse(self.at(from_us)), dtype=np.float64)
