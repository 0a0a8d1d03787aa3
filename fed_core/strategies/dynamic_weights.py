"""What each robot weighs in the fleet's control variate, from its KL divergence (feddwa spec 2.3).

The paper leaves open whether a large divergence means a large or a small weight, so the direction is an option.
"""

from collections.abc import Mapping

import numpy as np

from fed_core.strategies.averaging import Floats

DIRECTIONS = ("increasing", "inverse", "softmax_neg", "uniform", "size")
#: Directions that need no divergence; they weigh every robot of the fleet.
FIXED = frozenset({"uniform", "size"})
#: Under this sum the divergences say nothing.
_NOTHING = 1e-12
#: Keeps the inverse finite.
_FLOOR = 1e-8


def dynamic_weights(
    divergences: Mapping[str, float], samples: Mapping[str, int], direction: str, *, w_max: float = 1.0
) -> dict[str, float]:
    """Return weights that sum to 1, by robot id in sorted order.

    Args:
        divergences: T_m >= 0 of the robots that have one [nats].
        samples: training samples of all robots that may weigh in.
        direction: "increasing": T / sum T; "inverse": ~ 1 / (T + 1e-8); "softmax_neg": ~ exp(-T / mean T); "uniform";
            "size": ~ samples.
        w_max: largest weight; what is above goes to the others in proportion.

    Returns:
        Uniform weights where the divergences sum to (nearly) 0; no weight for robots without a divergence.
    """
    ids = sorted(samples) if direction in FIXED else sorted(divergences)
    if not ids:
        return {}
    if direction == "size":
        raw = np.array([samples[robot_id] for robot_id in ids], np.float64)
    else:
        told = np.array([divergences.get(robot_id, 0.0) for robot_id in ids], np.float64)
        raw = np.ones(len(ids)) if direction == "uniform" or told.sum() < _NOTHING else _shaped(told, direction)
    return dict(zip(ids, _capped(raw / raw.sum(), w_max).tolist(), strict=True))


def _shaped(told: Floats, direction: str) -> Floats:
    if direction == "inverse":
        return np.asarray(1.0 / (told + _FLOOR))
    if direction == "softmax_neg":
        return np.asarray(np.exp(-told / told.mean()))
    return told


def _capped(weights: Floats, w_max: float) -> Floats:
    """Return weights of at most ``w_max``; where that cannot sum to 1, uniform ones."""
    if w_max * len(weights) <= 1.0:
        return np.full(len(weights), 1.0 / len(weights))
    capped = np.zeros(len(weights), bool)
    while (weights > w_max * (1.0 + 1e-12)).any():
        capped |= weights > w_max * (1.0 + 1e-12)
        free = np.where(capped, 0.0, weights)
        left = 1.0 - w_max * capped.sum()
        rest = free / free.sum() if free.sum() > 0 else ~capped / max((~capped).sum(), 1)
        weights = np.where(capped, w_max, rest * left)
    return weights
