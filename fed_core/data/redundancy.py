"""Which recorded frames a data set can do without: those that look most like another one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_MOST_DISTANCES = 1 << 22  # computed at once, which bounds the memory


def nearest_distances(greys: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return how far each picture is from the one most like it.

    Args:
        greys: (N, h, w) uint8 small grey pictures.

    Returns:
        (N,) float32, root of the mean squared difference in grey levels; inf for a single picture.
    """
    return _nearest(_flat(greys), _flat(greys), np.ones(len(greys), bool))[0]


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
    own, others = _flat(files[which]), [_flat(file) for index, file in enumerate(files) if index != which]
    outside = np.full(len(own), np.inf, np.float32)
    for other in others:
        outside = np.minimum(outside, _nearest(own, other)[0])
    keep = np.ones(len(own), bool)
    inside, which_one = _nearest(own, own, keep)
    for _ in range(len(own) // 2):
        gone = int(np.argmin(np.where(keep, np.minimum(inside, outside), np.inf)))
        keep[gone] = False
        orphans = np.flatnonzero(keep & (which_one == gone))
        if len(orphans):
            inside[orphans], which_one[orphans] = _nearest(own, own, keep, orphans)
    return [bool(stays) for stays in keep]


def _flat(greys: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return greys.reshape(len(greys), -1).astype(np.float32)


def _nearest(
    one: npt.NDArray[np.float32],
    other: npt.NDArray[np.float32],
    keep: npt.NDArray[np.bool_] | None = None,
    rows: npt.NDArray[np.intp] | None = None,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """Return how far pictures are from the nearest others, and which those are; of equally near ones the last.

    Args:
        one: (N, D) pictures.
        other: (M, D) pictures, M at least 1.
        keep: (M,) which others count; where it is given, ``other`` is ``one`` and no picture counts for itself.
        rows: (R,) indices of the pictures that are asked for; None = all.

    Returns:
        (R,) float32, inf where none counts; and (R,) indices.
    """
    rows = np.arange(len(one)) if rows is None else rows
    distances, indices = np.full(len(rows), np.inf, np.float32), np.zeros(len(rows), np.intp)
    step = max(1, _MOST_DISTANCES // len(other))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        found = _distances(one[part], other)
        if keep is not None:
            found[:, ~keep] = np.inf
            found[np.arange(len(part)), part] = np.inf
        # The last: where many are equal and the first of them goes, only few must look for another one.
        last = len(other) - 1 - found[:, ::-1].argmin(axis=1)
        distances[start : start + step], indices[start : start + step] = found[np.arange(len(part)), last], last
    return distances, indices


def _distances(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return how far (N, D) pictures are from (M, D) others, (N, M)."""
    # Grey levels are whole numbers: summed in this order, float32 is exact, whatever the order of the pictures.
    both = one @ other.T
    squared = ((one**2).sum(axis=1)[:, None] - both) + ((other**2).sum(axis=1)[None] - both)
    return np.asarray(np.sqrt(squared / max(one.shape[1], 1)), np.float32)
