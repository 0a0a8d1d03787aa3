"""The three ordinal claims of FeDepth's paper (fedepth spec 13), judged seed by seed.

Every comparison is a difference of two runs with the same seed, signed so that positive speaks for the claim:

* "reproduced": positive for every seed, and the mean exceeds the sample standard deviation;
* "not reproduced": negative for every seed;
* "undecided": anything else, and always with a single seed;
* "no data": no seed has both runs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fed_core.study.report.depth import curves
from fed_core.study.report.document import Entry, Table, rows_of
from fed_core.study.report.results import Study
from fed_core.study.report.statistics import Spread, paired, spread

REPRODUCED, NOT_REPRODUCED, UNDECIDED, NO_DATA = "reproduced", "not reproduced", "undecided", "no data"
#: Strategies that train one model for everybody.
GLOBAL = ("fedavg", "fedprox", "feddyn", "scaffold")

_STRATEGIES = {
    "hpe": (*GLOBAL, "pacfl", "fedclust", "hard", "fedepth", "centralised"),
    "bmr": (*GLOBAL, "pacfl", "centralised"),
}

BySeed: TypeAlias = Mapping[int, float]
Reader: TypeAlias = Callable[[Study, str, str], BySeed]


@dataclass(frozen=True)
class Comparison:
    """One pair of runs.

    Attributes:
        model: the network, or "a / b" where two networks are compared.
        statement: what is claimed.
        difference: over the seeds, positive for the claim.
        in_favour: seeds with a positive difference.
        verdict: see the module.
        ratio: mean of the worse side / mean of the better side as claimed.
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


def judge_claims(study: Study) -> list[Part]:
    """Return all parts of the claims that fit the study: 1 and 3 for HPE, 2 for BMR, all where it is neither."""
    name = str(study.plan.get("study", ""))
    numbers = {1, 3} if "hpe" in name else {2} if "bmr" in name else {1, 2, 3}
    parts = [part for part in (*_hpe(study), *_bmr(study), _soft(study)) if part.claim in numbers]
    return [part for part in parts if part.comparisons]


def _hpe(study: Study) -> Iterator[Part]:
    others = (*GLOBAL, "pacfl", "fedclust")
    yield Part(
        1, "Centralised training is better than each strategy with one model", _all(study, ["centralised"], GLOBAL)
    )
    yield Part(1, "PACFL is better than each strategy with one model", _all(study, ["pacfl"], GLOBAL))
    adabins = [model for model in study.models if _is_adabins(model)]
    degrades = [_compare(study, model, better, "fedclust") for model in adabins for better in ("pacfl", "fedavg")]
    yield Part(1, "FedClust degrades with AdaBins: PACFL and FedAvg are better", _kept(degrades))
    yield Part(1, "FeDepth is the best federated strategy", _all(study, ["fedepth"], others))
    pairs = [(model, other) for model in study.models for other in others]
    for text, what, read in (
        ("FeDepth is faster: fewer rounds to within 5 % of its own best", "fewer rounds to own best", _own_best),
        ("FeDepth is faster: fewer rounds to FedAvg's last AbsRel", "fewer rounds to FedAvg's last", _fedavg),
        ("FeDepth is steadier: smaller standard deviation over the last third", "smaller SD of the last third", _late),
    ):
        found = [_compare(study, m, "fedepth", other, read=read, what=what) for m, other in pairs]
        yield Part(1, text, _kept(found))


def _bmr(study: Study) -> Iterator[Part]:
    yield Part(2, "FedAvg degrades: PACFL and centralised training are better", _all(study, _SEPARATED, ("fedavg",)))
    yield Part(
        2, "PACFL suits the separated domains: better than each one-model strategy", _all(study, ["pacfl"], GLOBAL)
    )
    found = []
    for model in (m for m in study.models if _is_adabins(m)):
        for other in (m for m in study.models if not _is_adabins(m)):
            ours, theirs = (_abs_rel(study, name, "centralised") for name in (model, other))
            found.append(_comparison(f"{model} / {other}", f"{other} better than {model}, centralised", ours, theirs))
    yield Part(2, "AdaBins struggles even in centralised training: other networks are better", tuple(found))


def _soft(study: Study) -> Part:
    found = []
    for model in study.models:
        comparison = _compare(study, model, "fedepth", "hard")
        if comparison is not None:
            found.append(_at_equal_tau(study, model, comparison))
    return Part(3, "Soft clusters are better than hard clusters at the same τ", tuple(found))


_SEPARATED = ["pacfl", "centralised"]


def _own_best(study: Study, model: str, label: str) -> BySeed:
    return curves.rounds_to_own_best(study, model, label)


def _fedavg(study: Study, model: str, label: str) -> BySeed:
    return curves.rounds_to_fedavg(study, model, label)


def _late(study: Study, model: str, label: str) -> BySeed:
    return curves.late_deviations(study, model, label)


