"""Names of methods for people, and which runs are a method of the main table or one with a changed option."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from fed_core.errors import ConfigError
from fed_core.study.config import parse_label
from fed_core.study.report.results import REFERENCES, Study

FEDBEVT, FEDDWA, SCAFFOLD, FEDPROX = "fedbevt", "feddwa", "scaffold", "fedprox"
FEDAVG_DALOSS, FEDBEVT_DALOSS, FEDDWA_DALOSS = (f"daloss:inner={inner}" for inner in ("fedavg", FEDBEVT, FEDDWA))
DIRECTION = "dwa_direction"
#: Direction of FedDWA's weights without the option.
INCREASING = "increasing"

_NAMES = {
    "centralised": "Centralised",
    "fedavg": "FedAvg",
    "fedbevt": "FedBEVT",
    "feddwa": "FedDWA",
    "feddyn": "FedDyn",
    "fedprox": "FedProx",
    "fedrep": "FedRep",
    "fedtp": "FedTP",
    "local": "Local",
    "scaffold": "SCAFFOLD",
}


@dataclass(frozen=True)
class Method:
    """What a label stands for.

    Attributes:
        label: as in the study file.
        base: label of the same method without these options; of one without any, the label itself.
        wrapped: label of the strategy inside, where it is DALoss on one.
        name: for people, such as "FedDWA + DALoss, inverse".
        options: those that differ from the base, the wrapped strategy's among them.
    """

    label: str
    base: str
    name: str
    wrapped: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_main(self) -> bool:
        """Whether it is a method as the study has it, not one with changed options."""
        return not self.options

    @property
    def direction(self) -> str:
        """Direction of FedDWA's weights, where no other option is changed; "" else."""
        if self.base not in (FEDDWA, FEDDWA_DALOSS) or set(self.options) - {DIRECTION}:
            return ""
        return str(self.options.get(DIRECTION, INCREASING))


@cache
def method_of(label: str) -> Method:
    """Return the method behind a label; a label that cannot be read stands for itself."""
    try:
        strategy, options = parse_label(label)
    except ConfigError:
        return Method(label, label, label)
    if strategy != "daloss":
        return _named(Method(label, strategy, _NAMES.get(strategy, strategy), "", options))
    inner = str(options.pop("inner", "fedavg"))
    wrapped = options.pop("inner_options", None)
    changed = {**options, **(wrapped if isinstance(wrapped, Mapping) else {})}
    return _named(Method(label, f"daloss:inner={inner}", f"{_NAMES.get(inner, inner)} + DALoss", inner, changed))


def _named(method: Method) -> Method:
    """Return the method with its changes behind its name; one without changes is its own base."""
    changes = [_change(key, value) for key, value in method.options.items()]
    return replace(method, name=", ".join([method.name, *changes]), base=method.base if changes else method.label)


def _change(key: str, value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if key == DIRECTION else f"{key} = {text}"


def name_of(label: str) -> str:
    """Return the method's name for people."""
    return method_of(label).name


def planned(study: Study, model: str) -> list[str]:
    """Return the main methods that are a federation, finished or not: without changed options, and for every seed."""
    counts = Counter(label for m, label, _ in (*study.cells, *study.missing) if m == model)
    most = max(counts.values(), default=0)
    whole = [label for label in study.labels if counts[label] == most]
    return [label for label in whole if method_of(label).is_main and label not in REFERENCES]


def federated(study: Study, model: str) -> list[str]:
    """Return those main methods that have a finished run."""
    return [label for label in planned(study, model) if study.of(model, label)]


def references(study: Study, model: str) -> list[str]:
    """Return the finished references."""
    return [label for label in study.finished(model) if label in REFERENCES]


def directions(study: Study, model: str) -> dict[str, dict[str, str]]:
    """Return the finished labels by base and direction of the weights, of bases with several directions."""
    found: dict[str, dict[str, str]] = {}
    for label in study.finished(model):
        method = method_of(label)
        if method.direction:
            found.setdefault(method.base, {}).setdefault(method.direction, label)
    return {base: labels for base, labels in found.items() if len(labels) > 1}
