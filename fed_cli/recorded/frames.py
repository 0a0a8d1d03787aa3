"""Static frames of a bag: where sensors sit on a robot, from ``/tf_static``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.data.bag_files import BagFile

Matrix = npt.NDArray[np.float64]
STATIC, _TRANSFORMS = "/tf_static", "tf2_msgs/msg/TFMessage"


class StaticFrames:
    """A tree of frames.

    Args:
        bag: its ``/tf_static`` is read; without one no frame is known.
    """

    def __init__(self, bag: BagFile) -> None:
        self._parents: dict[str, tuple[str, Matrix]] = {}
        topic = bag.topics.get(STATIC)
        if topic is None or topic.type != _TRANSFORMS:
            return
        for raw in bag.messages([STATIC]):
            for found in bag.decode(raw).transforms:
                self._parents[found.child_frame_id] = (found.header.frame_id, _matrix(found.transform))

    def between(self, source: str, target: str) -> Matrix | None:
        """Return the (4, 4) matrix that takes points in ``source`` to ``target``, None where they do not meet."""
        ups, downs = self._up(source), self._up(target)
        shared = next((frame for frame in ups if frame in downs), None)
        return None if shared is None else np.linalg.inv(downs[shared]) @ ups[shared]

    def _up(self, frame: str) -> dict[str, Matrix]:
        """Return the matrices from a frame to itself and all above it, the nearest first."""
        found = {frame: np.eye(4)}
        while frame in self._parents and self._parents[frame][0] not in found:
            parent, matrix = self._parents[frame]
            found[parent] = matrix @ found[frame]
            frame = parent
        return found


def _matrix(transform: Any) -> Matrix:
    q, place = transform.rotation, transform.translation
    x, y, z, w = np.array([q.x, q.y, q.z, q.w], np.float64) / (np.linalg.norm([q.x, q.y, q.z, q.w]) or 1.0)
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, 3] = place.x, place.y, place.z
    return matrix
