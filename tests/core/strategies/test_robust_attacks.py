"""A whole federation in which 20 % of the robots flip the sign of their updates and scale them by a million."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from fed_core.data.open import SourceConfig
from fed_core.errors import TrainingError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.metrics.depth import mean_metrics, score_frame
from fed_core.simulation import Simulation
from fed_core.simulation.engines import Answer, Job, LocalEngine
from fed_core.store.blobs import BlobStore
from fed_core.tasks.depth.task import DepthTask
from fed_core.training.jobs import Toolbox
from fed_core.types import Array, Tensors
from tests.core.training.tiny import frames, load_arrays, state_arrays, tiny, toolbox, write_folder

pytestmark = [pytest.mark.usefixtures("fresh_process"), pytest.mark.slow]

ROBOTS = tuple(f"r{number}" for number in range(10))
ATTACKERS = ("r0", "r1")
FACTOR = 1e6


def attacking() -> Toolbox:
    """Return a toolbox whose robot sends ``s - FACTOR (w - s)``, s where its round began."""
    start: dict[str, Array] = {}

    def begin(network: nn.Module, tensors: Tensors) -> None:
        start.update({name: np.array(array) for name, array in tensors.items()})
        load_arrays(network, tensors)

    def end(network: nn.Module) -> dict[str, Array]:
        trained = state_arrays(network)
        floats = [name for name in start if trained[name].dtype.kind == "f"]
        return {**trained, **{n: start[n] - np.float32(FACTOR) * (trained[n] - start[n]) for n in floats}}

    return replace(toolbox(), load_arrays=begin, state_arrays=end)


class Poisoned(LocalEngine):
    """Attackers' jobs go through :func:`attacking`."""

    def next(self) -> Answer | None:
        """Carry out the oldest job."""
        job: Job | None = self._waiting[0] if self._waiting else None
        bad = job is not None and job.robot_id in ATTACKERS and job.request.kind == "train"
        self._toolbox = attacking() if bad else toolbox()
        return super().next()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, robot_id in enumerate(ROBOTS):
        write_folder(folder / robot_id, 6, seed=seed)
    return folder


def accuracy(strategy: str, options: Mapping[str, Any], base: Path, folder: Path, seed: int, attack: bool) -> float:
    """Return delta1 of the final model on frames that no robot saw; 0 where the fleet could not train to the end."""
    fleet = FleetConfig(
        run="run",
        robots=tuple(RobotEntry(robot_id, SourceConfig(data=robot_id)) for robot_id in ROBOTS),
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions(strategy, dict(options)),
        rounds=12,
        seed=seed,
        train={"lr": 2e-2, "batch_size": 3, "local_epochs": 4},
    )
    engine = Poisoned(toolbox()) if attack else LocalEngine(toolbox())
    try:
        plan = Simulation(fleet, base, folder, toolbox(), threads=1, engine=engine).run()
    except TrainingError:  # the models are so far off that no robot can train them any more
        return 0.0
    network = tiny().eval()
    load_arrays(network, BlobStore(folder / "blobs").open(plan.blobs["global"].digest))
    scores = [score_frame(DepthTask().predict(network, f.rgb), f.depth_m, cap_m=20.0) for f in frames(20, seed=99)]
    return mean_metrics([score for score in scores if score])["delta1"]


@pytest.mark.parametrize("seed", [0, 1])
def test_accuracy_survives_under_median_and_krum_and_not_under_the_mean(seed: int, base: Path, tmp_path: Path) -> None:
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "mean": ("fedavg", {}),
        "median": ("robust", {"rule": "median"}),
        "multi_krum": ("robust", {"rule": "multi_krum", "attackers": 2}),
        "krum": ("robust", {"rule": "krum", "attackers": 2}),
    }
    clean = accuracy("fedavg", {}, base, tmp_path / "clean", seed, attack=False)
    found = {name: accuracy(*case, base, tmp_path / name, seed, attack=True) for name, case in cases.items()}
    assert clean > 0.5
    assert found["mean"] < 0.95 * clean
    for rule in ("median", "multi_krum", "krum"):
        assert found[rule] >= 0.95 * clean, rule
