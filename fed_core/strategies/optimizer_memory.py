"""Carries an optimiser's state (Adam's moments) over to the robot's next round.

The training loop makes a new optimiser in every round. With ``train.optimizer_state`` it puts the old state in before
the first step and takes it out after the last; a rule that wants so whatever that option says does it by itself, and
keeps the tensors in its memory.
"""

from typing import TYPE_CHECKING

import numpy as np

from fed_core.strategies.base import LocalState
from fed_core.types import Array, Memory, Tensors

if TYPE_CHECKING:
    import torch

_PREFIX = "optimizer/"


def restore_optimizer(state: LocalState) -> None:
    """Put what :func:`optimizer_state` returned last round back; a parameter without it starts anew."""
    found = {entry: array for entry, array in state.memory.tensors.items() if entry.startswith(_PREFIX)}
    put_back(state, {entry.removeprefix(_PREFIX): array for entry, array in found.items()})


def optimizer_state(state: LocalState) -> dict[str, Array]:
    """Return the optimiser's tensors for the robot's memory."""
    return {_PREFIX + entry: array for entry, array in taken_out(state).items()}


def put_back(state: LocalState, tensors: Tensors) -> None:
    """Put the optimiser's tensors by "kind/parameter" back; a parameter without any starts anew."""
    import torch

    optimizer = _optimizer(state)
    parameters = dict(state.model.named_parameters())
    for entry, array in tensors.items():
        key, _, name = entry.partition("/")
        parameter = parameters[name]
        value = torch.tensor(np.asarray(array))  # a counter of steps stays on the CPU
        optimizer.state[parameter][key] = value.to(parameter.device) if value.shape == parameter.shape else value


def taken_out(state: LocalState) -> dict[str, Array]:
    """Return the optimiser's tensors by "kind/parameter".

    On the CPU they share the optimiser's memory, which ends with the round.
    """
    optimizer = _optimizer(state)
    found = {}
    for name, parameter in state.model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if hasattr(value, "detach"):
                found[f"{key}/{name}"] = value.detach().cpu().numpy()
    return found


def with_optimizer(memory: Memory, state: LocalState) -> Memory:
    """Return ``memory`` with the optimiser's tensors in it."""
    return Memory({**memory.tensors, **optimizer_state(state)}, memory.values)


def learning_rates(state: LocalState) -> dict[str, float]:
    """Return the learning rate of every parameter in this round."""
    rates = {id(p): float(group["lr"]) for group in _optimizer(state).param_groups for p in group["params"]}
    return {name: rates[id(parameter)] for name, parameter in state.model.named_parameters()}


def _optimizer(state: LocalState) -> "torch.optim.Optimizer":
    if state.optimizer is None:
        raise ValueError("the training loop gave no optimiser")
    return state.optimizer
