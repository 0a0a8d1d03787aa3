"""Names of methods for people, which runs make up the main table, and which FedCKA setting is the headline."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

from fed_core.errors import ConfigError, FedError
from fed_core.strategies.base import strategies
from fed_core.study.config import parse_label
from fed_core.study.detection import headline as choice
from fed_core.study.report.results import REFERENCES, Study, strategy_of

FEDAVG, FEDCKA, LOCAL = "fedavg", choice.STRATEGY, "local"
#: Methods that keep single elements of the weights.
ELEMENT_MASKED = ("fedselect", "fedmc")

_NAMES = {
    "centralised": "Centralised",
    "fedavg": "FedAvg",
    "fedbn": "FedBN",
    "fedcka": "FedCKA",
    "feddyn": "FedDyn",
    "fedmc": "FedMC",
    "fedprox": "FedProx",
    "fedrep": "FedRep",
    "fedselect": "FedSelect",
    "local": "Own domain only",
    "pcgrad": "PCGrad",
}
#: Options of FedCKA that its name already tells.
_RULE = ("rule", "tau", "rho", "start_round")
#: Options whose value alone says what it is; it is told even where it is the default.
_PLAIN = ("mode", "estimator")


@cache
def name_of(label: str) -> str:
    """Return the method's name for people, with the options that are not the defaults; FedCKA's with its setting."""
    found = _parsed(label)
    if found is None:
        return label
    strategy, options = found
    changed = {k: v for k, v in options.items() if k in _PLAIN or not _is_default(strategy, k, v)}
    words = [_NAMES.get(strategy, strategy)]
    if strategy == FEDCKA:
        words += _setting(options)
        changed = {key: value for key, value in changed.items() if key not in _RULE}
    words += [_text(value) if key in _PLAIN else f"{key} = {_text(value)}" for key, value in changed.items()]
    return ", ".join(words)


def shown(study: Study, model: str, label: str) -> str:
    """Return the name, with a mark behind the headline setting."""
    return f"{name_of(label)} (headline)" if label == headline(study, model) else name_of(label)


@cache
def is_setting(label: str) -> bool:
    """Tell whether a label is a FedCKA setting of the grid; one that cannot be read is none."""
    return _parsed(label) is not None and choice.is_setting(label)


def settings(study: Study, model: str) -> list[str]:
    """Return the finished FedCKA settings of the grid."""
    return [label for label in study.finished(model) if is_setting(label)]


def headline(study: Study, model: str) -> str | None:
    """Return the FedCKA setting that held-out training scenes choose; None before any has a score."""
    results = [cell.result for key, cell in study.cells.items() if key[0] == model and is_setting(key[1])]
    return choice.headline(results, study.labels)


def planned(study: Study, model: str) -> list[str]:
    """Return the federated methods of the main table but FedCKA, finished or not."""
    changed = _ablations(study, model)
    wanted = {label for m, label, _ in (*study.cells, *study.missing) if m == model}
    others = [label for label in study.labels if label in wanted and label not in (*REFERENCES, *changed)]
    return [label for label in others if strategy_of(label) != FEDCKA]


def federated(study: Study, model: str) -> list[str]:
    """Return the finished federated methods of the main table; of FedCKA the headline, or all while there is none."""
    chosen = headline(study, model)
    ours = settings(study, model) if chosen is None else [chosen]
    return [*(label for label in planned(study, model) if study.of(model, label)), *ours]


def references(study: Study, model: str) -> list[str]:
    """Return the finished references, which are no federation."""
    return [label for label in study.finished(model) if label in REFERENCES]


def main(study: Study, model: str) -> list[str]:
    """Return references, then federated methods."""
    return [*references(study, model), *federated(study, model)]


def changed(study: Study, model: str) -> dict[str, list[str]]:
    """Return the finished runs with changed options, by the method that they change least; "" without one."""
    found: dict[str, list[str]] = {}
    known = [*planned(study, model), *(label for label in study.labels if is_setting(label))]
    for label in study.finished(model):
        if label not in REFERENCES and label not in known:
            found.setdefault(_base(label, known), []).append(label)
    return found


def _ablations(study: Study, model: str) -> set[str]:
    """Return the labels that the study file tries beside the main table."""
    options = study.plan.get("options") or {}
    tried = (options.get("ablations") or {}).get("strategies") or ()
    own = ((options.get("models") or {}).get(model) or {}).get("strategies") or ()
    return set(map(str, tried)) - set(map(str, own))


def _base(label: str, known: list[str]) -> str:
    """Return the label of the same strategy with the fewest different options; the first of equals."""
    same = [other for other in known if strategy_of(other) == strategy_of(label)]
    return min(same, key=lambda other: len(_options(label).items() ^ _options(other).items()), default="")


def _options(label: str) -> dict[str, str]:
    found = _parsed(label)
    if found is None:
        return {}
    strategy, options = found
    return {key: str(value) for key, value in options.items() if not _is_default(strategy, key, value)}


def _parsed(label: str) -> tuple[str, dict[str, Any]] | None:
    try:
        return parse_label(label)
    except ConfigError:
        return None


def _setting(options: Mapping[str, Any]) -> list[str]:
    """Return what tells a FedCKA setting: its rule's parameter, and the first masked round where the label has one."""
    if options.get("rule") == "percentage" or ("rho" in options and "tau" not in options):
        words = [f"ρ = {_text(options['rho'])}"] if "rho" in options else ["percentage"]
    else:
        words = [f"τ = {_text(options['tau'])}"] if "tau" in options else []
    if options.get("start_round"):
        words = [f"{' '.join(words)} from round {options['start_round']}".strip()]
    return words


def _is_default(strategy: str, option: str, value: Any) -> bool:
    try:
        found: Any = strategies.get(strategy)
    except FedError:
        return False
    return any(field.name == option and field.default == value for field in dataclasses.fields(found))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
