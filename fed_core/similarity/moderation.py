"""Variances of few frames, drawn towards what the fleet has in common (empirical Bayes, doi:10.2202/1544-6115.1027).

The variance of a channel over five frames is often far too small by chance, and the Jeffreys divergence divides by it.
With the fleet's mean variance v and a weight of d frames, a robot of n frames gets

    v_c' = (d v + (n - 1) v_c) / (d + n - 1),

which is v_c again for n much above d.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fed_core.similarity.gaussian import Gaussians

Floats = npt.NDArray[np.float64]

_LEAST, _LEAST_SHARE = 1e-8, 1e-4


def mean_variance(group: Gaussians) -> Floats:
    """Return the variance within robots (D,), weighted by frames less one; dead channels get a small one."""
    freedom = (group.num_frames - 1).astype(np.float64)
    pooled = freedom @ group.variance / freedom.sum()
    return np.asarray(np.maximum(pooled, max(_LEAST, _LEAST_SHARE * float(np.median(pooled)))))


def moderate(group: Gaussians, common: Floats, weight: float) -> Gaussians:
    """Return the group with moderated variances, all above 0.

    Args:
        group: R robots.
        common: (D,) from :func:`mean_variance` of the training robots.
        weight: d, in frames; above 0.
    """
    freedom = (group.num_frames - 1).astype(np.float64)[:, None]
    return replace(group, variance=(weight * common + freedom * group.variance) / (weight + freedom))


def noise_floor(num_frames1: npt.NDArray[np.int64], num_frames2: npt.NDArray[np.int64], weight: float) -> Floats:
    """Return the J/D that two samples of one distribution show on average after moderation, (N, R).

    With s = (n - 1) / (d + n - 1), the share of its own variance that a robot keeps, this is
    (1 + s1^2) / n1 + (1 + s2^2) / n2: the means differ as before, the variances s^2 times as much (spec 3.3 has s = 1).

    Args:
        num_frames1: (N,) independent frames.
        num_frames2: (R,) independent frames.
        weight: d, in frames.
    """
    first, second = (_noise(counts.astype(np.float64), weight) for counts in (num_frames1, num_frames2))
    return np.asarray(first[:, None] + second[None, :])


def _noise(counts: Floats, weight: float) -> Floats:
    share = (counts - 1.0) / (weight + counts - 1.0)
    return np.asarray((1.0 + share**2) / counts)
