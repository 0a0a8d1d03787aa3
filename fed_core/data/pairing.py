"""Colour and depth images that belong together: by time, or by file name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError

Stamps = npt.NDArray[np.int64]


def pair_by_stamp(
    colour_ns: Sequence[int] | Stamps, depth_ns: Sequence[int] | Stamps, slop_ns: int
) -> list[tuple[int, int]]:
    """Pair each colour image with the depth image nearest in time.

    A depth image that is nearest to several colour images goes to the nearest of them, so each image is used at
    most once.

    Args:
        colour_ns: (N,) int64 nanoseconds, any order.
        depth_ns: (M,) int64 nanoseconds, any order.
        slop_ns: largest difference, inclusive.

    Returns:
        (colour index, depth index) in time order of the colour images.
    """
    colour, depth = np.asarray(colour_ns, dtype=np.int64), np.asarray(depth_ns, dtype=np.int64)
    if not colour.size or not depth.size:
        return []
    nearest, gap = nearest_stamps(colour, depth)
    best: dict[int, int] = {}
    for i in np.argsort(gap, kind="stable"):
        if gap[i] <= slop_ns:
            best.setdefault(int(nearest[i]), int(i))
    pairs = [(i, j) for j, i in best.items()]
    return sorted(pairs, key=lambda pair: (int(colour[pair[0]]), pair[0]))


def nearest_stamps(from_ns: Stamps, to_ns: Stamps) -> tuple[npt.NDArray[np.intp], Stamps]:
    """Return for each of ``from_ns`` (N,) the index of the nearest of ``to_ns`` (M >= 1,) and the distance in ns."""
    order = np.argsort(to_ns, kind="stable")
    ordered = to_ns[order]
    after = np.clip(np.searchsorted(ordered, from_ns), 0, len(ordered) - 1)
    before = np.clip(after - 1, 0, None)
    take_before = np.abs(from_ns - ordered[before]) <= np.abs(ordered[after] - from_ns)
    chosen = np.where(take_before, before, after)
    return order[chosen], np.abs(ordered[chosen] - from_ns)


def pair_by_key(colour: Mapping[Any, Path], depth: Mapping[Any, Path], where: Path) -> list[tuple[Path, Path]]:
    """Pair files with equal keys, in order of the keys.

    Raises:
        DataError: a file has no partner; tells the counts and names the first such file.
    """
    lonely_colour = sorted(colour.keys() - depth.keys())
    lonely_depth = sorted(depth.keys() - colour.keys())
    if lonely_colour or lonely_depth:
        counts = f"{where}: {len(colour)} colour and {len(depth)} depth images"
        if lonely_colour:
            raise DataError(f"{counts}; {colour[lonely_colour[0]].name} has no depth image")
        raise DataError(f"{counts}; {depth[lonely_depth[0]].name} has no colour image")
    return [(colour[key], depth[key]) for key in sorted(colour)]
