"""Class-balanced resampling of frames (fedcka spec 7.2)."""

from collections.abc import Sequence

import numpy as np


def class_balanced(classes: Sequence[frozenset[int]], rng: np.random.Generator) -> list[int]:
    """Return indexes of frames to train on in one round, drawn anew for every (run, robot, round) by ``rng`` (G14)."""
    raise NotImplementedError
