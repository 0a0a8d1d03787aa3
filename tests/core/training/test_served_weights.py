"""What of a run is served and exported: the fleet's tensors, and a robot's own where the method keeps some there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fed_core.errors import StrategyError
from fed_core.requests import Installation, kept_files
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.strategies.base import make_strategy
from fed_core.training.kept import served_weights
from fed_core.types import Memory, ModelSignature, TensorSpec
from fed_core.wire.codec import save_memory, write_tensors

SHARED, CAMERA, HEAD = "trunk.weight", "camera.weight", "head.weight"
SIGNATURE = ModelSignature(
    "net",
    tuple(TensorSpec(name, (2,), "float32") for name in (SHARED, CAMERA, HEAD)),
    {"camera": (CAMERA,), "head": (HEAD,)},
)


def file(path: Path, **values: float) -> str:
    """Write tensors of one value each; ``trunk=1.0`` is trunk.weight."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, {f"{name}.weight": np.full(2, value, np.float32) for name, value in values.items()})
    return str(path)


def loaded(path: str, strategy: str = "fedbevt", **kept: str) -> dict[str, float]:
    method = make_strategy(strategy, {})
    found = served_weights({"global": Path(path)}, kept, method, SIGNATURE, no_own="do this")
    return {name: float(array[0]) for name, array in found.items()}


def test_a_robots_own_tensors_take_the_places_that_the_fleets_leave(tmp_path: Path) -> None:
    fleets = file(tmp_path / "global.safetensors", trunk=1.0, head=2.0)
    own = file(tmp_path / "own.safetensors", trunk=70.0, camera=71.0, head=72.0)

    assert loaded(fleets, own=own, memory="") == {SHARED: 1.0, CAMERA: 71.0, HEAD: 2.0}


def test_another_method_keeps_another_part(tmp_path: Path) -> None:
    fleets = file(tmp_path / "global.safetensors", trunk=1.0, camera=2.0)
    own = file(tmp_path / "own.safetensors", trunk=70.0, camera=71.0, head=72.0)

    assert loaded(fleets, "fedrep", own=own) == {SHARED: 1.0, CAMERA: 2.0, HEAD: 72.0}


def test_without_own_tensors_that_are_needed_one_line_says_what_to_do(tmp_path: Path) -> None:
    fleets = file(tmp_path / "global.safetensors", trunk=1.0, head=2.0)

    with pytest.raises(StrategyError, match=r"^fedbevt keeps 1 tensors \(camera.weight, ...\) on each robot; do this$"):
        loaded(fleets)


def test_a_whole_model_needs_no_own_tensors(tmp_path: Path) -> None:
    """So the initial model, and that of every method that averages all of it."""
    fleets = file(tmp_path / "global.safetensors", trunk=1.0, camera=2.0, head=3.0)

    assert loaded(fleets) == {SHARED: 1.0, CAMERA: 2.0, HEAD: 3.0}
    assert loaded(fleets, "fedavg") == {SHARED: 1.0, CAMERA: 2.0, HEAD: 3.0}


def plan(number: int, *, finished: bool = False) -> FleetPlan:
    config = RunConfig("fedbevt", {}, "bev", "net", {}, {}, total_rounds=4, seed=0)
    return FleetPlan("tiny", config, number, finished, {}, (), {}, ("global",))


def test_own_tensors_are_those_of_the_last_round_before_the_plans(tmp_path: Path) -> None:
    """The plan of round 3 holds the mean of round 2, so that round's own tensors belong to it."""
    rounds = tmp_path / "rounds" / "tiny"
    for number in (2, 3):
        file(rounds / f"{number}" / "own.safetensors", camera=float(number))
        (rounds / f"{number}" / "done").touch()
    save_memory(rounds / "3" / "memory.safetensors", Memory(values={"a": 1}))
    file(rounds / "4" / "own.safetensors", camera=4.0)  # still being trained
    robot = Installation("car_a", "", tmp_path, {})

    second = {"own": str(rounds / "2" / "own.safetensors"), "memory": ""}
    third = {name: str(rounds / "3" / f"{name}.safetensors") for name in ("own", "memory")}
    assert kept_files(plan(3), robot) == second
    assert kept_files(plan(3, finished=True), robot) == kept_files(plan(4), robot) == third
    assert kept_files(plan(2), robot) == {"own": "", "memory": ""}
    assert kept_files(replace(plan(3), run_id="other"), robot) == {"own": "", "memory": ""}
