"""Judge statements "this run is better than that one", seed by seed, and put the verdicts into tables.

Every comparison is a difference of two runs with the same seed, signed so that positive speaks for the statement:

* "reproduced": positive for every seed, and the mean exceeds the sample standard deviation;
* "not reproduced": negative for every seed;
* "undecided": anything else, and always with a single seed;
* "no data": no seed has both runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fed_core.study.report.document import Entry, Table, rows_of
from fed_core.study.report.results import Study
from fed_core.study.report.statistics import Spread, paired, spread

REPRODUCED, NOT_REPRODUCED, UNDECIDED, NO_DATA = "reproduced", "not reproduced", "undecided", "no data"

BySeed: TypeAlias = Mapping[int, float]

HOW_JUDGED = (
    "Each comparison is paired by seed. Reproduced: every seed agrees and the mean difference exceeds its standard "
    "deviation. Not reproduced: every seed says the opposite. Undecided: the rest, and always with one seed. A "
    "claim is reproduced for a model only where all its comparisons are, and not reproduced where one is not."
)


@dataclass(frozen=True)
class Comparison:
    """One pair of runs.

    Attributes:
        model: the network, or "a / b" where two networks are compared.
        statement: what is claimed.
        difference: over the seeds, positive for the claim.
        in_favour: seeds with a positive difference.
        verdict: see the module.
        ratio: mean of the greater side / mean of the smaller side as claimed.
    """

    model: str
    statement: str
    difference: Spread
    in_favour: int
    verdict: str
    ratio: float = float("nan")


@dataclass(frozen=True)
class Part:
    """One part of a claim with all its comparisons."""

    claim: int
    text: str
    comparisons: tuple[Comparison, ...]

    def verdict(self, model: str) -> str:
        """Return the verdict over the comparisons of one model."""
        return combined([c.verdict for c in self.comparisons if c.model == model])

    @property
    def models(self) -> list[str]:
        """Models it was judged for."""
        return list(dict.fromkeys(c.model for c in self.comparisons))


def judge(by_seed: BySeed) -> str:
    """Return the verdict of differences that are positive where they speak for the claim."""
    values = list(by_seed.values())
    if not values:
        return NO_DATA
    found = spread(values)
    if found.sd is None:
        return UNDECIDED
    if all(value > 0 for value in values) and found.mean > found.sd:
        return REPRODUCED
    return NOT_REPRODUCED if all(value < 0 for value in values) else UNDECIDED


def combined(verdicts: Sequence[str]) -> str:
    """Return the verdict of a statement that holds only where all comparisons hold."""
    if not verdicts or all(v == NO_DATA for v in verdicts):
        return NO_DATA
    if NOT_REPRODUCED in verdicts:
        return NOT_REPRODUCED
    return REPRODUCED if all(v == REPRODUCED for v in verdicts) else UNDECIDED


def compared(model: str, statement: str, greater: BySeed, smaller: BySeed) -> Comparison:
    """Return the comparison whose claim is ``greater > smaller``, over the seeds that both have."""
    by_seed = paired(greater, smaller)
    upper, lower = (sum(side[seed] for seed in by_seed) for side in (greater, smaller))
    in_favour = sum(value > 0 for value in by_seed.values())
    ratio = upper / lower if lower > 0 else float("nan")
    return Comparison(model, statement, spread(list(by_seed.values())), in_favour, judge(by_seed), ratio)


def is_planned(study: Study, model: str, *labels: str) -> bool:
    """Return whether the study contains all these labels of a model, finished or not."""
    planned = {label for m, label, _ in (*study.cells, *study.missing) if m == model}
    return set(labels) <= planned


def kept(found: Sequence[Comparison | None]) -> tuple[Comparison, ...]:
    """Return the comparisons that the study could make."""
    return tuple(comparison for comparison in found if comparison is not None)


def verdict_table(parts: Sequence[Part], gaps: str = "", caption: str = "Claims of the paper: verdicts") -> Table:
    """Return one row per part and model; ``gaps`` goes below it."""
    rows = []
    for part in parts:
        for model in part.models:
            mine = [c.verdict for c in part.comparisons if c.model == model]
            counts = (str(mine.count(v)) for v in (REPRODUCED, UNDECIDED, NOT_REPRODUCED, NO_DATA))
            verdict = part.verdict(model)
            names = (Entry(f"{part.claim}. {part.text}"), Entry(model), Entry(verdict, verdict == REPRODUCED))
            rows.append((*names, *map(Entry, counts)))
    header = ("Claim", "Model", "Verdict", "Reproduced", "Undecided", "Not reproduced", "No data")
    return Table(caption, header, tuple(rows), HOW_JUDGED + (f" {gaps}" if gaps else ""))


def comparison_table(
    parts: Sequence[Part], note: str, *, digits: int = 4, caption: str = "Claims of the paper: all comparisons"
) -> Table:
    """Return every comparison with its figures; ``note`` tells what the difference and the ratio are of."""
    rows = [
        (
            f"{part.claim}. {c.statement}",
            c.model,
            c.difference.text(digits),
            "–" if c.ratio != c.ratio else f"{c.ratio:.2f}",
            f"{c.in_favour} of {c.difference.count}",
            c.verdict,
        )
        for part in parts
        for c in part.comparisons
    ]
    header = ("Comparison", "Model", "Difference", "Ratio", "Seeds in favour", "Verdict")
    return Table(caption, header, rows_of(*rows), note, folded=True)
