"""Intersection over union of vehicle cells (feddwa spec 9), over the cells that some camera can see."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError

Cells = npt.NDArray[np.bool_]


class Confusion(NamedTuple):
    """Cells of one frame.

    Attributes:
        tp: vehicle, and said to be one.
        fp: no vehicle, but said to be one.
        fn: vehicle that was missed.
    """

    tp: int
    fp: int
    fn: int

    @property
    def union(self) -> int:
        """Cells that are a vehicle, or are said to be one."""
        return self.tp + self.fp + self.fn


def confusion(predicted: Cells, mask: Cells, known: Cells) -> Confusion:
    """Return the counts of one frame.

    Args:
        predicted: (S, S) bool, said to be a vehicle.
        mask: (S, S) bool, is a vehicle.
        known: (S, S) bool; other cells do not count.
    """
    if not predicted.shape == mask.shape == known.shape or mask.ndim != 2:
        shapes = f"{predicted.shape}, {mask.shape} and {known.shape}"
        raise DataError(f"prediction, mask and known cells have shapes {shapes}; scores need one (S, S) for all")
    said, true = predicted & known, mask & known
    return Confusion(int((said & true).sum()), int((said & ~true).sum()), int((~said & true).sum()))


def confusions(predicted: Cells, mask: Cells, known: Cells) -> list[Confusion]:
    """Return the counts of every frame of a batch, (B, S, S) bool each."""
    if not len(predicted) == len(mask) == len(known):
        raise DataError(f"got {len(predicted)} predictions, {len(mask)} masks and {len(known)} maps of known cells")
    return [confusion(*frame) for frame in zip(predicted, mask, known, strict=True)]


def iou_global(frames: Iterable[Confusion]) -> float:
    """Return IoU [1] of all cells of all frames together; NaN where no frame holds or claims a vehicle."""
    tp, union = 0, 0
    for frame in frames:
        tp, union = tp + frame.tp, union + frame.union
    return tp / union if union else float("nan")


def iou_frame(frames: Iterable[Confusion]) -> float:
    """Return the mean IoU [1] of the frames; those without any vehicle, true or claimed, are left out.

    NaN where none is left.
    """
    each = [frame.tp / frame.union for frame in frames if frame.union]
    return float(np.mean(each)) if each else float("nan")
