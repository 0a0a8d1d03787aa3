"""What robots and strategy tell of a round: losses, masks, CKA scores; and what stays with a robot in the end."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fed_core.bookkeeping import ClosedRound
from fed_core.masks import Division
from fed_core.study.base import Line, Moment, Run
from fed_core.study.config import CENTRALISED
from fed_core.types import ModelSignature

#: Before the name of a layer in a robot's figures: its CKA, and the CKA of random features of its shape.
CKA, CHANCE = "cka/", "chance/"
#: A robot's figure in methods that keep single elements: share of the model that is its own.
RATIO = "personal_ratio"
#: Digits of scores in a line, of which there are hundreds.
_DIGITS = 6


def of_round(moment: Moment) -> dict[str, Any]:
    """Return losses, masks, CKA scores and other figures of a round by client."""
    closed = moment.closed
    return {
        "losses": {report.robot_id: report.loss for report in closed.reports},
        "masks": {report.robot_id: bits(report.mask) for report in closed.reports if report.mask is not None},
        "cka": _by_layer(closed, CKA),
        "chance": _means(_by_layer(closed, CHANCE)),
        "told": _others(closed),
        "log": dict(closed.log),
    }


def bits(mask: Any) -> str:
    """Return a mask as text, 1 = shared."""
    return "".join("1" if unit else "0" for unit in mask)


def at_the_end(run: Run, lines: Sequence[Line]) -> dict[str, Any]:
    """Return units and layers of the masks, and what each client keeps to itself after the last round."""
    signature = run.toolbox.signature(run.network, run.job.cell.model)
    total = sum(entries_of(signature, signature.names).values())
    divide = getattr(run.strategy, "division", None)
    division: Division | None = None if divide is None else divide(signature)
    last = lines[-1] if lines else {"masks": {}, "told": {}, "losses": {}}
    return {
        "entries": total,
        "units": [] if division is None else _units(division, signature),
        "layers": [] if division is None else [{"name": e.name, "units": list(e.units)} for e in division.layers],
        "personal": {c: _personal(run, signature, c, last, division) for c in last["losses"] if _federates(run)},
    }


def entries_of(signature: ModelSignature, names: Iterable[str]) -> dict[str, int]:
    """Return the entries of the floating tensors among ``names``."""
    wanted = set(names)
    return {spec.name: spec.size for spec in signature.tensors if spec.name in wanted and spec.is_floating}


def _federates(run: Run) -> bool:
    return run.chosen.name not in (CENTRALISED, "local")


def _units(division: Division, signature: ModelSignature) -> list[dict[str, Any]]:
    kinds = {spec.name: spec.module for spec in signature.tensors}
    rows = zip(division.names, division.sizes, division.units, strict=True)
    return [
        {"name": name, "entries": int(size), "module": kinds.get(unit[0], ""), "tensors": list(unit)}
        for name, size, unit in rows
    ]


def _personal(
    run: Run, signature: ModelSignature, client: str, last: Line, division: Division | None
) -> dict[str, Any]:
    """Return what a client keeps: by its mask, by its own figure, or by what never travels."""
    mask, ratio = last["masks"].get(client), last["told"].get(RATIO, {}).get(client)
    if division is not None:
        own = np.array([bit == "0" for bit in mask or ""], bool) if mask else np.zeros(len(division.units), bool)
        return {"units": int(own.sum()), "entries": division.personal_entries(own), "share": division.ratio(own)}
    total = sum(entries_of(signature, signature.names).values())
    if ratio is not None:
        return {"units": None, "entries": round(ratio * total), "share": float(ratio)}
    sent = sum(entries_of(signature, run.strategy.travels(signature)).values())
    return {"units": None, "entries": total - sent, "share": 1.0 - sent / max(total, 1)}


def _by_layer(closed: ClosedRound, prefix: str) -> dict[str, dict[str, float]]:
    found = {
        report.robot_id: {
            name[len(prefix) :]: round(value, _DIGITS)
            for name, value in report.scalars.items()
            if name.startswith(prefix)
        }
        for report in closed.reports
    }
    return {robot: scores for robot, scores in found.items() if scores}


def _means(robots: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    layers = dict.fromkeys(layer for scores in robots.values() for layer in scores)
    return {e: round(float(np.mean([s[e] for s in robots.values() if e in s])), _DIGITS) for e in layers}


def _others(closed: ClosedRound) -> dict[str, dict[str, float]]:
    layered = (CKA, CHANCE)
    names = {name for report in closed.reports for name in report.scalars if not name.startswith(layered)}
    return {name: {r.robot_id: r.scalars[name] for r in closed.reports if name in r.scalars} for name in sorted(names)}
