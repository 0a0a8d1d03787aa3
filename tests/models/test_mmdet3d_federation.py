"""Two robots learn a detector of mmdet3d together, from nuScenes folders to the models, as a fleet would."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import fed_models
from fed_core.bookkeeping import RunBook
from fed_core.data.nuscenes.writer import TableWriter
from fed_core.data.open import SourceConfig
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation
from fed_core.training.jobs import Toolbox
from tests.core.tasks.detection_frames import made_frame
from tests.models.mmdet3d_configs import write_config

pytest.importorskip("mmdet3d", reason="mmdet3d is not installed; run: make setup-detection (docs/mmdet3d.md)")

ROBOTS = ("boston", "singapore")
ATTRIBUTES = {0: "vehicle.moving", 1: "vehicle.moving", 8: "pedestrian.moving"}


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One scene of four frames for each robot."""
    root = tmp_path_factory.mktemp("streets")
    writer = TableWriter(root, "v1.0-generated")
    for number, robot in enumerate(ROBOTS):
        writer.add_log(f"log-{robot}", location=robot)
        writer.add_scene(robot, "day", split="train")
        for step in range(4):
            frame = replace(made_frame(10 * number + step, boxes=3, reach_m=14.0), stamp_ns=(step + 1) * 500_000_000)
            names = tuple(f"{robot}_{step}_{index}" for index in range(3))
            writer.add_keyframe(frame, names, tuple(ATTRIBUTES[int(label)] for label in frame.boxes.labels))
    writer.close()
    return root


def simulate(
    method: tuple[str, dict[str, Any]], config: str, streets: Path, folder: Path
) -> tuple[FleetPlan, dict[str, list[float]]]:
    """Return the final plan and all metrics by name."""
    options = {"cameras": ["CAM_FRONT"], "sweeps": 0}
    robots = tuple(
        RobotEntry(robot, SourceConfig(data=".", name=robot, options={**options, "scenes": [robot]}))
        for robot in ROBOTS
    )
    fleet = FleetConfig(
        run="run",
        robots=robots,
        task="detection",
        network=NamedOptions("mmdet3d", {"config": config}),
        strategy=NamedOptions(*method),
        rounds=3,
        train={"lr": 2e-3, "batch_size": 2, "local_epochs": 1, "device": "cpu"},
    )
    toolbox = Toolbox(
        fed_models.build, fed_models.signature, fed_models.state_arrays, fed_models.load_arrays, lambda *_: None
    )
    final = Simulation(fleet, streets, folder, toolbox, threads=1).run()
    book, metrics = RunBook(folder, "run", fleet.run_config()), defaultdict(list)
    for _, _, name, value in book._journal.metrics():
        metrics[name].append(value)
    book.close()
    return final, metrics


METHODS: list[tuple[str, dict[str, Any]]] = [
    ("fedavg", {}),
    ("fedbn", {}),
    ("fedrep", {}),
    ("fedcka", {"rule": "threshold", "tau": 0.999}),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method[0]))
def test_rounds_of_two_robots(method: tuple[str, dict[str, Any]], streets: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path)
    final, metrics = simulate(method, config, streets, tmp_path / "run")

    assert final.finished and final.models[0] == "global"
    assert len(metrics["loss"]) == 3 * len(ROBOTS) and np.isfinite(metrics["loss"]).all()
    network = fed_models.build("mmdet3d", {"config": config})
    norms = {spec.name for spec in fed_models.signature(network, "mmdet3d").tensors if "BatchNorm" in spec.module}
    merged = set(load_file(tmp_path / "run" / "blobs" / final.blobs["global"].digest))
    assert (norms <= merged) is (method[0] != "fedbn")
    assert not (method[0] == "fedbn" and norms & merged)
    # From its second round on each robot keeps some layers to itself, and none keeps all.
    kept = metrics["personal_ratio"]
    assert not kept if method[0] != "fedcka" else 0.0 < max(kept) < 1.0
