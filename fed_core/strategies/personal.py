"""Methods that average a part of the network and keep the rest on each robot (FedRep, FedBEVT, FedBN).

Which tensors belong to a part is the network's own statement (:attr:`~fed_core.types.ModelSignature.parts`). What is
private never travels: a robot starts every round from its own private tensors, the first one from those of the common
initial model. So does a newcomer; its shared tensors are the fleet's.
"""

from abc import abstractmethod
from collections.abc import Sequence

from fed_core.errors import StrategyError
from fed_core.strategies.base import GLOBAL, Aggregate, ServerState, Update, mean_rows
from fed_core.strategies.fedavg import FedAvg
from fed_core.types import ModelSignature


class Personal(FedAvg):
    """FedAvg over the tensors that travel."""

    @abstractmethod
    def private(self, signature: ModelSignature) -> frozenset[str]:
        """Return the tensors that stay on the robots."""

    def travels(self, signature: ModelSignature) -> frozenset[str]:
        """Return the shared tensors."""
        return frozenset(signature.names) - self.private(signature)

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model; a network without the part is refused here."""
        self.private(state.signature)
        return super().begin(state)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the mean of the shared tensors."""
        travels, outcome = self.travels(state.signature), super().aggregate(updates, state)
        rows = ((name, row) for name, row in mean_rows(updates, state, GLOBAL) if name in travels)
        return Aggregate(rows=rows, plans=outcome.plans, models=outcome.models, memory=outcome.memory)


class PersonalParts(Personal):
    """What stays are parts that the network names."""

    @abstractmethod
    def private_parts(self) -> tuple[str, ...]:
        """Return the names of the parts that stay on the robots."""

    def private(self, signature: ModelSignature) -> frozenset[str]:
        """Return the tensors of these parts."""
        parts = [part_of(signature, part, type(self).__name__.lower()) for part in self.private_parts()]
        return frozenset(name for part in parts for name in part)


def part_of(signature: ModelSignature, part: str, strategy: str) -> tuple[str, ...]:
    """Return the tensors of a part; a network that names none is a :class:`StrategyError`."""
    names = signature.parts.get(part, ())
    if not names:
        text = f"{strategy} needs to know the {part} layers, but the network {signature.architecture!r} names none"
        raise StrategyError(f"{text}; give it a method {part}_modules() or take another strategy")
    return names
