"""From tensors under published names to tensors under ours."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from fed_models.checkpoints.names import NameMap

#: What wrappers of PyTorch put in front of every name.
_WRAPPERS = ("module.", "model.")


class Action(str, Enum):
    """What became of a key."""

    TAKEN = "taken"
    RENAMED = "renamed"
    SPLIT = "split"
    FOLDED = "folded"
    SKIPPED = "skipped"
    MISSING = "missing"


class KeyReport(NamedTuple):
    """One line of the account.

    Attributes:
        action: what became of it.
        source: published name; empty for what is missing.
        targets: our names.
        note: why it was skipped.
    """

    action: Action
    source: str
    targets: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        """Return one line of text."""
        ours = " ".join(self.targets)
        parts = (self.action.value, self.source, f"-> {ours}" if ours and self.source else ours, self.note)
        return "  ".join(part for part in parts if part)


@dataclass(frozen=True)
class Conversion:
    """What a checkpoint gave.

    Attributes:
        tensors: by our names, in the network's order.
        keys: one entry per published key, then one per tensor that is missing.
    """

    tensors: Mapping[str, Tensor]
    keys: tuple[KeyReport, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Tensors of the network that the checkpoint does not have."""
        return tuple(key.targets[0] for key in self.keys if key.action is Action.MISSING)

    def counts(self) -> dict[str, int]:
        """Return how many keys had each action."""
        counted = Counter(key.action for key in self.keys)
        return {action.value: counted[action] for action in Action}


def convert(source: Mapping[str, Tensor], names: NameMap, wanted: Mapping[str, Tensor]) -> Conversion:
    """Rename, split and fold a published state; every key is accounted for.

    Args:
        source: published tensors.
        names: how their names map to ours.
        wanted: our state, for names, shapes and dtypes; its values are not read.
    """
    found: dict[str, Tensor] = {}
    reports: dict[str, KeyReport] = {}
    # A fold changes a tensor that must be there before.
    for key in sorted(source, key=lambda key: _stripped(key) in names.folds):
        reports[key] = _move(key, source[key], names, wanted, found)
    missing = [KeyReport(Action.MISSING, "", (name,)) for name in wanted if name not in found]
    tensors = {name: found[name] for name in wanted if name in found}
    return Conversion(tensors, (*(reports[key] for key in source), *missing))


def _move(
    key: str, tensor: Tensor, names: NameMap, wanted: Mapping[str, Tensor], found: dict[str, Tensor]
) -> KeyReport:
    """Put one published tensor into ``found``, and say what was done."""
    name = _stripped(key)
    why = names.skips.get(name) or names.skips.get(name.rpartition(".")[2])
    if why:
        return KeyReport(Action.SKIPPED, key, note=why)
    if name in names.folds:
        return _fold(key, tensor, names.folds[name], found)
    targets = tuple(_targets(name, names))
    if not targets:
        return KeyReport(Action.SKIPPED, key, note="the network has no counterpart")
    if len(tensor.shape) == 0 and len(targets) > 1 or len(targets) > 1 and tensor.shape[0] % len(targets):
        return KeyReport(Action.SKIPPED, key, targets, f"shape {list(tensor.shape)} cannot be split")
    parts = tensor.chunk(len(targets)) if len(targets) > 1 else (tensor,)
    problems = [_problem(target, part, wanted, found) for target, part in zip(targets, parts, strict=True)]
    if any(problems):
        return KeyReport(Action.SKIPPED, key, targets, next(filter(None, problems)))
    for target, part in zip(targets, parts, strict=True):
        found[target] = part.to(wanted[target].dtype)
    if len(targets) > 1:
        return KeyReport(Action.SPLIT, key, targets)
    return KeyReport(Action.TAKEN if targets[0] == key else Action.RENAMED, key, targets)


def _targets(name: str, names: NameMap) -> Iterator[str]:
    module, _, leaf = name.rpartition(".")
    if name in names.tensors:
        yield names.tensors[name]
    elif module in names.modules:
        yield f"{names.modules[module]}.{leaf}"
    else:
        yield from (f"{target}.{leaf}" for target in names.splits.get(module, ()))


def _problem(target: str, part: Tensor, wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str:
    if target not in wanted:
        return "the network has no counterpart"
    if target in found:
        return "another key gave this tensor before"
    if part.shape != wanted[target].shape:
        return f"shape {list(part.shape)}, the network needs {list(wanted[target].shape)}"
    return ""


def _fold(key: str, tensor: Tensor, target: str, found: dict[str, Tensor]) -> KeyReport:
    if target not in found or found[target].shape != tensor.shape:
        return KeyReport(Action.SKIPPED, key, (target,), "there is no mean of this shape to move")
    found[target] = torch.sub(found[target], tensor.to(found[target].dtype))
    return KeyReport(Action.FOLDED, key, (target,))


def _stripped(key: str) -> str:
    for wrapper in _WRAPPERS:
        key = key.removeprefix(wrapper)
    return key
