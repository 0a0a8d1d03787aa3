"""Bars, sparklines and dots out of characters; plain ones where a terminal knows no others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Marks:
    """A set of characters.

    Attributes:
        levels: from low to high, for sparklines.
        full: part of a bar that is done.
        empty: part of a bar that is not.
        member: a robot belongs to a cluster.
        other: it does not.
    """

    levels: str
    full: str
    empty: str
    member: str
    other: str

    def bar(self, share: float | None, width: int) -> str:
        """Return a bar of ``width`` characters; ``share`` is 0 .. 1, None = 0."""
        done = round(width * min(1.0, max(0.0, share or 0.0)))
        return self.full * done + self.empty * (width - done)

    def sparkline(self, values: Sequence[float], width: int) -> str:
        """Return one character for each of the last ``width`` values, from their lowest to their highest."""
        shown = [value for value in values if math.isfinite(value)][-width:]
        if not shown:
            return ""
        low, high = min(shown), max(shown)
        top = len(self.levels) - 1
        return "".join(self.levels[round(top * (v - low) / (high - low)) if high > low else 0] for v in shown)

    def memberships(self, clusters: Sequence[int], every: Sequence[int]) -> str:
        """Return a character for each cluster of ``every``."""
        return "".join(self.member if cluster in clusters else self.other for cluster in every)


UNICODE = Marks("▁▂▃▄▅▆▇█", "█", "░", "●", "·")
ASCII = Marks("_.-=+*#@", "#", ".", "x", ".")


def marks_for(encoding: str) -> Marks:
    """Return the characters that an output of this encoding can show."""
    return UNICODE if encoding.lower().replace("-", "").startswith("utf") else ASCII
