"""Which recorded frames a data set can do without: those that look most like another one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_ROWS = 512  # compared with all others at once, which bounds the memory


def nearest_distances(greys: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return how far each picture is from the one most like it.

    Args:
        greys: (N, h, w) uint8 small grey pictures.

    Returns:
        (N,) float32, root of the mean squared difference in grey levels; inf for a single picture.
    """
    flat = greys.reshape(len(greys), -1).astype(np.float32)
    squares = np.einsum("nd,nd->n", flat, flat)
    nearest = np.full(len(flat), np.inf, np.float32)
    for start in range(0, len(flat), _ROWS):
        rows = slice(start, min(start + _ROWS, len(flat)))
        distances = squares[rows, None] + squares[None] - 2.0 * flat[rows] @ flat.T
        distances[np.arange(rows.stop - start), np.arange(start, rows.stop)] = np.inf
        nearest[rows] = distances.min(axis=1)
    distances_to_nearest: npt.NDArray[np.float32] = np.sqrt(np.maximum(nearest, 0.0) / max(flat.shape[1], 1))
    return distances_to_nearest


def most_redundant(files: Sequence[npt.NDArray[np.uint8]]) -> int:
    """Return the index of the file that loses least when it loses half of its frames.

    That is the one whose more redundant half has the smallest mean distance to its nearest pictures in all files;
    of equal ones the first.
    """
    distances = np.split(nearest_distances(np.concatenate(list(files))), np.cumsum([len(file) for file in files])[:-1])
    means = [float(np.sort(own)[: max(len(own) // 2, 1)].mean()) for own in distances]
    return int(np.argmin(means))


def frames_to_keep(files: Sequence[npt.NDArray[np.uint8]], which: int) -> list[bool]:
    """Return which frames of file ``which`` stay when it loses half of them (rounded down), most redundant first.

    Frames go one by one and each is judged by what is still there, so that of two equal ones only one goes.
    """
    own, others = files[which], [file for index, file in enumerate(files) if index != which]
    flat = own.reshape(len(own), -1).astype(np.float32)
    between = np.sqrt(((flat[:, None] - flat[None]) ** 2).mean(axis=2))
    np.fill_diagonal(between, np.inf)
    outside = _distances_to(flat, others)
    keep = np.ones(len(own), bool)
    for _ in range(len(own) // 2):
        left = np.where(keep[None], between, np.inf).min(axis=1, initial=np.inf)
        left = np.where(keep, np.minimum(left, outside), np.inf)
        keep[int(np.argmin(left))] = False
    return [bool(stays) for stays in keep]


def _distances_to(flat: npt.NDArray[np.float32], others: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.float32]:
    """Return how far each of (N, D) pictures is from the nearest of the other files, (N,); inf without any."""
    nearest = np.full(len(flat), np.inf, np.float32)
    for file in others:
        other = file.reshape(len(file), -1).astype(np.float32)
        squared = (flat**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None] - 2.0 * flat @ other.T
        nearest = np.minimum(nearest, np.sqrt(np.maximum(squared, 0.0).min(axis=1, initial=np.inf) / flat.shape[1]))
    return nearest
