"""The contract fails for strategies that break it: one mistake each, and the check that must find it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from fed_core.config import option
from fed_core.strategies.averaging import Mixer
from fed_core.strategies.base import GLOBAL, Aggregate, ServerState, Strategy, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.testing.strategy import StrategyContract
from fed_core.types import Memory


@dataclass(frozen=True)
class Honest(FedAvg):
    pass


@dataclass(frozen=True)
class NoHelp(FedAvg):
    mu: float = 0.1


class Loose(FedAvg):
    paper: ClassVar[str] = ""


@dataclass(frozen=True)
class TupleOfBytes(FedAvg):
    key: bytes = option(b"a", help="cannot be written to a file")


@dataclass(frozen=True)
class ByArrival(FedAvg):
    """Adds up in the order of arrival."""

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        good = super().aggregate(updates, state)
        sources = {update.robot_id: update.weights for update in updates}
        shares = np.arange(1.0, len(updates) + 1) / sum(range(1, len(updates) + 1))
        return replace(good, rows=Mixer(state.signature).rows(sources, {GLOBAL: shares}))


@dataclass(frozen=True)
class Shrinking(FedAvg):
    """Its weights sum to 0.9."""

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        good = super().aggregate(updates, state)
        return replace(good, rows=((n, {k: (a * 0.9).astype(a.dtype) for k, a in row.items()}) for n, row in good.rows))


@dataclass(frozen=True)
class Doubles(FedAvg):
    """Leaves everything in float64."""

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        good = super().aggregate(updates, state)
        return replace(good, rows=((n, {k: a.astype(np.float64) for k, a in row.items()}) for n, row in good.rows))


@dataclass(frozen=True)
class Forgetful(FedAvg):
    """Plans only for those who reported."""

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        good = super().aggregate(updates, state)
        return replace(good, plans={update.robot_id: good.plans[update.robot_id] for update in updates})


@dataclass(frozen=True)
class Overwriting(FedAvg):
    """Writes into what the robots sent."""

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        for update in updates:
            update.weights["conv.weight"][...] = 0
        return super().aggregate(updates, state)


@dataclass(frozen=True)
class Dicing(FedAvg):
    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        return replace(super().aggregate(updates, state), log={"luck": random.random()})


@dataclass(frozen=True)
class Pickling(FedAvg):
    """Remembers what no file of ours can hold."""

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        return replace(super().aggregate(updates, state), memory=Memory(values={"seen": {1, 2}}))  # type: ignore[dict-item]


@dataclass(frozen=True)
class HalfUnits(FedAvg):
    def units(self, signature: Any) -> tuple[tuple[str, ...], ...]:
        return (("conv.weight", "conv.bias"), ("conv.bias",))


@dataclass(frozen=True)
class Trusting(FedAvg):
    """Takes the first robot's index table, whatever the others have."""

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        first = updates[0].weights["attention.index"]
        same = [replace(update, weights={**update.weights, "attention.index": first}) for update in updates]
        return super().aggregate(same, state)


def contract(broken: type[Strategy]) -> StrategyContract:
    class Case(StrategyContract):
        name = "mine"

        def make(self) -> Strategy:
            return broken()

    return Case()


@pytest.mark.parametrize(
    ("broken", "check", "told"),
    [
        (NoHelp, "is_told_in_the_list_of_strategies", r"options without a help text: \['mu'\]"),
        (Loose, "is_told_in_the_list_of_strategies", "Loose.paper is empty; name authors, year and link"),
        (TupleOfBytes, "options_survive_a_file", "not JSON serializable"),
        (ByArrival, "order_of_arrival_changes_no_bit", "Arrays are not equal"),
        (Shrinking, "robots_that_agree_change_nothing", "Not equal to tolerance"),
        (Doubles, "models_hold_the_travelling_tensors", "'conv.weight' of model 'global' is .*float64"),
        (Forgetful, "every_robot_has_a_plan_of_existing_keys", "plans are for .*'bob', 'eva'.*robots are .*'ana'"),
        (Overwriting, "inputs_stay_untouched", "Arrays are not equal"),
        (Dicing, "equal_runs_end_in_equal_bits", "logs differ"),
        (Pickling, "goes_on_bit_equal_after_a_restart", "not JSON serializable"),
        (HalfUnits, "masks_switch_whole_units", "a tensor is in two units"),
        (Trusting, "robots_that_differ_in_a_constant_are_named", "expected a StrategyError, but nothing was raised"),
    ],
)
def test_a_mistake_is_found(broken: type[Strategy], check: str, told: str) -> None:
    getattr(contract(Honest), f"test_{check}")()
    with pytest.raises((AssertionError, TypeError), match=told):
        getattr(contract(broken), f"test_{check}")()
