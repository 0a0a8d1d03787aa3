from pathlib import Path

import numpy as np
import pytest

from fed_core.strategies.base import GLOBAL, LocalState, RobotInfo, RobotPlan, ServerState, Strategy, Update
from fed_core.strategies.feddyn import FedDyn
from fed_core.strategies.ledger import Ledger, learned, recall, remember, wide
from fed_core.strategies.scaffold import Scaffold
from fed_core.types import Json, Memory, ModelSignature, TensorSpec
from fed_core.wire.codec import load_memory, save_memory
from tests.core.strategies.harness import SIGNATURE, through_disk


def server(memory: Memory, *robot_ids: str, number: int = 4, plans: dict[str, RobotPlan] | None = None) -> ServerState:
    robots = {r: RobotInfo(r, 10) for r in robot_ids}
    return ServerState(number, robots, memory, {}, SIGNATURE, plans or {})


def robot(memory: Memory, **values: Json) -> LocalState:
    return LocalState(None, {}, memory, {}, values, 1)  # type: ignore[arg-type]


def test_rounds_that_counted_reach_the_plans() -> None:
    ledger = Ledger().after(["bob"], 2).after(["ana"], 3)
    again = Ledger.of(server(through_disk(ledger.to_memory()), "ana", "bob", "cho"))
    assert again == ledger
    state = server(Memory(), "ana", number=3)
    assert ledger.values("ana", state) == {"round": 4, "counted": 3}
    assert ledger.values("bob", state) == {"round": 4, "counted": 2}
    assert ledger.values("cho", state) == {"round": 4, "counted": 0}


def test_it_starts_anew_when_a_robot_that_counted_left() -> None:
    memory = Ledger({"ana": 3, "bob": 2}).to_memory()
    assert Ledger.of(server(memory, "ana", "bob")).counted == {"ana": 3, "bob": 2}
    assert Ledger.of(server(memory, "ana", "cho")).counted == {}
    assert Ledger.of(server(Memory(), "ana")).counted == {}


def test_what_was_built_on_forgotten_sums_is_not_added() -> None:
    plans = {"ana": RobotPlan(("global",), values={"counted": 3}), "cho": RobotPlan(("global",), values={"counted": 0})}
    state = server(Memory(), "ana", "cho", "new", plans=plans)
    assert Ledger({"ana": 3}).accepts("ana", state)
    assert not Ledger().accepts("ana", state)
    assert Ledger().accepts("cho", state)
    assert not Ledger().accepts("new", state)  # it had no plan
    assert not Ledger({"gone": 3}).accepts("gone", server(Memory(), "ana", plans={"gone": plans["ana"]}))


@pytest.mark.parametrize(("counted", "expected"), [(7, 2.0), (5, 1.0), (0, None)])
def test_a_robot_goes_on_from_its_last_round_that_counted(tmp_path: Path, counted: int, expected: float | None) -> None:
    one, two = ({"head.weight": np.full(3, value, np.float32)} for value in (1.0, 2.0))
    save_memory(tmp_path / "memory", remember(robot(Memory(), round=7, counted=5), one, two))
    found = recall(robot(load_memory(tmp_path / "memory"), round=9, counted=counted))
    assert {name: array.tolist() for name, array in found.items()} == (
        {} if expected is None else {"head.weight": [expected] * 3}
    )


def test_a_robot_that_lost_its_memory_goes_on_from_nothing() -> None:
    assert recall(robot(Memory(), round=9, counted=7)) == {}


def test_only_floating_parameters_are_learned() -> None:
    assert learned(SIGNATURE) == {"conv.weight", "conv.bias", "bn.weight", "attention.bias"}
    assert [wide(np.dtype(name)).name for name in ("float16", "float32", "float64")] == [
        "float32",
        "float32",
        "float64",
    ]


@pytest.mark.parametrize("strategy", [FedDyn(), Scaffold(eta_g=0.5)])
def test_a_parameter_of_one_number_stays_an_array(strategy: Strategy) -> None:
    signature = ModelSignature("scale", (TensorSpec("scale", (), "float32"),))
    plans = {"ana": RobotPlan((GLOBAL,), values={"counted": 0})}
    blobs = {GLOBAL: {"scale": np.array(1, np.float32)}}
    state = ServerState(1, {"ana": RobotInfo("ana", 10)}, Memory(), blobs, signature, plans)
    update = Update("ana", 10, {"scale": np.array(3, np.float32)}, {"scale": np.array(4, np.float32)})
    ((name, row),) = strategy.aggregate([update], state).rows
    expected = (
        {"start": 5.0, "drift": 2.0, "global": 3.0} if isinstance(strategy, FedDyn) else {"control": 4.0, "global": 2.0}
    )
    assert name == "scale" and {key: (type(a), a.shape, a.dtype.name, float(a)) for key, a in row.items()} == {
        key: (np.ndarray, (), "float32", value) for key, value in expected.items()
    }
