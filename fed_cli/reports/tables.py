"""Small things that tables of reports are made of: figures as text, and what is too much to show."""

import math
from collections.abc import Sequence
from typing import TypeVar

from fed_core.data.inspect import size_text
from fed_core.study.report.statistics import spread

Item = TypeVar("Item")
MISSING = "–"


def figure(value: float | None, digits: int = 4) -> str:
    """Return a number with some significant digits, or a dash."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def size(value: float | None) -> str:
    """Return bytes with a unit, or a dash."""
    return MISSING if value is None else size_text(int(value))


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None of nothing."""
    return math.fsum(values) / len(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None for fewer than two."""
    return spread(values).sd


def with_spread(values: Sequence[float], digits: int = 4) -> str:
    """Return "mean ± deviation", or less where there is less."""
    if not values:
        return MISSING
    told = deviation(values)
    return figure(mean(values), digits) + ("" if told is None else f" ± {figure(told, 3)}")


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most ``most`` of the items, the first and the last among them, the rest evenly between."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def left_out(shown: int, total: int, what: str) -> str:
    """Return a sentence about what is not shown; nothing where all is."""
    return "" if shown >= total else f" Shown are {shown} of {total} {what}."
