"""Curves over rounds: how each strategy is drawn everywhere, and a line with the band of its seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curves = Iterable[Iterable[tuple[int, float]]]
Floats = npt.NDArray[np.float64]


class Line(NamedTuple):
    """How a strategy is drawn everywhere; lines differ in dashes too, not only in colour."""

    colour: str
    dashes: str


_SPARE = tuple(Line(c, d) for d in ("-.", ":", "--") for c in ("#CC79A7", "#0072B2", "#D55E00", "#56B4E9"))


def choose_line(known: Mapping[str, Line], label: str, labels: Sequence[str]) -> Line:
    """Return how the label is drawn; names that are not known get spare styles in their order."""
    unknown = [name for name in labels if name not in known]
    return known.get(label) or _SPARE[unknown.index(label) % len(_SPARE)]


def over_seeds(curves: Curves) -> tuple[list[int], Floats]:
    """Return the rounds that most seeds have, and (rounds, seeds) values; a seed less would make the mean jump."""
    by_round: dict[int, list[float]] = {}
    for curve in curves:
        for turn, value in curve:
            by_round.setdefault(turn, []).append(value)
    most = max(map(len, by_round.values()), default=0)
    full = [turn for turn in sorted(by_round) if len(by_round[turn]) == most]
    return full, np.array([by_round[turn] for turn in full], np.float64)


def draw_band(axes: "Axes", curves: Curves, line: Line, label: str, width: float) -> None:
    """Draw the mean over the seeds and a band of one sample standard deviation; nothing without a point."""
    full, values = over_seeds(curves)
    if not full:
        return
    mean = values.mean(axis=1)
    style: dict[str, Any] = {"color": line.colour, "linestyle": line.dashes, "linewidth": width, "label": label}
    axes.plot(full, mean, marker="o" if len(full) == 1 else None, **style)
    if values.shape[1] > 1:
        sd = values.std(axis=1, ddof=1)
        axes.fill_between(full, mean - sd, mean + sd, color=line.colour, alpha=0.12, linewidth=0)