def _abs_rel(study: Study, model: str, label: str) -> BySeed:
    return study.values(model, label, lambda cell: cell.macro("abs_rel"))


def _all(study: Study, better: Sequence[str], worse: Sequence[str]) -> tuple[Comparison, ...]:
    return _kept([_compare(study, m, one, other) for m in study.models for one in better for other in worse])


def _kept(found: Sequence[Comparison | None]) -> tuple[Comparison, ...]:
    return tuple(comparison for comparison in found if comparison is not None)


def _compare(
    study: Study, model: str, better: str, worse: str, *, read: Reader = _abs_rel, what: str = "better"
) -> Comparison | None:
    """Compare two labels of one model; None where the study does not contain both."""
    planned = {label for m, label, _ in (*study.cells, *study.missing) if m == model}
    if not {better, worse} <= planned:
        return None
    ours, theirs = read(study, model, better), read(study, model, worse)
    return _comparison(model, f"{better} {what} than {worse}", theirs, ours)


def _comparison(model: str, statement: str, worse: BySeed, better: BySeed) -> Comparison:
    by_seed = paired(worse, better)
    upper, lower = (sum(side[seed] for seed in by_seed) for side in (worse, better))
    in_favour = sum(value > 0 for value in by_seed.values())
    ratio = upper / lower if lower > 0 else float("nan")
    return Comparison(model, statement, spread(list(by_seed.values())), in_favour, judge(by_seed), ratio)


def _at_equal_tau(study: Study, model: str, comparison: Comparison) -> Comparison:
    """Return the comparison; undecided, and it says why, where the two strategies did not use the same tau."""
    soft, hard = (study.values(model, label, lambda cell: cell.figure("tau")) for label in ("fedepth", "hard"))
    apart = [seed for seed, gap in paired(soft, hard).items() if abs(gap) > 1e-6 * max(1.0, abs(soft[seed]))]
    if not apart:
        return comparison
    seeds = ", ".join(map(str, apart))
    statement = f"{comparison.statement} (τ differs, seed {seeds})"
    return Comparison(model, statement, comparison.difference, comparison.in_favour, UNDECIDED, comparison.ratio)


def _is_adabins(model: str) -> bool:
    return model.startswith("adabins")


def not_asked(study: Study) -> str:
    """Return a sentence on the strategies that the claims speak of and the study does not contain; "" without any."""
    wanted = {strategy for strategies in _STRATEGIES.values() for strategy in strategies}
    for name, strategies in _STRATEGIES.items():
        if name in str(study.plan.get("study", "")):
            wanted = set(strategies)
    planned = {key[:2] for key in (*study.cells, *study.missing)}
    gaps = {model: sorted(s for s in wanted if (model, s) not in planned) for model in study.models}
    texts = [f"{model}: {', '.join(names)}" for model, names in gaps.items() if names]
    return f"Not in this study, so nothing is said about them: {'; '.join(texts)}." if texts else ""


def verdict_table(parts: Sequence[Part], gaps: str = "") -> Table:
    """Return one row per part and model; ``gaps`` goes below it."""
    rows = []
    for part in parts:
        for model in part.models:
            mine = [c.verdict for c in part.comparisons if c.model == model]
            counts = (str(mine.count(v)) for v in (REPRODUCED, UNDECIDED, NOT_REPRODUCED, NO_DATA))
            verdict = part.verdict(model)
            names = (Entry(f"{part.claim}. {part.text}"), Entry(model), Entry(verdict, verdict == REPRODUCED))
            rows.append((*names, *map(Entry, counts)))
    return Table(
        "Claims of the paper: verdicts",
        ("Claim", "Model", "Verdict", "Reproduced", "Undecided", "Not reproduced", "No data"),
        tuple(rows),
        "Each comparison is paired by seed. Reproduced: every seed agrees and the mean difference exceeds its standard "
        "deviation. Not reproduced: every seed says the opposite. Undecided: the rest, and always with one seed. A "
        "claim is reproduced for a model only where all its comparisons are, and not reproduced where one is not."
        + (f" {gaps}" if gaps else ""),
    )


def comparison_table(parts: Sequence[Part]) -> Table:
    """Return every comparison with its figures."""
    rows = [
        (
            f"{part.claim}. {c.statement}",
            c.model,
            c.difference.text(4),
            "–" if c.ratio != c.ratio else f"{c.ratio:.2f}",
            f"{c.in_favour} of {c.difference.count}",
            c.verdict,
        )
        for part in parts
        for c in part.comparisons
    ]
    return Table(
        "Claims of the paper: all comparisons",
        ("Comparison", "Model", "Difference", "Ratio", "Seeds in favour", "Verdict"),
        rows_of(*rows),
        "Difference: of macro AbsRel unless the row names another figure; mean over the seeds ± sample standard "
        "deviation, positive speaks for the claim. Ratio: claimed worse side / claimed better side.",
        folded=True,
    )
