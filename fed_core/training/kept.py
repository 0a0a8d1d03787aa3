"""What a robot kept of its last round, read back; damaged files cost it its own layers and never the round."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fed_core.errors import FedError, Refusal, RefusedError, StoreError, StrategyError, WireError
from fed_core.strategies.base import Strategy
from fed_core.types import Array, Memory, ModelSignature, Tensors
from fed_core.wire.codec import load_memory, open_tensors, spec_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """What a robot kept.

    Attributes:
        own: its tensors after its last training; empty where it kept none.
        memory: what the strategy's robot half remembered.
        damaged: files were there and cannot be used.
    """

    own: Tensors = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    damaged: bool = False


@dataclass(frozen=True)
class Beginning:
    """What a robot's round starts from.

    Attributes:
        weights: of the network.
        memory: for the strategy's robot half.
        loaded: names of the tensors that came from the fleet.
        damaged: what the robot had kept is lost.
    """

    weights: dict[str, Array]
    memory: Memory
    loaded: frozenset[str]
    damaged: bool


def begin_round(start: Mapping[str, Any], strategy: Strategy, signature: ModelSignature, built: Tensors) -> Beginning:
    """Return the plan's blend, merged with the robot's own tensors.

    Where the robot's files are damaged (or the strategy cannot use its memory) one line says so, and the robot goes on
    from the fleet's tensors, with nothing of its own and nothing remembered.

    Args:
        start: paths of what is loaded, of the robot's own tensors and of its memory
            (:func:`fed_core.requests.starting_point`).
        strategy: blends and merges.
        signature: of the network.
        built: the initial model, which is a robot's own before its first round.
    """
    models = {key: open_tensors(Path(path)) for key, path in start["load"].items()}
    loaded = dict(strategy.blend(models, signature)) if models else {}
    kept = read_kept(start, signature)
    if not kept.damaged:
        try:
            weights = _merged(strategy, signature, kept.own or built, loaded, kept.memory)
            return Beginning(weights, kept.memory, frozenset(loaded), False)
        except StrategyError as err:
            if not start["memory"]:
                raise
            _tell(start["memory"], err)
    weights = _merged(strategy, signature, {**built, **loaded}, loaded, Memory())
    return Beginning(weights, Memory(), frozenset(loaded), True)


def served_weights(
    paths: Mapping[str, Path], kept: Mapping[str, str], strategy: Strategy, signature: ModelSignature, *, no_own: str
) -> dict[str, Array]:
    """Return the mean of files, merged with what a robot keeps to itself, as its training does.

    Args:
        paths: files that are averaged, by key.
        kept: paths of the robot's own tensors and its memory (:func:`fed_core.requests.kept_files`); empty where no
            robot's model is wanted.
        strategy: blends and merges.
        signature: of the network.
        no_own: what to do where the method keeps tensors on the robots and there are no own ones.

    Raises:
        StrategyError: there are none; one line that ends with ``no_own``.
    """
    start = {"own": "", "memory": "", **kept, "load": {key: str(path) for key, path in paths.items()}}
    if not start["own"]:
        sent = {name for path in paths.values() for name in open_tensors(path)}
        missing = [name for name in signature.names if name not in sent]
        if missing:
            keeps = f"{type(strategy).__name__.lower()} keeps {len(missing)} tensors ({missing[0]}, ...) on each robot"
            raise StrategyError(f"{keeps}; {no_own}")
    return begin_round(start, strategy, signature, {}).weights


def _merged(
    strategy: Strategy, signature: ModelSignature, own: Tensors, loaded: Tensors, memory: Memory
) -> dict[str, Array]:
    return {name: strategy.merge(name, own.get(name), loaded.get(name), memory) for name in signature.names}


def read_kept(start: Mapping[str, Any], signature: ModelSignature) -> Kept:
    """Return what the robot kept; one damaged file makes all of it unusable, since they belong together."""
    path = ""
    try:
        path = start["own"]
        own: Tensors = _fitting(open_tensors(Path(path)), signature) if path else {}
        path = start["memory"]
        memory = load_memory(Path(path)) if path else Memory()
    except (WireError, StoreError) as err:
        _tell(path, err)
        return Kept(damaged=True)
    return Kept(own, memory)


def read_optimizer(path: str, signature: ModelSignature) -> Tensors:
    """Return the optimiser's tensors by "kind/parameter"; a damaged file is told and counts as none."""
    if not path:
        return {}
    shapes = {spec.name: spec.shape for spec in signature.tensors}
    try:
        tensors = open_tensors(Path(path))
        for entry in tensors:
            kind, _, name = entry.partition("/")
            shape = tensors[entry].shape
            if kind != "scaler" and (name not in shapes or shape not in ((), shapes[name])):
                raise RefusedError(f"{entry!r} {shape} fits no parameter of the model", Refusal.WRONG_TENSORS)
    except (WireError, StoreError) as err:
        _log.warning("%s cannot be used (%s); the optimiser starts anew", path, err)
        return {}
    return tensors


def _fitting(tensors: Tensors, signature: ModelSignature) -> Tensors:
    wanted = {spec.name: spec for spec in signature.tensors}
    for name in tensors:
        got, want = spec_of(name, tensors[name]), wanted.get(name)
        if want is None or (got.shape, got.dtype) != (want.shape, want.dtype):
            raise RefusedError(f"tensor {name!r} {got.dtype} {got.shape} is not the model's", Refusal.WRONG_TENSORS)
    return tensors


def _tell(path: str, err: FedError) -> None:
    text = "%s cannot be used (%s); the robot starts from the global layers and remembers nothing"
    _log.warning(text, path, err)
