"""A federation in one process with a tiny network: it ends, it learns, it repeats itself, it survives being cut off."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fed_core.data.open import SourceConfig
from fed_core.errors import ConfigError, DataError, StoreError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation, SimulationView
from fed_core.training import jobs
from tests.core.training.tiny import toolbox, write_folder

pytestmark = pytest.mark.usefixtures("fresh_process")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, robot_id in enumerate(("ana", "ben")):
        write_folder(folder / robot_id, 6, seed=seed)
    return folder


def fleet(strategy: str = "fedavg", rounds: int = 2) -> FleetConfig:
    return FleetConfig(
        run="run",
        robots=tuple(RobotEntry(name, SourceConfig(data=name)) for name in ("ana", "ben")),
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions(strategy),
        rounds=rounds,
        train={"lr": 1e-2, "batch_size": 3, "local_epochs": 4},
    )


def simulate(config: FleetConfig, base: Path, folder: Path, **options: Any) -> FleetPlan:
    return Simulation(config, base, folder, toolbox(), threads=1, **options).run()


def losses(folder: Path, config: FleetConfig) -> dict[tuple[str, int], float]:
    from fed_core.bookkeeping import RunBook

    book = RunBook(folder, "run", config.run_config())
    rows = book._journal.metrics()
    book.close()
    return {(robot, number): value for number, robot, name, value in rows if name == "loss"}


@pytest.mark.parametrize("strategy", ["local", "fedavg", "fedepth"])
def test_ends_learns_and_repeats_itself(base: Path, tmp_path: Path, strategy: str) -> None:
    config = fleet(strategy)
    final = simulate(config, base, tmp_path / "one")
    assert (final.finished, final.round, set(final.robots)) == (True, 2, {"ana", "ben"})
    loss = losses(tmp_path / "one", config)
    assert set(loss) == {(robot, number) for robot in ("ana", "ben") for number in (1, 2)}
    for robot in ("ana", "ben"):
        assert loss[robot, 2] < loss[robot, 1]
    assert simulate(config, base, tmp_path / "two") == final  # digests of all models
    other = simulate(replace(config, seed=1), base, tmp_path / "three")
    assert other.blobs != final.blobs


def test_only_what_the_fleet_shares_goes_to_the_disk_at_once(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flushing the files of a thousand robots would take longer than their training."""
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(os.readlink(f"/proc/self/fd/{number}")))
    final = simulate(fleet(), base, tmp_path / "run")
    assert str(tmp_path / "run" / "blobs") in flushed  # the models' names
    assert len(final.blobs) == 1
    assert not [path for path in flushed if "/robots/" in path]
    assert len(flushed) <= 4 * 6, "of the first model, and of the model and the memory of each round"


class CutOffError(Exception):
    """The process dies here."""


@pytest.mark.parametrize("strategy", ["fedavg", "fedepth"])
def test_goes_on_after_being_cut_off_anywhere_and_ends_the_same(base: Path, tmp_path: Path, strategy: str) -> None:
    config = fleet(strategy)
    whole: list[SimulationView] = []
    final = simulate(config, base, tmp_path / "whole", on_view=whole.append)
    cuts, seen = 0, 0
    step = len(whole) // 6

    def die(view: SimulationView) -> None:
        nonlocal seen
        seen += 1
        if cuts < 5 and seen >= step:
            raise CutOffError

    for _ in range(6):
        seen = 0
        simulation = Simulation(config, base, tmp_path / "cut", toolbox(), threads=1, on_view=die)
        try:
            result = simulation.run()
            break
        except CutOffError:
            cuts += 1
    assert cuts == 5
    assert result == final
    assert simulate(config, base, tmp_path / "cut") == final  # once more: all is there already


def test_shows_every_robot_and_the_fleet(base: Path, tmp_path: Path) -> None:
    views: list[SimulationView] = []
    simulate(fleet(rounds=1), base, tmp_path, on_view=views.append)
    fleets = [view.fleet for view in views if view.fleet]
    robots = [view.robot for view in views if view.robot]
    assert len(fleets) + len(robots) == len(views)
    assert [fleets[0].phase, fleets[-1].phase] == ["registering", "finished"]
    for name in ("ana", "ben"):
        mine = [robot for robot in robots if robot.robot_id == name]
        shares = [robot.progress for robot in mine if robot.phase.name == "TRAINING"]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_zero_rounds_give_the_initial_model(base: Path, tmp_path: Path) -> None:
    final = simulate(fleet(rounds=0), base, tmp_path)
    assert final.finished
    assert set(final.blobs) == {"global"}


def test_one_folder_is_for_one_process_at_a_time(base: Path, tmp_path: Path) -> None:
    first = Simulation(fleet(rounds=0), base, tmp_path, toolbox(), threads=1)
    with pytest.raises(StoreError, match="another process runs in .*; wait until it ends, or use another folder"):
        Simulation(fleet(rounds=0), base, tmp_path, toolbox(), threads=1)
    final = first.run()
    assert simulate(fleet(rounds=0), base, tmp_path) == final


def test_tells_mistakes(base: Path, tmp_path: Path) -> None:
    live = replace(fleet(), robots=(RobotEntry("ana"),))
    with pytest.raises(ConfigError, match="robot 'ana' has no source; a simulation needs one for each robot"):
        simulate(live, base, tmp_path / "a")
    lost = replace(
        fleet(), robots=(RobotEntry("ana", SourceConfig(data="ana")), RobotEntry("ben", SourceConfig("gone")))
    )
    with pytest.raises(DataError, match="^robot ben: .*gone"):
        simulate(lost, base, tmp_path / "lost")
    with pytest.raises(ConfigError, match="no network is called 'huge'"):
        simulate(replace(fleet(), network=NamedOptions("huge")), base, tmp_path / "b")
    simulate(fleet(rounds=0), base, tmp_path / "c")
    with pytest.raises(StoreError, match="was started with another configuration"):
        simulate(fleet(rounds=1), base, tmp_path / "c")


def test_rendered_samples_are_recorded_once(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fed_core.data.open import GeneratedConfig, SourceConfig
    from fed_core.scenes import GeneratedSequence

    rendered: list[int] = []
    real = GeneratedSequence.__getitem__

    def count(sequence: GeneratedSequence, index: int) -> Any:
        rendered.append(index)
        return real(sequence, index)

    monkeypatch.setattr(GeneratedSequence, "__getitem__", count)
    source = SourceConfig(generated=GeneratedConfig("legged", "indoor", frames=8, width=32, height=24), step=2)
    config = replace(
        fleet("fedepth"), robots=(RobotEntry("dog", source, frames=3), RobotEntry("ana", SourceConfig("ana")))
    )
    seen: list[SimulationView] = []

    final = simulate(config, base, tmp_path, on_view=seen.append)

    assert rendered == [0, 2, 4]
    texts = [view.robot.text for view in seen if view.robot and view.robot.robot_id == "dog" and view.robot.text]
    assert texts[:3] == [f"recorded {n} of 3 frames" for n in (1, 2, 3)]
    jobs._prepared.clear()
    assert simulate(config, base, tmp_path) == final
    assert rendered == [0, 2, 4]
