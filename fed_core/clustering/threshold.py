"""Choosing the threshold tau from an affinity (fedepth spec 3.4)."""

import numpy as np
import numpy.typing as npt

from fed_core.errors import StrategyError

Floats = npt.NDArray[np.float64]


def by_quantile(affinity: Floats, quantile: float) -> float:
    """Return the ``quantile`` of the robot pairs' affinities; 0 for a single robot.

    Args:
        affinity: (R, R) symmetric.
        quantile: between 0 and 1.
    """
    if not 0.0 <= quantile <= 1.0:
        raise StrategyError(f"tau_quantile is {quantile}; it must lie between 0 and 1")
    pairs = _pairs(affinity)
    return float(np.quantile(pairs, quantile)) if pairs.size else 0.0


def by_largest_gap(affinity: Floats) -> float:
    """Return the middle of the largest gap between the sorted affinities of robot pairs.

    Fits fleets of well separated groups. Without any gap (fewer than two distinct values) all robots are one group.

    Args:
        affinity: (R, R) symmetric.
    """
    values = np.unique(_pairs(affinity))
    if values.size < 2:
        return float(values[0]) if values.size else 0.0
    at = int(np.argmax(np.diff(values)))
    return float(0.5 * (values[at] + values[at + 1]))


def _pairs(affinity: Floats) -> Floats:
    return np.asarray(affinity[np.triu_indices(len(affinity), 1)])
