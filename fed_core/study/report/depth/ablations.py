"""The table of ablations: each label with options against its strategy's defaults, paired by seed."""

from collections.abc import Callable, Mapping
from typing import Any

from fed_core.study.report.document import Entry, Table
from fed_core.study.report.entries import difference
from fed_core.study.report.results import Cell, Study, is_ablation, number, read_metric, strategy_of
from fed_core.study.report.statistics import paired, spread

_HEADER = ("Setting", "Seeds", "AbsRel ↓", "δ1 ↑", "Clusters K", "Clusters per robot", "Fallback rate")
_DIFFERENCE = ("AbsRel − default", "Seeds better")


def ablations(study: Study, model: str) -> Table | None:
    """Return the table, or None where the model has neither ablations nor variants."""
    finished = study.finished(model)
    changed = [label for label in finished if is_ablation(label)]
    with_variants = [label for label in finished if _variants(study, model, label)]
    if not changed and not with_variants:
        return None
    rows: list[tuple[Entry, ...]] = []
    for strategy in dict.fromkeys(strategy_of(label) for label in finished if label in {*changed, *with_variants}):
        for label in [strategy, *(label for label in changed if strategy_of(label) == strategy)]:
            rows.append(_row(study, model, label, strategy))
            rows.extend(_variant_row(study, model, label, name) for name in _variants(study, model, label))
    return Table(
        f"{model}: ablations",
        (*_HEADER, *_DIFFERENCE),
        tuple(rows),
        "Differences are taken seed by seed against the row above that has the defaults (of an inference-only row: "
        "against the same trained models with default inference); negative is better. A single seed has no spread and "
        "decides nothing.",
    )


def _row(study: Study, model: str, label: str, base: str) -> tuple[Entry, ...]:
    def text(get: Callable[[Cell], float | None], digits: int) -> Entry:
        return Entry(spread(list(study.values(model, label, get).values())).short(digits))

    own, other = (study.values(model, name, lambda cell: cell.macro("abs_rel")) for name in (label, base))
    return (
        Entry(label),
        Entry(str(len(study.of(model, label)))),
        text(lambda cell: cell.macro("abs_rel"), 3),
        text(lambda cell: cell.macro("delta1"), 3),
        text(lambda cell: cell.figure("num_clusters"), 1),
        text(lambda cell: cell.figure("memberships_mean"), 2),
        text(lambda cell: cell.figure("fallback_rate"), 2),
        *difference({} if label == base else paired(own, other), less_is_better=True),
    )


def _variant_row(study: Study, model: str, label: str, name: str) -> tuple[Entry, ...]:
    def read(metric: str) -> dict[int, float]:
        return study.values(model, label, lambda cell: read_metric(_variant(cell, name).get("macro"), metric))

    own, base = read("abs_rel"), study.values(model, label, lambda cell: cell.macro("abs_rel"))
    fallback = study.values(model, label, lambda cell: number(_variant(cell, name).get("fallback_rate")))
    return (
        Entry(f"{label}, {name} (inference only)"),
        Entry(str(len(own))),
        Entry(spread(list(own.values())).text()),
        Entry(spread(list(read("delta1").values())).text()),
        Entry("as above"),
        Entry("as above"),
        Entry(spread(list(fallback.values())).short(2)),
        *difference(paired(own, base), less_is_better=True),
    )


def _variants(study: Study, model: str, label: str) -> list[str]:
    return list(dict.fromkeys(name for cell in study.of(model, label) for name in cell.result.get("variants") or {}))


def _variant(cell: Cell, name: str) -> Mapping[str, Any]:
    return (cell.result.get("variants") or {}).get(name) or {}
