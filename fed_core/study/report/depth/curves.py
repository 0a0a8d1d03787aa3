"""How fast and how steadily each strategy converges, by seed (macro AbsRel against the round)."""

from fed_core.study.report.results import Cell, Study
from fed_core.study.report.statistics import late_deviation, rounds_to_best, rounds_to_level

METRIC = "abs_rel"
#: Its last AbsRel is the level that the others have to reach.
LEVEL_OF = "fedavg"


def rounds_to_own_best(study: Study, model: str, label: str) -> dict[int, float]:
    """Return the first round within 5 % of the run's own best AbsRel, by seed."""

    def get(cell: Cell) -> float | None:
        return _float(rounds_to_best(cell.curve(METRIC)))

    return study.values(model, label, get)


def rounds_to_fedavg(study: Study, model: str, label: str) -> dict[int, float]:
    """Return the first round with at most the last AbsRel of FedAvg with the same seed, by seed.

    A run that never gets there counts as one round more than it has.
    """
    levels = study.values(model, LEVEL_OF, lambda cell: last_value(cell, METRIC))

    def get(cell: Cell) -> float | None:
        level = levels.get(cell.seed)
        return None if level is None else _float(rounds_to_level(cell.curve(METRIC), level))

    return study.values(model, label, get)


def late_deviations(study: Study, model: str, label: str) -> dict[int, float]:
    """Return the standard deviation of AbsRel over the last third of the rounds, by seed."""
    return study.values(model, label, lambda cell: late_deviation(cell.curve(METRIC)))


def last_value(cell: Cell, metric: str) -> float | None:
    """Return a macro metric after the last round that has it."""
    curve = cell.curve(metric)
    return curve[-1][1] if curve else None


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
