"""Keeps what robots remember in step with what the aggregator added up (FedDyn, SCAFFOLD).

Both methods add what a robot did in a round to a memory on that robot *and* to a sum on the aggregator. An update can
get lost or come too late, though, and then the robot would have counted a round that the aggregator has not. So a robot
keeps its memory as it was before its last round, and as it is after it; the plan tells which of its rounds was the last
that counted, and the robot goes on from there. A robot that never counted goes on from nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fed_core.strategies.averaging import Rule, rule_of
from fed_core.strategies.base import LocalState, ServerState
from fed_core.types import Array, Json, Memory, ModelSignature, Tensors

if TYPE_CHECKING:
    from torch import Tensor

_ROUND, _COUNTED = "round", "counted"
_BEFORE, _AFTER = "before/", "after/"


@dataclass(frozen=True)
class Ledger:
    """What the aggregator counted.

    Attributes:
        counted: last round that counted, by robot; robots that never did are missing.
    """

    counted: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, state: ServerState) -> "Ledger":
        """Return the ledger as it was before the ending round.

        It is empty, and every sum starts anew, when a robot that counted has left the fleet: what it had added cannot
        be taken back, and would pull the model its way for ever.
        """
        found = state.memory.values.get(_COUNTED)
        rows = found.items() if isinstance(found, dict) else ()
        counted = {robot_id: number for robot_id, number in rows if isinstance(number, int)}
        return cls(counted if set(counted) <= set(state.robots) else {})

    def accepts(self, robot_id: str, state: ServerState) -> bool:
        """Tell whether what a robot added in the ending round belongs into the sums.

        It does not where the sums just started anew: the robot still built on what it had before.
        """
        plan = state.plans.get(robot_id)
        if plan is None or robot_id not in state.robots:
            return False
        return plan.values.get(_COUNTED, 0) == self.counted.get(robot_id, 0)

    def after(self, robot_ids: Iterable[str], number: int) -> "Ledger":
        """Return the ledger after round ``number`` counted for some robots."""
        return Ledger({**self.counted, **dict.fromkeys(robot_ids, number)})

    def to_memory(self) -> Memory:
        """Return JSON; :meth:`of` reads it."""
        return Memory(values={_COUNTED: dict(sorted(self.counted.items()))})

    def values(self, robot_id: str, state: ServerState) -> dict[str, Json]:
        """Return what the plan of the next round tells a robot."""
        return {_ROUND: state.round + 1, _COUNTED: self.counted.get(robot_id, 0)}


def recall(state: LocalState) -> dict[str, Array]:
    """Return the robot's tensors as of its last round that counted; empty where none did."""
    counted = state.values.get(_COUNTED, 0)
    if not counted:
        return {}
    prefix = _AFTER if state.memory.values.get(_ROUND) == counted else _BEFORE
    found = {name: array for name, array in state.memory.tensors.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): array for name, array in found.items()}


def remember(state: LocalState, before: Tensors, after: Tensors) -> Memory:
    """Return the memory of a robot that went from ``before`` to ``after`` in this round."""
    tensors = {_BEFORE + name: array for name, array in before.items()}
    return Memory(tensors | {_AFTER + name: array for name, array in after.items()}, {_ROUND: state.values[_ROUND]})


def learned(signature: ModelSignature) -> frozenset[str]:
    """Return the tensors that gradients move: floating parameters, never buffers."""
    return frozenset(spec.name for spec in signature.tensors if spec.trainable and rule_of(spec) is Rule.MEAN)


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that a sum over tensors of ``dtype`` is kept in: float32 at least."""
    return np.result_type(dtype, np.float32)


def widened(tensor: "Tensor") -> "Tensor":
    """Return a tensor in float32, or in float64 where it is that."""
    return tensor if tensor.element_size() == 8 else tensor.float()


def to_array(tensor: "Tensor") -> Array:
    """Return a copy of a tensor as :func:`widened`, on the CPU."""
    return np.array(widened(tensor.detach()).cpu().numpy())
