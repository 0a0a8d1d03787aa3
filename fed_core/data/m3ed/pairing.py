"""Which image belongs to which depth map: M3ED takes them at different times and rates (25 and 10 Hz)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.data.m3ed.files import M3edFiles, Micros
from fed_core.data.m3ed.options import M3edOptions
from fed_core.data.pairing import nearest_stamps, pair_by_stamp
from fed_core.errors import DataError

#: Upper edges of the histogram in milliseconds; the last bin is open.
EDGES_MS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0)


@dataclass(frozen=True)
class TimePair:
    """One frame.

    Attributes:
        depth: index of the depth map.
        image: index of the image.
        dt_us: time of the image minus time of the depth map, microseconds.
    """

    depth: int
    image: int
    dt_us: int


def pair_times(depth_us: Micros, image_us: Micros, tolerance_us: int) -> list[TimePair]:
    """Pair each depth map with the image nearest in time; each image is used at most once.

    Args:
        depth_us: (G,) int64 microseconds, growing.
        image_us: (N,) int64 microseconds, growing.
        tolerance_us: largest |dt|, inclusive.
    """
    pairs = pair_by_stamp(depth_us, image_us, tolerance_us)
    return [TimePair(i, j, int(image_us[j] - depth_us[i])) for i, j in pairs]


@dataclass(frozen=True)
class DtHistogram:
    """How far depth maps are from their nearest images in time.

    Attributes:
        edges_ms: upper edges of all bins but the last, which is open; inclusive.
        counts: depth maps per bin.
    """

    edges_ms: tuple[float, ...]
    counts: tuple[int, ...]

    def __str__(self) -> str:
        """Return "<=1 ms 0, <=2 ms 12, ..., more 0"."""
        heads = [*(f"<={edge:g} ms" for edge in self.edges_ms), "more"]
        return ", ".join(f"{head} {count}" for head, count in zip(heads, self.counts, strict=True))


def dt_histogram(depth_us: Micros, image_us: Micros, edges_ms: Sequence[float] = EDGES_MS) -> DtHistogram:
    """Return the histogram of |dt| over all depth maps, before any tolerance.

    Args:
        depth_us: (G,) int64 microseconds.
        image_us: (N >= 1,) int64 microseconds.
        edges_ms: growing upper edges.
    """
    _, gap_us = nearest_stamps(depth_us, image_us)
    bins = np.searchsorted(np.asarray(edges_ms) * 1000.0, gap_us, side="left")
    counts: npt.NDArray[np.intp] = np.bincount(bins, minlength=len(edges_ms) + 1)
    return DtHistogram(tuple(edges_ms), tuple(int(count) for count in counts))


def paired_frames(files: M3edFiles, depth_us: Micros, image_us: Micros, options: M3edOptions) -> list[TimePair]:
    """Return the frames of a recording; times that do not fit together raise :class:`DataError`."""
    if depth_us[0] > image_us[-1] or depth_us[-1] < image_us[0]:
        images, depths = (f"{times[0] / 1e6:.3f}..{times[-1] / 1e6:.3f} s" for times in (image_us, depth_us))
        raise DataError(
            f"{files.data.parent}: images of {files.name} cover {images} but depth covers {depths}; "
            "the two files are of different recordings"
        )
    pairs = pair_times(depth_us, image_us, options.tolerance_us)
    if not pairs:
        raise DataError(
            f"{files.data.parent}: no depth map of {files.name} is within {options.tolerance_us / 1000:g} ms of an "
            f"image; |dt|: {dt_histogram(depth_us, image_us)}"
        )
    return pairs
