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


def draw_band(
    axes: "Axes", curves: Curves, line: Line, label: str, *, width: float = 1.5, logarithmic: bool = False
) -> None:
    """Draw the mean over the seeds and a band of one sample standard deviation; nothing without a point.

    Args:
        axes: where to.
        curves: (round, value) of every seed.
        line: its colour and dashes.
        label: for the legend.
        width: of the line, in points.
        logarithmic: mean and deviation of the logarithms; all values must be positive.
    """
    full, values = over_seeds(curves)
    if not full:
        return
    values, back = (np.log(values), np.exp) if logarithmic else (values, np.asarray)
    mean = values.mean(axis=1)
    style: dict[str, Any] = {"color": line.colour, "linestyle": line.dashes, "linewidth": width, "label": label}
    axes.plot(full, back(mean), marker="o" if len(full) == 1 else None, **style)
    if values.shape[1] > 1:
        sd = values.std(axis=1, ddof=1)
        axes.fill_between(full, back(mean - sd), back(mean + sd), color=line.colour, alpha=0.12, linewidth=0)


def drawn_values(axes: "Axes") -> Floats:
    """Return the heights of all points of all lines."""
    return np.concatenate([np.empty(0), *(np.asarray(line.get_ydata(), np.float64) for line in axes.get_lines())])


def scale_log(axes: "Axes", low: float, high: float) -> None:
    """Use a logarithmic axis from ``low`` to ``high`` with plain numbers on it; for less than some three decades."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
