"""Task detection from a fleet file: simulated in one process, and as real processes on ROS 2."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fed_cli.fleetrun.recordings import fleet_of
from fed_cli.fleetrun.runs import read_run
from fed_cli.main import app, load_verbs

load_verbs()
ROOT = Path(__file__).resolve().parents[2]
FLEET = """
run: boxes
task: detection
network: {name: cmt_tiny, options: {cameras: 1, queries: 20, noise: 20}}
strategy: {name: fedcka, options: {tau: 0.999, frames: 2}}
rounds: 2
train: {optimizer: adamw, lr: 0.002, batch_size: 2}
aggregator: {min_robots: 2}
inference: {descriptor_frames: 2}
traffic:
  domains: [A, E]
  train_scenes: [1, 0, 0, 0, 1]
  val_scenes: [1, 0, 0, 0, 1]
  keyframes: 4
  width: 32
  height: 16
  cameras: [CAM_FRONT]
  beams: 8
  azimuths: 60
robots:
  - {id: A, source: {data: traffic, options: &a {domain: boston_day_clear, split: train, cameras: [CAM_FRONT], sweeps: 1}}}
  - {id: E, source: {data: traffic, options: &e {domain: singapore_night_rain, split: train, cameras: [CAM_FRONT]}}}
test:
  - {name: unseen_A, robot: A, source: {data: traffic, options: {<<: *a, split: val}}}
  - {name: unseen_E, robot: E, source: {data: traffic, options: {<<: *e, split: val}}}
"""  # noqa: E501 - YAML of one entry a line


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


def test_a_simulated_fleet_makes_its_drives_and_keeps_layers(file: Path, tmp_path: Path) -> None:
    arguments = ["simulate", "--fleet", str(file), "--out", str(tmp_path / "run"), "--threads", "1", "--seed", "2"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    run = read_run(tmp_path / "run")
    assert [(robot.id, robot.updates, robot.samples) for robot in run.robots] == [("A", 2, 4), ("E", 2, 4)]
    assert all(0 < robot.shared[-1] < robot.units for robot in run.robots)  # of round 2, the first one is FedAvg
    recipe = json.loads((tmp_path / "run" / "traffic" / "recipe.json").read_text())
    assert (recipe["set"], recipe["seed"]) == ("detection", 2000)  # another seed of the fleet is other drives


def test_the_file_that_comes_along_names_five_domains() -> None:
    fleet, _ = fleet_of(ROOT / "config" / "fleet" / "detection.yaml")
    assert (fleet.task, fleet.strategy.name) == ("detection", "fedcka")
    assert [robot.id for robot in fleet.robots] == ["A", "B", "C", "D", "E"]
    used = [entry.source.options for entry in (*fleet.robots, *fleet.test) if entry.source is not None]
    assert [options["split"] for options in used] == ["train"] * 5 + ["val"] * 5
    assert len({options["domain"] for options in used}) == 5


def test_mistakes_of_the_file_end_in_one_line(file: Path, tmp_path: Path) -> None:
    file.write_text(FLEET.replace("width: 32", "width: 2"))
    result = CliRunner().invoke(app, ["simulate", "--fleet", str(file), "--out", str(tmp_path / "run")])
    assert result.exit_code != 0
    assert result.output.strip().splitlines()[-1].endswith("DomainOptions.width is 2; it must lie between 16 and 1600")


@pytest.mark.slow
@pytest.mark.timeout(450)
def test_vehicles_learn_and_are_served_live_as_real_processes(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="the demo runs on ROS 2")
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "fed_cli", "demo", "--data", str(file), "--out", str(out)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "mean NDS" in done.stdout and "shared layers by round" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["task"], summary["robots"], summary["strategy"]) == ("detection", ["A", "E"], "fedcka")
    assert all(0 < shares["shared"][-1] < shares["layers"] for shares in summary["shares"].values())
    for row in summary["sequences"]:
        assert row["frames"] == 2  # of four, two chose the model
        assert set(row["nds"]) == set(row["map"]) == {"initial", "fedavg", "fedcka"}
        assert all(0.0 <= value <= 1.0 for value in row["nds"].values())
    assert (out / "predictions.png").stat().st_size > 10_000
    # The robots recorded what their sensors published: nothing of a file went past ROS.
    assert (out / "robots" / "A" / "samples" / "options.json").exists()
    assert len(list((out / "robots" / "A" / "samples" / "samples" / "LIDAR_TOP").iterdir())) == 4
