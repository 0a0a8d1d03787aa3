"""A strategy around another one: it hands on everything that it does not change itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fed_core.config import option
from fed_core.errors import ConfigError
from fed_core.strategies.base import (
    Aggregate,
    LocalRule,
    RobotInfo,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    make_strategy,
)
from fed_core.types import Array, Choice, Descriptor, Json, Memory, ModelSignature, Tensors


@dataclass(frozen=True)
class Wrapper(Strategy):
    """Keys and memory are the inner strategy's."""

    inner: str = option("fedavg", help="strategy that it wraps")
    inner_options: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "options of that strategy"})
    _strategy: Strategy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = type(self).__name__.lower()
        if self.inner == name:
            raise ConfigError(f"{name} cannot wrap itself; set inner to another strategy")
        inner = make_strategy(self.inner, self.inner_options)
        object.__setattr__(self, "_strategy", inner)  # frozen, but derived from the fields
        object.__setattr__(self, "descriptor", inner.descriptor)
        object.__setattr__(self, "combines", inner.combines)

    def check_training(self, train: Mapping[str, Json]) -> None:
        """Ask the inner strategy."""
        self._strategy.check_training(train)

    def begin(self, state: ServerState) -> Aggregate:
        """Ask the inner strategy."""
        return self._strategy.begin(state)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Ask the inner strategy."""
        return self._strategy.aggregate(updates, state)

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Ask the inner strategy."""
        return self._strategy.join(robot, state)

    def choose(
        self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory, robot_id: str = ""
    ) -> Choice:
        """Ask the inner strategy."""
        return self._strategy.choose(descriptor, models, serving, robot_id)

    def travels(self, signature: ModelSignature) -> frozenset[str]:
        """Ask the inner strategy."""
        return self._strategy.travels(signature)

    def units(self, signature: ModelSignature) -> tuple[tuple[str, ...], ...]:
        """Ask the inner strategy."""
        return self._strategy.units(signature)

    def uploads(self, signature: ModelSignature, mask: Array | None = None) -> frozenset[str]:
        """Ask the inner strategy."""
        return self._strategy.uploads(signature, mask)

    def blend(self, models: Mapping[str, Tensors], signature: ModelSignature) -> Iterator[tuple[str, Array]]:
        """Ask the inner strategy."""
        return self._strategy.blend(models, signature)

    def merge(self, name: str, own: Array | None, loaded: Array | None, memory: Memory) -> Array:
        """Ask the inner strategy."""
        return self._strategy.merge(name, own, loaded, memory)

    def local_rule(self) -> LocalRule:
        """Ask the inner strategy."""
        return self._strategy.local_rule()


def unwrapped(strategy: Strategy) -> Strategy:
    """Return the strategy inside of all wrappers."""
    while isinstance(strategy, Wrapper):
        strategy = strategy._strategy
    return strategy
