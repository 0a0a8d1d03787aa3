"""Arithmetic of detection scores over the classes that a domain has (fedcka spec 7.3), and over domains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError

#: Errors of true positives by the devkit's names, in the order of the paper: ATE, ASE, AOE, AVE, AAE.
ERRORS: Mapping[str, str] = {
    "trans_err": "ATE",
    "scale_err": "ASE",
    "orient_err": "AOE",
    "vel_err": "AVE",
    "attr_err": "AAE",
}
#: How often mAP counts beside the five errors in NDS.
_AP_WEIGHT = 5.0


@dataclass(frozen=True)
class Score:
    """Figures over a set of classes.

    Attributes:
        nds: nuScenes detection score [1].
        map: mean average precision [1].
        errors: mean errors of true positives by the devkit's names; 1 where no class has one.
        cap: average precision of cars [1], over the distances; NaN without cars.
    """

    nds: float
    map: float
    errors: Mapping[str, float]
    cap: float


@dataclass(frozen=True)
class Figures:
    """What the devkit found, class by class.

    Attributes:
        ap: average precision [1] by class and distance [m].
        errors: errors of true positives by class and the devkit's name; NaN = not defined for the class.
        classes: those with at least one true box that the devkit counts, in the devkit's order.
        nds: the devkit's own score over all ten classes.
        map: the devkit's own mean average precision over all ten classes.
        mean_errors: the devkit's own mean errors.
    """

    ap: Mapping[str, Mapping[float, float]]
    errors: Mapping[str, Mapping[str, float]]
    classes: tuple[str, ...]
    nds: float
    map: float
    mean_errors: Mapping[str, float]

    def ap_of(self, name: str) -> float:
        """Return the average precision of a class, mean over the distances."""
        return float(np.mean(list(self.ap[name].values())))

    def filtered(self) -> Score:
        """Return the figures over the classes that are there, without rounding (fedcka spec 7.3)."""
        return score_over(self, self.classes)


def score_over(figures: Figures, classes: Sequence[str]) -> Score:
    """Return mAP, errors and NDS over some classes; all 0, and errors 1, over none."""
    mean_ap = float(np.mean([figures.ap_of(name) for name in classes])) if classes else 0.0
    errors = {error: _mean_error([figures.errors[name][error] for name in classes]) for error in ERRORS}
    gains = sum(1.0 - min(1.0, value) for value in errors.values())
    nds = (_AP_WEIGHT * mean_ap + gains) / (_AP_WEIGHT + len(ERRORS))
    return Score(nds, mean_ap, errors, figures.ap_of("car") if "car" in classes else float("nan"))


def weighted_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the mean of the domains' values, weighted (by their validation scenes, fedcka spec 7.3).

    A value that is not defined (NaN) leaves out its domain; NaN where none is left.

    Args:
        values: by domain.
        weights: by domain, none negative; those of other domains are ignored.
    """
    missing = sorted(set(values) - set(weights))
    if missing:
        raise DataError(f"no weight is known for domain {', '.join(missing)}; name its number of scenes")
    there = {name: value for name, value in values.items() if np.isfinite(value)}
    total = sum(weights[name] for name in there)
    if not total > 0:
        return float("nan")
    return float(sum(weights[name] * value for name, value in there.items()) / total)


def plain_mean(values: Mapping[str, float]) -> float:
    """Return the mean of the values that are defined, each counting once; NaN without any."""
    there = [value for value in values.values() if np.isfinite(value)]
    return float(np.mean(there)) if there else float("nan")


@dataclass(frozen=True)
class Transfer:
    """The cross-domain matrix in short (fedcka spec 7.3).

    Attributes:
        own: value of each client's model on its own domain, the diagonal.
        own_mean: plain mean of the diagonal.
        own_weighted: the same by scenes.
        other_mean: plain mean of the values off the diagonal.
        other_weighted: the same, each weighted by the scenes of the domain that is scored.
    """

    own: Mapping[str, float]
    own_mean: float
    own_weighted: float
    other_mean: float
    other_weighted: float


def transfer(matrix: Mapping[str, Mapping[str, float]], weights: Mapping[str, float]) -> Transfer:
    """Return diagonal and off-diagonal means of ``matrix[client][domain]``; clients are named as their domains.

    Args:
        matrix: square.
        weights: scenes of each domain.
    """
    wrong = sorted(name for name, row in matrix.items() if set(row) != set(matrix))
    if wrong:
        raise DataError(
            f"the cross-domain matrix is not square: row {wrong[0]} has other domains than there are clients"
        )
    own = {name: matrix[name][name] for name in matrix}
    others = [(row[name], weights[name]) for client, row in matrix.items() for name in row if name != client]
    values, counts = np.array([v for v, _ in others]), np.array([w for _, w in others], np.float64)
    return Transfer(own, plain_mean(own), weighted_mean(own, weights), _mean(values), _mean(values, counts))


def _mean(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None = None) -> float:
    there = np.isfinite(values)
    if not there.any() or (weights is not None and not weights[there].sum() > 0):
        return float("nan")
    return float(np.average(values[there], weights=None if weights is None else weights[there]))


def _mean_error(values: Sequence[float]) -> float:
    there = [value for value in values if np.isfinite(value)]
    return float(np.mean(there)) if there else 1.0
