"""Methods with memories and further keys, in a whole federation: jobs, files, journal and restarts included."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fed_core.bookkeeping import RunBook
from fed_core.data.open import SourceConfig
from fed_core.errors import StrategyError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation, SimulationView
from tests.core.training.tiny import toolbox, write_folder

pytestmark = pytest.mark.usefixtures("fresh_process")

SGD = {"optimizer": "sgd", "lr": 3e-2, "weight_decay": 0.0}
FEDDWA = {"global", "control", "control/ana", "control/ben"}
METHODS: list[tuple[str, dict[str, Any], dict[str, Any], set[str]]] = [
    ("fedavg", {}, {"optimizer_state": "keep", "schedule": "cyclic", "lr": 5e-3}, {"global"}),
    ("fedprox", {"mu": 0.1}, {}, {"global"}),
    ("feddyn", {"alpha": 0.1}, {}, {"global", "start", "drift"}),
    (
        "feddyn",
        {"alpha": 0.1, "weights": "samples", "part_alpha": {"head": 0.5}, "norm_penalty": False, "drift_from": 2},
        {},
        {"global", "start", "drift"},
    ),
    ("scaffold", {}, {}, {"global", "control"}),
    ("scaffold", {"control": "path"}, SGD, {"global", "control"}),
    ("feddwa", {"local_init": "persistent", "kld_source": "running"}, {"lr": 2e-2}, FEDDWA),
    ("daloss", {"inner": "feddwa", "kld_refresh": "per_round"}, {"lr": 2e-2}, FEDDWA),
    ("fedrep", {}, {"lr": 2e-2}, {"global"}),
    ("fedrep", {"mode": "joint"}, {"lr": 2e-2, "optimizer_state": "keep"}, {"global"}),
    ("fedbn", {}, {}, {"global"}),
    ("pcgrad", {}, {}, {"global"}),
    (
        "fedselect",
        {"warmup": 1, "step": 0.2, "damping": 0.5},
        {"lr": 2e-2, "optimizer_state": "reset_shared"},
        {"global"},
    ),
    ("fedmc", {"warmup": 1, "step": 0.2, "batches": 3}, {}, {"global"}),
    ("daloss", {"inner": "fedbevt"}, {"lr": 2e-2}, {"global"}),
    (
        "fedtp",
        {"hidden": 4},
        {"lr": 3e-2},
        {"global", "robot/ana", "robot/ben", "hypernetwork", "hypernetwork/momentum"},
    ),
]
every_method = pytest.mark.parametrize(
    ("name", "options", "train", "keys"), METHODS, ids=lambda v: str(sorted(v) if isinstance(v, set) else v)[:24]
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, (robot_id, count) in enumerate((("ana", 4), ("ben", 8))):
        write_folder(folder / robot_id, count, seed=seed)
    return folder


def fleet(name: str, options: Mapping[str, Any], train: Mapping[str, Any], rounds: int = 4) -> FleetConfig:
    return FleetConfig(
        run="run",
        robots=tuple(RobotEntry(robot_id, SourceConfig(data=robot_id)) for robot_id in ("ana", "ben")),
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions(name, dict(options)),
        rounds=rounds,
        train={"lr": 1e-2, "batch_size": 4, "local_epochs": 4, **train},
    )


class CutOffError(Exception):
    """Stands for a killed process."""


def simulate(config: FleetConfig, base: Path, folder: Path, **how: Any) -> FleetPlan:
    return Simulation(config, base, folder, toolbox(), threads=1, **how).run()


def losses(folder: Path, config: FleetConfig) -> list[float]:
    """Return the mean loss of each round."""
    book = RunBook(folder, "run", config.run_config())
    rows = [(number, value) for number, _, name, value in book._journal.metrics() if name == "loss"]
    book.close()
    rounds = sorted({number for number, _ in rows})
    return [sum(v for n, v in rows if n == number) / sum(n == number for n, _ in rows) for number in rounds]


@every_method
def test_a_fleet_learns_and_keeps_what_the_method_needs(
    name: str, options: dict[str, Any], train: dict[str, Any], keys: set[str], base: Path, tmp_path: Path
) -> None:
    config = fleet(name, options, train)
    final = simulate(config, base, tmp_path)
    assert set(final.blobs) == keys and final.models[0] == "global"
    course = losses(tmp_path, config)
    assert len(course) == 4 and course[-1] < 0.8 * course[0]


@every_method
def test_a_run_that_is_cut_off_ends_in_the_same_bits(
    name: str, options: dict[str, Any], train: dict[str, Any], keys: set[str], base: Path, tmp_path: Path
) -> None:
    config = fleet(name, options, train, rounds=3)
    final = simulate(config, base, tmp_path / "whole")

    left = 0

    def cut(view: SimulationView) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise CutOffError

    result: FleetPlan | None = None
    for left in (25, 12, 17, 10**9):  # noqa: B007 - counted down by the onlooker
        try:
            result = simulate(config, base, tmp_path / "cut", on_view=cut)
        except CutOffError:
            continue
    assert result == final


def test_centralised_training_pools_the_recordings(base: Path, tmp_path: Path) -> None:
    both = fleet("centralised", {}, {})
    parts = tuple(robot.source for robot in both.robots if robot.source)
    pooled = replace(both, robots=(RobotEntry("all", SourceConfig(parts=parts)),))
    final = simulate(pooled, base, tmp_path / "pooled")
    assert set(final.blobs) == {"global"}
    book = RunBook(tmp_path / "pooled", "run", pooled.run_config())
    (robot,) = book._journal.robots()
    book.close()
    assert robot.registration["num_samples"] == 12
    with pytest.raises(StrategyError, match="centralised pools the recordings .* but 2 robots registered"):
        simulate(both, base, tmp_path / "apart")
