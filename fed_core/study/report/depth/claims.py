"""The three ordinal claims of FeDepth's paper (fedepth spec 13), judged seed by seed; differences are of errors."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from fed_core.study.report.depth import curves
from fed_core.study.report.results import Study
from fed_core.study.report.statistics import paired
from fed_core.study.report.verdicts import UNDECIDED, BySeed, Comparison, Part, compared, is_planned, kept

#: Strategies that train one model for everybody.
GLOBAL = ("fedavg", "fedprox", "feddyn", "scaffold")

#: What the figures of a comparison are.
NOTE = (
    "Difference: of macro AbsRel unless the row names another figure; mean over the seeds ± sample standard "
    "deviation, positive speaks for the claim. Ratio: claimed worse side / claimed better side."
)

_STRATEGIES = {
    "hpe": (*GLOBAL, "pacfl", "fedclust", "hard", "fedepth", "centralised"),
    "bmr": (*GLOBAL, "pacfl", "centralised"),
}

Reader: TypeAlias = Callable[[Study, str, str], BySeed]


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
    yield Part(1, "FedClust degrades with AdaBins: PACFL and FedAvg are better", kept(degrades))
    yield Part(1, "FeDepth is the best federated strategy", _all(study, ["fedepth"], others))
    pairs = [(model, other) for model in study.models for other in others]
    for text, what, read in (
        ("FeDepth is faster: fewer rounds to within 5 % of its own best", "fewer rounds to own best", _own_best),
        ("FeDepth is faster: fewer rounds to FedAvg's last AbsRel", "fewer rounds to FedAvg's last", _fedavg),
        ("FeDepth is steadier: smaller standard deviation over the last third", "smaller SD of the last third", _late),
    ):
        found = [_compare(study, m, "fedepth", other, read=read, what=what) for m, other in pairs]
        yield Part(1, text, kept(found))


def _bmr(study: Study) -> Iterator[Part]:
    yield Part(2, "FedAvg degrades: PACFL and centralised training are better", _all(study, _SEPARATED, ("fedavg",)))
    yield Part(
        2, "PACFL suits the separated domains: better than each one-model strategy", _all(study, ["pacfl"], GLOBAL)
    )
    found = []
    for model in (m for m in study.models if _is_adabins(m)):
        for other in (m for m in study.models if not _is_adabins(m)):
            ours, theirs = (_abs_rel(study, name, "centralised") for name in (model, other))
            found.append(compared(f"{model} / {other}", f"{other} better than {model}, centralised", ours, theirs))
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
    return kept([_compare(study, m, one, other) for m in study.models for one in better for other in worse])


def _compare(
    study: Study, model: str, better: str, worse: str, *, read: Reader = _abs_rel, what: str = "better"
) -> Comparison | None:
    """Compare two labels of one model; None where the study does not contain both."""
    if not is_planned(study, model, better, worse):
        return None
    ours, theirs = read(study, model, better), read(study, model, worse)
    return compared(model, f"{better} {what} than {worse}", theirs, ours)


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
