"""A robot whose own layers or memory are damaged says so, starts from the global layers, and the round goes on."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.roles.messages import FleetPlan
from fed_core.store.blobs import BlobStore
from fed_core.training import jobs
from fed_core.training.kept import Beginning, begin_round, read_optimizer
from fed_core.types import Memory
from fed_core.wire.codec import save_memory, write_tensors
from tests.core.strategies.test_in_simulation import fleet, simulate
from tests.core.training.tiny import signature, tiny, write_folder

pytestmark = pytest.mark.usefixtures("fresh_process")

#: Methods with layers, elements or memories of the robots' own.
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("fedrep", {}),
    ("fedrep", {"mode": "joint"}),
    ("fedbn", {}),
    ("fedbevt", {}),
    ("fedselect", {"warmup": 0}),
    ("fedmc", {"warmup": 0, "batches": 2}),
    ("fedcka", {"tau": 1.0, "frames": 2}),
    ("feddwa", {"local_init": "persistent"}),
    ("daloss", {"inner": "fedbevt"}),
]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 64)


def reshape(path: Path) -> None:
    """A whole file, of another network."""
    if path.name.startswith("own"):
        write_tensors(path, {"head.weight": np.zeros((2, 2), np.float32)})
    else:
        garble(path)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, robot_id in enumerate(("ana", "ben")):
        write_folder(folder / robot_id, 4, seed=seed)
    return folder


def run(
    name: str, options: dict[str, Any], base: Path, folder: Path, harm: Callable[[FleetPlan], None], **train: Any
) -> FleetPlan:
    config = fleet(name, options, {"lr": 2e-3, "local_epochs": 1, **train}, rounds=3)
    return simulate(config, base, folder, on_plan=harm)


@pytest.mark.parametrize("damage", [cut, empty, reshape])
@pytest.mark.parametrize(("name", "options"), METHODS, ids=lambda v: str(v))
def test_the_round_goes_on_from_the_global_layers(
    name: str, options: dict[str, Any], damage: Callable[[Path], None], base: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    begun: list[tuple[str, int, Beginning]] = []
    shared: dict[str, np.ndarray] = {}

    def watched(arguments: Any, *rest: Any) -> Beginning:
        begun.append((arguments["robot_id"], arguments["round"], begin_round(arguments, *rest)))
        return begun[-1][2]

    def harm(plan: FleetPlan) -> None:
        if plan.round == 3 and not plan.finished:
            (key,) = plan.robots["ana"].load
            opened = BlobStore(tmp_path / "blobs").open(plan.blobs[key].digest)
            shared.update({tensor: opened[tensor].copy() for tensor in opened})
            damage(tmp_path / "robots" / "ana" / "rounds" / "run" / "2" / "own.safetensors")

    monkeypatch.setattr(jobs, "begin_round", watched)
    with caplog.at_level(logging.WARNING, "fed_core.training"):
        final = run(name, options, base, tmp_path, harm)

    assert final.finished
    (told,) = [record.getMessage() for record in caplog.records]
    assert "/ana/rounds/run/2/own.safetensors cannot be used (" in told and "\n" not in told
    assert told.endswith("; the robot starts from the global layers and remembers nothing")
    damaged = {(robot, number): start for robot, number, start in begun if start.damaged}
    assert set(damaged) == {("ana", 3)}
    start = damaged["ana", 3]
    assert start.memory == Memory() and list(start.weights) == list(signature(tiny(), "tiny").names)
    for tensor, array in shared.items():
        np.testing.assert_array_equal(start.weights[tensor], array, err_msg=tensor)


@pytest.mark.parametrize("damage", [cut, empty, garble])
def test_a_damaged_memory_costs_the_own_layers_too(
    damage: Callable[[Path], None], base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Masks and the elements they keep belong together."""

    def harm(plan: FleetPlan) -> None:
        if plan.round == 3 and not plan.finished:
            damage(tmp_path / "robots" / "ana" / "rounds" / "run" / "2" / "memory.safetensors")

    with caplog.at_level(logging.WARNING, "fed_core.training"):
        assert run("fedselect", {"warmup": 0}, base, tmp_path, harm).finished
    (told,) = [record.getMessage() for record in caplog.records]
    assert "/2/memory.safetensors cannot be used (" in told


def test_a_memory_that_the_strategy_cannot_use_is_dropped(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A whole file, with a mask of another model."""

    def harm(plan: FleetPlan) -> None:
        if plan.round == 3 and not plan.finished:
            path = tmp_path / "robots" / "ana" / "rounds" / "run" / "2" / "memory.safetensors"
            save_memory(path, Memory({"personal/head.weight": np.zeros(1, np.uint8)}))

    with caplog.at_level(logging.WARNING, "fed_core.training"):
        assert run("fedselect", {"warmup": 0}, base, tmp_path, harm).finished
    (told,) = [record.getMessage() for record in caplog.records]
    assert "the mask of tensor 'head.weight' has 1 byte(s), not 9" in told


@pytest.mark.parametrize("damage", [cut, empty, garble])
def test_a_damaged_optimiser_starts_anew(
    damage: Callable[[Path], None], base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def harm(plan: FleetPlan) -> None:
        if plan.round == 3 and not plan.finished:
            damage(tmp_path / "robots" / "ana" / "rounds" / "run" / "2" / "optimizer.safetensors")

    with caplog.at_level(logging.WARNING, "fed_core.training"):
        assert run("fedavg", {}, base, tmp_path, harm, optimizer_state="keep").finished
    (told,) = [record.getMessage() for record in caplog.records]
    assert "/2/optimizer.safetensors cannot be used (" in told and told.endswith("; the optimiser starts anew")


def test_an_optimiser_of_another_network_starts_anew(tmp_path: Path) -> None:
    model = signature(tiny(), "tiny")
    path = tmp_path / "optimizer.safetensors"
    for entry, shape in (("exp_avg/tail.weight", (3,)), ("exp_avg/head.weight", (3,))):
        write_tensors(path, {entry: np.zeros(shape, np.float32)})
        assert read_optimizer(str(path), model) == {}
    write_tensors(path, {"exp_avg/head.bias": np.zeros(1, np.float32), "scaler/scale": np.array(2.0)})
    assert set(read_optimizer(str(path), model)) == {"exp_avg/head.bias", "scaler/scale"}
    assert read_optimizer("", model) == {}
