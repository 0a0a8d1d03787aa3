"""Masks of a frame in the cells of a network's map."""

import math

import numpy as np
import numpy.typing as npt

from fed_core.data.opv2v.masks import pooled
from fed_core.errors import DataError
from fed_core.types import BevFrame

Cells = npt.NDArray[np.bool_]


def fit_map(frame: BevFrame, cells: int, extent_m: float) -> tuple[Cells, Cells]:
    """Return vehicles and known cells of a frame, (cells, cells) bool each.

    A coarse cell holds a vehicle where any of its parts does, and is known where all of them are.

    Args:
        frame: with a map of at least that many cells.
        cells: cells per side.
        extent_m: side of the map in metres; another one than the frame's raises ``DataError``.
    """
    size = len(frame.mask)
    if not math.isclose(size * frame.metres_per_cell, extent_m, rel_tol=1e-6):
        told = f"the map of vehicle {frame.vehicle} is {size * frame.metres_per_cell:g} m wide"
        raise DataError(f"{told}, the network's is {extent_m:g} m; set extent_m of the network")
    if cells > size or size % cells:
        raise DataError(f"a mask of {size}x{size} cells does not reduce to the network's {cells}x{cells}")
    return pooled(frame.mask, cells), np.logical_not(pooled(np.logical_not(frame.known), cells))
