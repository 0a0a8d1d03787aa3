"""Spread over seeds, differences paired by seed, and how fast and how steadily a curve converges."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: A curve has arrived where it is within this share of its own best value.
NEAR_BEST = 0.05


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over seeds.

    Attributes:
        mean: NaN without values.
        sd: divisor n - 1; None with fewer than two values.
        count: number of seeds.
    """

    mean: float
    sd: float | None
    count: int

    def text(self, digits: int = 3) -> str:
        """Return "mean ± sd", the mean alone where there is no sd, or a dash."""
        if not self.count:
            return "–"
        shown = self._digits(digits)
        mean = f"{self.rounded(digits):.{shown}f}"
        return mean if self.sd is None else f"{mean} ± {self.sd:.{shown}f}"

    def rounded(self, digits: int = 3) -> float:
        """Return the mean as it is printed."""
        return round(self.mean, self._digits(digits)) + 0.0  # + 0.0 makes -0 a 0

    def _digits(self, most: int) -> int:
        """Return decimals for five significant figures, but at most ``most``."""
        before = math.floor(math.log10(abs(self.mean))) if self.mean else 0
        return min(most, max(0, 4 - before))

    def short(self, digits: int = 3) -> str:
        """Return the same without a spread that is exactly 0: a count that no seed changes is one figure."""
        return Spread(self.mean, self.sd or None, self.count).text(digits)


def spread(values: Sequence[float]) -> Spread:
    """Return mean, sample standard deviation and count of the values."""
    count = len(values)
    if not count:
        return Spread(math.nan, None, 0)
    mean = math.fsum(values) / count
    if count == 1:
        return Spread(mean, None, 1)
    return Spread(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)), count)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Return ``first - second`` of each seed that both have."""
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def rounds_to_best(curve: Sequence[tuple[int, float]], share: float = NEAR_BEST) -> int | None:
    """Return the first round whose error is at most ``1 + share`` times the smallest of the curve.

    Args:
        curve: (round, error) in order; less is better.
        share: 0.05 for "within 5 %".
    """
    if not curve:
        return None
    bound = (1.0 + share) * min(value for _, value in curve)
    return next(turn for turn, value in curve if value <= bound)


def rounds_to_level(curve: Sequence[tuple[int, float]], level: float) -> int | None:
    """Return the first round whose error is at most ``level``; the round after the last where none is."""
    if not curve:
        return None
    return next((turn for turn, value in curve if value <= level), curve[-1][0] + 1)


def late_deviation(curve: Sequence[tuple[int, float]]) -> float | None:
    """Return the sample standard deviation over the last third of the rounds (rounded up, at least two)."""
    last = curve[-max(2, math.ceil(len(curve) / 3)) :]
    return spread([value for _, value in last]).sd
