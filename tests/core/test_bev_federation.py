"""Every method of the bird's eye study on generated vehicles, from their files to the models (feddwa spec 14: A13)."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fed_models
from fed_core.bookkeeping import RunBook
from fed_core.data.open import SourceConfig
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.messages import FleetPlan
from fed_core.scenes.driving.dataset import DrivingOptions, generate
from fed_core.similarity.descriptors import describe
from fed_core.simulation import Simulation
from fed_core.strategies.base import LocalState, make_strategy
from fed_core.training.divergence import Divergence
from fed_core.training.jobs import Toolbox
from fed_core.types import Json

pytestmark = [pytest.mark.usefixtures("fresh_process"), pytest.mark.timeout(300)]

ROBOTS = {"bus": 1, "truck": 2}
CELLS = 32
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("local", {}),
    ("centralised", {}),
    ("fedavg", {}),
    ("fedprox", {"mu": 0.01}),
    ("scaffold", {}),
    ("fedrep", {}),
    ("fedtp", {"hidden": 4}),
    ("fedbevt", {}),
    ("daloss", {"inner": "fedbevt"}),
    ("feddwa", {}),
    ("daloss", {"inner": "feddwa"}),
]
FEDDWA = ("daloss", {"inner": "feddwa", "inner_options": {"kld_source": "running"}})


@pytest.fixture(scope="session")
def streets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a bus and a truck with four small frames each."""
    options = DrivingOptions(
        frames=8, test_frames=1, width=64, height=48, map_size=CELLS, clients=tuple(ROBOTS), min_visible_px=1
    )
    return generate(tmp_path_factory.mktemp("streets") / "data", options)


def toolbox() -> Toolbox:
    def mean_colours(images: Any, kind: str) -> Any:
        return describe(kind, np.stack([image.mean(axis=(0, 1)) for image in images]), "mean colour")

    return Toolbox(
        fed_models.build, fed_models.signature, fed_models.state_arrays, fed_models.load_arrays, mean_colours
    )


def fleet(method: tuple[str, Mapping[str, Any]], *, rounds: int = 3, steps: int = 0) -> FleetConfig:
    """Return the vehicles as robots; a central one has the recordings of all. 0 steps are two epochs of two."""
    sources = {
        name: SourceConfig(data=f"train/client_{number}", reader="opv2v", options={"map_size": CELLS})
        for name, number in ROBOTS.items()
    }
    if method[0] == "centralised":
        sources = {"all": SourceConfig(parts=tuple(sources.values()))}
    return FleetConfig(
        run="run",
        robots=tuple(RobotEntry(name, source) for name, source in sources.items()),
        task="bev",
        network=NamedOptions("fax_tiny"),
        strategy=NamedOptions(method[0], dict(method[1])),
        rounds=rounds,
        train={"lr": 2e-3, "batch_size": 2, "local_epochs": 2, "max_steps": steps, "device": "cpu"},
    )


def simulate(config: FleetConfig, streets: Path, folder: Path) -> FleetPlan:
    return Simulation(config, streets, folder, toolbox(), threads=1).run()


def losses(config: FleetConfig, folder: Path) -> list[float]:
    """Return the mean loss of each round."""
    book = RunBook(folder, "run", config.run_config())
    rows = [(number, value) for number, _, name, value in book._journal.metrics() if name == "loss"]
    book.close()
    return [float(np.mean([v for n, v in rows if n == number])) for number in sorted({n for n, _ in rows})]


def logs(config: FleetConfig, folder: Path) -> list[Mapping[str, Json]]:
    """Return what the strategy logged in each round."""
    book = RunBook(folder, "run", config.run_config())
    found = [row.log for row in book._journal.rounds() if row.round > 0]
    book.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: "-".join((method[0], *map(str, method[1].values()))))
def test_every_method_learns(method: tuple[str, dict[str, Any]], streets: Path, tmp_path: Path) -> None:
    config = fleet(method)

    final = simulate(config, streets, tmp_path)

    assert final.finished and final.models[0] == ("robot/bus" if method[0] == "local" else "global")
    course = losses(config, tmp_path)
    assert len(course) == 3 and course[-1] < course[0]


def test_the_whole_method_repeats_itself_bit_by_bit(streets: Path, tmp_path: Path) -> None:
    config = fleet(FEDDWA, rounds=2, steps=1)

    final = simulate(config, streets, tmp_path / "one")

    assert simulate(config, streets, tmp_path / "two") == final  # blobs are named by their digests
    for log in logs(config, tmp_path / "one"):
        weights, divergence = log["weights"], log["divergence"]
        assert isinstance(weights, dict) and isinstance(divergence, dict)
        assert set(weights) == set(ROBOTS) == set(divergence) and log["dropped"] == {}
        assert sum(weights.values()) == pytest.approx(1.0)  # type: ignore[arg-type]
        assert all(value > 0 for value in divergence.values())  # type: ignore[operator]
        assert log["control_norm"] > 0  # type: ignore[operator]


def test_a_robot_whose_divergence_is_not_finite_misses_its_round_only(
    streets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tells NaN in round 2: the other alone makes that round, with a reason in the log."""
    config = fleet(("feddwa", {}), rounds=2, steps=1)
    asked: list[Any] = []

    def after_training(self: Divergence, state: LocalState) -> float:
        asked.append(state.values["round"])
        return math.nan if asked.count(2) == 1 and asked[-1] == 2 else 0.5

    monkeypatch.setattr(Divergence, "after_training", after_training)
    final = simulate(config, streets, tmp_path)

    assert final.finished and sorted(asked) == [1, 1, 2, 2]
    first, second = logs(config, tmp_path)
    (robot_id,) = second["dropped"]  # type: ignore[misc]
    assert second["dropped"] == {robot_id: "its KL divergence is not finite"}
    assert second["warnings"] == [f"robot {robot_id!r} is left out of the round: its KL divergence is not finite"]
    assert second["weights"] == {"bus": 0.5, "truck": 0.5}  # its control and divergence of round 1 stay in the sum
    assert first["dropped"] == {} and first["weights"] == second["weights"]


def test_vehicles_differ_in_their_camera_layers_alone(streets: Path, tmp_path: Path) -> None:
    """FedBEVT: 6 convolutions of 4 inputs and 32 outputs are private, and never sent (feddwa spec 8 and 14: A11)."""
    config = fleet(("fedbevt", {}), rounds=1, steps=1)

    final = simulate(config, streets, tmp_path)

    book = RunBook(tmp_path, "run", config.run_config())
    sent = book.store.open(final.blobs["global"].digest)
    initial = book.initial()
    assert initial is not None
    signature = initial.signature
    book.close()
    missing = [spec for spec in signature.tensors if spec.name not in sent]
    assert sum(math.prod(spec.shape) for spec in missing) == 6 * 4 * 32
    assert {spec.name for spec in missing} == set(signature.names) - make_strategy("fedbevt", {}).travels(signature)
