"""Clustered methods in a whole federation: described by jobs, sent as files, restarted from the journal."""

from pathlib import Path
from typing import Any

import pytest

from fed_core.bookkeeping import RunBook
from fed_core.data.open import SourceConfig
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation, SimulationView
from fed_core.strategies.grouping import Grouping
from fed_core.wire.codec import load_memory
from tests.core.training.tiny import toolbox, write_folder

pytestmark = pytest.mark.usefixtures("fresh_process")

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("fedepth", {"tau_rule": "gap", "features": "log", "variance_prior": 20.0}),
    ("hard", {"tau_rule": "gap"}),
    ("pacfl", {"tau": 0.0}),
    ("fedclust", {"tau": 0.0}),
]
every_method = pytest.mark.parametrize(("name", "options"), METHODS)
ROBOTS = ("ana", "ben", "cho")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, robot_id in enumerate(ROBOTS):
        write_folder(folder / robot_id, 6, seed=seed)
    return folder


def fleet(name: str, options: dict[str, Any], rounds: int = 3) -> FleetConfig:
    return FleetConfig(
        run="run",
        robots=tuple(RobotEntry(robot_id, SourceConfig(data=robot_id)) for robot_id in ROBOTS),
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions(name, options),
        rounds=rounds,
        train={"lr": 1e-2, "batch_size": 3, "local_epochs": 3},
    )


def simulate(config: FleetConfig, base: Path, folder: Path, **how: Any) -> FleetPlan:
    return Simulation(config, base, folder, toolbox(), threads=1, **how).run()


def book(folder: Path, config: FleetConfig) -> RunBook:
    return RunBook(folder, "run", config.run_config())


@every_method
def test_ends_learns_and_repeats_itself(name: str, options: dict[str, Any], base: Path, tmp_path: Path) -> None:
    config = fleet(name, options)
    final = simulate(config, base, tmp_path / "one")
    assert final.finished and set(final.robots) == set(ROBOTS)
    assert all(key.startswith("cluster/") for key in final.models)
    run = book(tmp_path / "one", config)
    loss = {(robot, number): value for number, robot, metric, value in run._journal.metrics() if metric == "loss"}
    run.close()
    assert all(loss[robot_id, 3] < loss[robot_id, 1] for robot_id in ROBOTS)
    assert simulate(config, base, tmp_path / "two") == final  # digests of all models


class CutOffError(Exception):
    """Stands for a killed process."""


@every_method
def test_goes_on_after_it_was_cut_off(name: str, options: dict[str, Any], base: Path, tmp_path: Path) -> None:
    config = fleet(name, options)
    whole = simulate(config, base, tmp_path / "whole")

    def cut(view: SimulationView) -> None:
        if view.fleet is not None and view.fleet.round == 2 and view.fleet.robots[0].reported:
            raise CutOffError

    with pytest.raises(CutOffError):
        simulate(config, base, tmp_path / "cut", on_view=cut)
    assert simulate(config, base, tmp_path / "cut") == whole


@pytest.mark.parametrize("name", ["fedepth", "hard", "pacfl"])
def test_extremes_are_the_files_of_fedavg_and_of_local_training(name: str, base: Path, tmp_path: Path) -> None:
    one = simulate(fleet(name, {"tau": 1e9}, rounds=2), base, tmp_path / "one")
    plain = simulate(fleet("fedavg", {}, rounds=2), base, tmp_path / "plain")
    assert one.blobs[one.models[0]] == plain.blobs["global"]
    alone = simulate(fleet(name, {"tau": 0.0}, rounds=2), base, tmp_path / "alone")
    local = simulate(fleet("local", {}, rounds=2), base, tmp_path / "local")
    for robot_id in ROBOTS:
        (key,), (own,) = alone.robots[robot_id].load, local.robots[robot_id].load
        assert alone.blobs[key] == local.blobs[own]  # digests: bit by bit


def test_fedclust_gets_the_last_layers_and_starts_clusters_from_the_initial_model(base: Path, tmp_path: Path) -> None:
    config = fleet("fedclust", {"tau": 1e9}, rounds=1)
    final = simulate(config, base, tmp_path / "run")
    run = book(tmp_path / "run", config)
    initial = run.initial()
    memory = load_memory(run.store.path(run._journal.last_round().memory.digest))  # type: ignore[union-attr]
    run.close()
    assert initial is not None and final.models == ("global",)
    assert final.blobs["global"] == initial.blob
    uploads = Grouping.from_memory(memory).uploads
    assert {robot_id: vector.shape for robot_id, vector in uploads.items()} == dict.fromkeys(ROBOTS, (8 * 9 + 1,))
    assert Grouping.from_memory(memory).members.sum() == 3
