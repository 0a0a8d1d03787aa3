"""Class-balanced resampling of frames (fedcka spec 7.2)."""

from collections.abc import Sequence

import numpy as np

from fed_core.types import DETECTION_CLASSES


def class_balanced(classes: Sequence[frozenset[int]], rng: np.random.Generator) -> list[int]:
    """Return indexes of the frames to train on in one round, class by class; shuffle them.

    With n_c frames that hold class c and S the sum of n_c over all classes, every class that is there gives
    n_c r_c = n_c 0.1 / (n_c / S) = S / 10 frames, drawn with replacement from its own; at least one. So rare classes
    come as often as frequent ones, and a class that no frame holds gives none. Without any class, every frame comes
    once.

    Args:
        classes: classes that are present in each frame; all of them indices into ``DETECTION_CLASSES``.
        rng: made anew for every (run, robot, round), so that rounds differ and a round that is repeated does not.
    """
    frames_of = [
        [frame for frame, present in enumerate(classes) if label in present] for label in range(len(DETECTION_CLASSES))
    ]
    # Whole numbers: n_c times the rounded ratio may fall just below S / 10.
    count = sum(map(len, frames_of)) // len(DETECTION_CLASSES)
    drawn = [
        frames[place]
        for frames in frames_of
        if frames
        for place in rng.integers(len(frames), size=max(1, count)).tolist()
    ]
    return drawn or list(range(len(classes)))
