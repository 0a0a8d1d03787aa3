"""Real recordings and bags, end to end; a handful of frames shows the pipeline, not accuracy."""

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
from fed_core.data.bag_writer import write_bag
from fed_core.data.open import open_sequence

load_verbs()
ROOT = Path(__file__).resolve().parents[2]
FLEET = ROOT / "config" / "fleet" / "recordings.yaml"
ROBOTS = ["kitti", "nyu", "redwood", "scenes_first", "scenes_middle", "scenes_sparse"]


def demo(data: Path, out: Path, **variables: str) -> dict[str, object]:
    """Run the demo as its user would; returns its summary."""
    pytest.importorskip("rclpy", reason="the demo runs on ROS 2")
    done = subprocess.run(
        [sys.executable, "-m", "fed_cli", "demo", "--data", str(data), "--out", str(out), "--rounds", "2"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **variables},
        timeout=550,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    summary: dict[str, object] = json.loads((out / "summary.json").read_text())
    return summary


def check(summary: dict[str, object], robots: list[str], sequences: list[str]) -> None:
    assert sorted(summary["robots"]) == robots  # type: ignore[call-overload]
    assert {name for cluster in summary["clusters"] for name in cluster} == set(robots)  # type: ignore[attr-defined]
    assert [row["name"] for row in summary["sequences"]] == sequences  # type: ignore[attr-defined]
    for row in summary["sequences"]:  # type: ignore[attr-defined]
        assert set(row["abs_rel"]) == {"initial", "fedavg", "fedepth"}
        assert all(math.isfinite(value) and value > 0 for value in row["abs_rel"].values())


def test_simulated_fleet_on_real_frames(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FED_PERCEPTION_DATA", str(shared_data))
    arguments = ["simulate", "--fleet", str(FLEET), "--out", str(tmp_path), "--rounds", "1", "--threads", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    run = read_run(tmp_path)
    assert [(robot.id, robot.updates) for robot in run.robots] == [(name, 1) for name in ROBOTS]
    assert [robot.samples for robot in run.robots] == [3, 3, 2, 12, 12, 5]
    assert all(math.isfinite(robot.losses[0]) for robot in run.robots)
    groups = {robot.id: set(robot.clusters) for robot in run.robots}
    assert groups["scenes_first"] & groups["scenes_middle"], "two parts of one room learn together"
    assert not groups["kitti"] & groups["scenes_first"], "a street and a room do not"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_demo_on_real_frames(shared_data: Path, tmp_path: Path) -> None:
    summary = demo(FLEET, tmp_path / "real", FED_PERCEPTION_DATA=str(shared_data))
    check(summary, ROBOTS, ["scenes_unseen", "redwood_unseen"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_demo_on_a_folder_of_bags(tmp_path: Path) -> None:
    bags = tmp_path / "bags"
    bags.mkdir()
    places = {"drone": ("uav/forest", 11), "dog": ("legged/indoor", 16), "held_out": ("uav/forest", 111)}
    for name, (place, seed) in places.items():
        write_bag(open_sequence(f"generated:{place}?seed={seed}&frames=8&width=96&height=64"), bags / name)
    (bags / "fleet.yaml").write_text(
        "test: [held_out]\ntrain: {batch_size: 4}\naggregator: {min_robots: 2}\ninference: {descriptor_frames: 2}\n"
    )
    check(demo(bags, tmp_path / "out"), ["dog", "drone"], ["held_out"])
