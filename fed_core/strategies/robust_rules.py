"""What can take the place of a mean where some robots may send anything: rules over entries, and over whole updates.

Every rule counts each member once, whatever number of samples it claims. All are plain NumPy in float64 whose result
depends on neither the order of arrival nor the number of threads: members stand in the order of their ids, and of equal
candidates the first one wins.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.strategies.averaging import Floats

Places = npt.NDArray[np.intp]


def median(block: Floats, shares: Floats) -> Floats:
    """Return the median of each entry over the members of each row; of an even number the middle of both.

    Args:
        block: (R, N) values.
        shares: (K, R), above 0 where a robot is a member.

    Returns:
        (K, N).
    """
    out = np.empty((len(shares), block.shape[1]))
    for row, middle in zip(shares, out, strict=True):
        ordered = _sorted(block, row)
        low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
        middle[:] = low + (high * 0.5 - low * 0.5)  # halves first: never an overflow
    return out


@dataclass(frozen=True)
class TrimmedMean:
    """The mean of each entry without its ``count`` smallest and ``count`` largest values."""

    count: int

    def __call__(self, block: Floats, shares: Floats) -> Floats:
        """Return (K, N) from (R, N) values and (K, R) members; each row has more than twice ``count``."""
        out = np.empty((len(shares), block.shape[1]))
        for row, mean in zip(shares, out, strict=True):
            ordered = _sorted(block, row)
            mean[:] = _mean(ordered[self.count : len(ordered) - self.count])
        return out


@dataclass(frozen=True)
class NearTheMedian:
    """Bulyan's second half: the mean of each entry over the values nearest to its median, all but 2 ``attackers``."""

    attackers: int

    def __call__(self, block: Floats, shares: Floats) -> Floats:
        """Return (K, N) from (R, N) values and (K, R) members; each row has more than twice ``attackers``."""
        out = np.empty((len(shares), block.shape[1]))
        for row, mean in zip(shares, out, strict=True):
            ordered, middle = _sorted(block, row), median(block, row[None])
            with np.errstate(over="ignore"):  # infinitely far is far
                nearest = np.argsort(np.abs(ordered - middle), axis=0, kind="stable")
            kept = np.sort(nearest[: len(ordered) - 2 * self.attackers], axis=0)
            mean[:] = _mean(np.take_along_axis(ordered, kept, axis=0))
        return out


def _sorted(block: Floats, row: Floats) -> Floats:
    """Return the members' values (M, N), ascending in each entry."""
    values = block[row > 0]
    values.sort(axis=0)
    return values


def _mean(ordered: Floats) -> Floats:
    """Return the mean (N,) of ascending values (M, N), never outside of them; equal ones come back bit by bit."""
    low, share = ordered[0], 1.0 / len(ordered)
    mean = low.copy()
    for values in ordered[1:]:
        mean += values * share - low * share
    return np.asarray(np.clip(mean, low, ordered[-1]))


def krum_scores(distances: Floats, attackers: int) -> Floats:
    """Return the sum of squared distances of each update to its ``n - attackers - 2`` nearest, (n,).

    Args:
        distances: (n, n) squared distances.
        attackers: how many of the n may send anything.
    """
    others = distances.copy()
    np.fill_diagonal(others, np.inf)
    others.sort(axis=1)
    with np.errstate(over="ignore"):
        scores: Floats = others[:, : max(len(others) - attackers - 2, 1)].sum(axis=1)
    return scores


def krum(distances: Floats, attackers: int, count: int = 1) -> Places:
    """Return the places of the ``count`` updates with the smallest scores, ascending (Blanchard et al. 2017)."""
    best = np.argsort(krum_scores(distances, attackers), kind="stable")[:count]
    return np.sort(best)


def bulyan(distances: Floats, attackers: int) -> Places:
    """Return the ``n - 2 attackers`` updates that Krum picks one after the other, ascending (El Mhamdi et al. 2018)."""
    left = list(range(len(distances)))
    picked: list[int] = []
    while len(picked) < len(distances) - 2 * attackers:
        best = krum(distances[np.ix_(left, left)], attackers)[0]
        picked.append(left.pop(int(best)))
    return np.sort(np.array(picked, np.intp))
