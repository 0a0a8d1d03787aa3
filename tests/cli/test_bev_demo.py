"""Task bev from a fleet file: simulated in one process, and as real processes on ROS 2."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fed_cli.fleetrun.runs import read_run
from fed_cli.main import app, load_verbs

load_verbs()
ROOT = Path(__file__).resolve().parents[2]
FLEET = """
run: maps
task: bev
network: {name: fax_tiny}
strategy: {name: daloss, options: {inner: feddwa}}
rounds: 1
train: {batch_size: 4}
aggregator: {min_robots: 2}
inference: {descriptor_frames: 2}
traffic: {frames: 20, test_frames: 4, width: 32, height: 24, min_visible_px: 2, clients: [bus, car_a]}
robots:
  - {id: bus, source: {data: traffic/train/client_1}}
  - {id: car, frames: 4, source: {data: traffic/train/client_2}}
test:
  - {name: unseen_bus, robot: bus, source: {data: traffic/test/client_1}}
  - {name: unseen_car, robot: car, source: {data: traffic/test/client_2}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


def test_a_simulated_fleet_makes_its_traffic_and_learns_from_it(file: Path, tmp_path: Path) -> None:
    arguments = ["simulate", "--fleet", str(file), "--out", str(tmp_path / "run"), "--threads", "1", "--seed", "2"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    run = read_run(tmp_path / "run")
    assert [(robot.id, robot.updates, robot.samples) for robot in run.robots] == [("bus", 1, 2), ("car", 1, 4)]
    assert all(math.isfinite(robot.losses[0]) for robot in run.robots)
    recipe = json.loads((tmp_path / "run" / "traffic" / "recipe.json").read_text())
    assert recipe["seed"] == 2000  # another seed of the fleet is other traffic


def test_mistakes_of_the_file_end_in_one_line(file: Path, tmp_path: Path) -> None:
    file.write_text(FLEET.replace("width: 32", "width: 2"))
    result = subprocess.run(
        [sys.executable, "-m", "fed_cli", "simulate", "--fleet", str(file), "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
    )
    assert result.returncode != 0
    assert result.stderr.strip().splitlines()[-1].endswith("DrivingOptions.width is 2; it must lie between 16 and 1600")
    assert "Traceback" not in result.stderr


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
    assert "mean IoU" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["task"], summary["robots"], summary["strategy"]) == ("bev", ["bus", "car"], "daloss")
    assert [row["name"] for row in summary["sequences"]] == ["unseen_bus", "unseen_car"]
    for row in summary["sequences"]:
        assert row["frames"] == 2  # of four, two chose the model
        assert set(row["iou_global"]) == set(row["iou_frame"]) == {"initial", "fedavg", "daloss"}
        assert all(0.0 <= value <= 1.0 for value in row["iou_global"].values())
    assert (out / "predictions.png").stat().st_size > 10_000
    # The robots recorded what their cameras published: nothing of a file went past ROS.
    assert (out / "robots" / "car" / "samples" / "options.json").exists()
    assert len(list((out / "robots" / "car" / "samples").rglob("*_camera0.png"))) == 4
