"""Jeffreys divergence between diagonal Gaussians, and the affinity made of it (fedepth spec 3).

J = KL(P||Q) + KL(Q||P), without a factor 1/2 before the sum. All arithmetic is float64; no result is left to
cancellation.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError
from fed_core.similarity.gaussian import Gaussians

Floats: TypeAlias = npt.NDArray[np.float64]

#: Rows of the result that are made at once.
_BLOCK = 256
#: Pairs compared at once without cancellation; the block (16 x D float64) stays in the cache.
_EXACT_BLOCK = 16
#: Where J is a smaller share of the numbers it is the difference of, matrix products would lose digits.
_CANCELS = 1e-3


def jeffreys(mean1: Floats, variance1: Floats, mean2: Floats, variance2: Floats) -> float:
    """Return J of two Gaussians, means and variances (D,)."""
    return float(between(mean1[None], variance1[None], mean2[None], variance2[None])[0, 0])


def between(mean1: Floats, variance1: Floats, mean2: Floats, variance2: Floats) -> Floats:
    """Return J of every pair of two groups.

    Args:
        mean1: (N, D).
        variance1: (N, D), above 0.
        mean2: (R, D).
        variance2: (R, D), above 0.

    Returns:
        (N, R) float64.
    """
    first, second = _checked(mean1, variance1), _checked(mean2, variance2)
    out = np.empty((len(mean1), len(mean2)))
    for low in range(0, len(mean1), _BLOCK):
        out[low : low + _BLOCK] = _rows(tuple(array[low : low + _BLOCK] for array in first), second)
    return out


def pairwise(mean: Floats, variance: Floats) -> Floats:
    """Return J of every pair of one group: symmetric, zero diagonal.

    Args:
        mean: (R, D).
        variance: (R, D), above 0.

    Returns:
        (R, R) float64.
    """
    group = _checked(mean, variance)
    out = np.zeros((len(mean), len(mean)))
    for low in range(0, len(mean), _BLOCK):
        block = _rows(tuple(array[low : low + _BLOCK] for array in group), tuple(array[low:] for array in group), 1)
        out[low : low + _BLOCK, low:] = block
    return out + out.T  # each pair is computed once and mirrored: exact symmetry


def variance_floor(variance: Floats) -> Floats:
    """Return the floor (D,) of the training robots' variances (R, D); spec 3.2.

    One dead channel has variance 0 and would make J infinite. The floor is computed once and stored: descriptors that
    come later are floored by it, too.
    """
    by_channel = 1e-3 * np.median(variance, axis=0)
    return np.asarray(np.maximum(by_channel, max(1e-8, 1e-4 * float(np.median(variance)))))


def noise_floor(num_frames1: npt.NDArray[np.int64], num_frames2: npt.NDArray[np.int64]) -> Floats:
    """Return the J/D that two samples of one distribution show on average: 2 (1/n1 + 1/n2), (N, R); spec 3.3.

    Args:
        num_frames1: (N,) independent frames.
        num_frames2: (R,) independent frames.
    """
    return 2.0 * (1.0 / num_frames1[:, None] + 1.0 / num_frames2[None, :])


def affinity(group: Gaussians, floor: Floats, *, scale: str = "mean", noise_correction: bool = False) -> Floats:
    """Return the (R, R) affinity A of a group: symmetric, zero diagonal, smaller is more alike.

    Args:
        group: the training robots.
        floor: (D,) from :func:`variance_floor`.
        scale: "mean" = J / D (comparable across encoders) or "sum" = J.
        noise_correction: subtract what sampling alone explains, at least 0 stays.
    """
    raw = pairwise(group.mean, np.maximum(group.variance, floor))
    noise = noise_floor(group.num_frames, group.num_frames)
    out = _scaled(raw, noise, group.mean.shape[1], scale, noise_correction)
    np.fill_diagonal(out, 0.0)
    return out


def distances(
    new: Gaussians, group: Gaussians, floor: Floats, *, scale: str = "mean", noise_correction: bool = False
) -> Floats:
    """Return the (N, R) affinity of new descriptors to a group; options as in :func:`affinity`."""
    raw = between(new.mean, np.maximum(new.variance, floor), group.mean, np.maximum(group.variance, floor))
    noise = noise_floor(new.num_frames, group.num_frames)
    return _scaled(raw, noise, group.mean.shape[1], scale, noise_correction)


def top_share(group: Gaussians, floor: Floats, part: float = 0.01) -> float:
    """Return the share of all pairs' J that the strongest ``part`` of the channels carries (at least one channel).

    A share near 1 says that one or two channels decide the clusters (spec 14.1).
    """
    mean, variance = group.mean - group.mean.mean(axis=0), np.maximum(group.variance, floor)
    inverse = 1.0 / variance
    num_robots = len(mean)
    # The sum over pairs in closed form, channel by channel: a report needs no more digits than that.
    spread = variance.sum(0) * inverse.sum(0) - num_robots**2
    shift = (mean**2).sum(0) * inverse.sum(0) + num_robots * (mean**2 * inverse).sum(0)
    shift -= 2.0 * mean.sum(0) * (mean * inverse).sum(0)
    by_channel = np.sort(np.maximum(spread + shift, 0.0))[::-1]
    total = float(by_channel.sum())
    count = max(1, int(round(part * len(by_channel))))
    return float(by_channel[:count].sum()) / total if total > 0.0 else 0.0


def _scaled(raw: Floats, noise: Floats, num_features: int, scale: str, noise_correction: bool) -> Floats:
    if scale not in ("mean", "sum"):
        raise DataError(f"affinity scale is {scale!r}; choose mean or sum")
    out = raw / num_features
    if noise_correction:
        out = np.maximum(out - noise, 0.0)
    return np.asarray(out * num_features if scale == "sum" else out)


def _checked(mean: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    mean, variance = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
    if mean.ndim != 2 or mean.shape != variance.shape:
        raise DataError(f"means {mean.shape} and variances {variance.shape} must both be (R, D)")
    if not (variance > 0.0).all():
        raise DataError("every variance must be above 0; apply the variance floor first")
    return mean, variance, 1.0 / variance


def _rows(first: tuple[Floats, ...], second: tuple[Floats, ...], above: int | None = None) -> Floats:
    """Return J of every pair of two groups, (N, R); with ``above``, only from that diagonal on, and 0 below.

    J = 1/2 sum_d [v1/v2 + v2/v1 - 2 + (m1-m2)^2 (1/v1 + 1/v2)], multiplied out into matrix products. Pairs whose J is
    small beside its terms are computed again without differences of large numbers.
    """
    centre = second[0][0]  # any point amid the means: what they share cancels beforehand
    (mean1, variance1, inverse1), (mean2, variance2, inverse2) = (
        (mean - centre, variance, inverse) for mean, variance, inverse in (first, second)
    )
    terms = (variance1 + mean1 * mean1) @ inverse2.T + inverse1 @ (variance2 + mean2 * mean2).T
    terms += (mean1 * mean1 * inverse1).sum(axis=1)[:, None] + (mean2 * mean2 * inverse2).sum(axis=1)
    cross = (mean1 * inverse1) @ mean2.T + mean1 @ (mean2 * inverse2).T
    out = np.asarray(0.5 * terms - cross - len(centre))
    near = out < _CANCELS * terms
    if above is not None:
        out, near = np.triu(out, above), np.triu(near, above)
    for row in np.flatnonzero(near.any(axis=1)):
        columns = np.flatnonzero(near[row])
        for low in range(0, len(columns), _EXACT_BLOCK):
            part = columns[low : low + _EXACT_BLOCK]
            out[row, part] = _exact(tuple(array[row] for array in first), tuple(array[part] for array in second))
    return out


def _exact(one: tuple[Floats, ...], others: tuple[Floats, ...]) -> Floats:
    """Return J of one Gaussian (D,) and others (n, D), without cancellation.

    J = 1/2 sum_d [(v1-v2)^2/v2 + (m1-m2)^2] / v1 + (m1-m2)^2 / v2
    """
    spread, shift = (others[1] - one[1]) ** 2 * others[2], (others[0] - one[0]) ** 2
    return np.asarray(0.5 * ((spread + shift) @ one[2] + np.einsum("jd,jd->j", shift, others[2])))
