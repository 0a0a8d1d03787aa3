"""A robot under load: it answers while it trains, and says so when its disk is full."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fed_msgs.msg import RobotStatus
from rcl_interfaces.srv import GetParameters

from fed_core.data.open import open_sequence
from fed_nodes import qos
from tests.ros.fleets import Fleet, record


def delays_ms(fleet: Fleet, client: Any, count: int = 120) -> Any:
    """Return the delay of ``count`` calls, one after the other, in milliseconds."""
    request, found = GetParameters.Request(names=["robot_id"]), []
    for _ in range(count):
        start_s = time.perf_counter()
        assert fleet.watcher.call(client, request).values[0].string_value == "spot"
        found.append(1000.0 * (time.perf_counter() - start_s))
    return np.array(found)


@pytest.mark.slow
def test_answers_while_it_trains(fleet: Fleet) -> None:
    watcher = fleet.watcher
    watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    fleet.robot("spot", source={"data": str(record(fleet.folder / "bag"))})
    watcher.wait("/fleet/robot_status", lambda m: m.phase == RobotStatus.REGISTERING)
    client = watcher.node.create_client(GetParameters, "/spot/robot_client/get_parameters")
    watcher.until(client.service_is_ready)
    idle = delays_ms(fleet, client)
    fleet.aggregator(min_robots=1, rounds=1, train={"lr": 1e-3, "local_epochs": 1000})
    watcher.wait("/fleet/robot_status", lambda m: m.phase == RobotStatus.TRAINING and m.progress > 0)
    busy = delays_ms(fleet, client)
    assert watcher.messages["/fleet/robot_status"][-1].phase == RobotStatus.TRAINING, "it trained all the time"
    added_ms = np.percentile(busy, 95) - np.percentile(idle, 95)
    assert added_ms <= 100.0, f"idle {np.percentile(idle, 95):.1f} ms, training {np.percentile(busy, 95):.1f} ms"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip(f"cannot mount a small disk: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_full_disk_while_recording(fleet: Fleet, small_disk: Path) -> None:
    watcher = fleet.watcher
    watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    robot = fleet.robot("spot", state_dir=small_disk / "spot", record_frames=500)
    fleet.replay("spot", record(fleet.folder / "bag", frames=150), loop=True)
    told = robot.wait_line(r".*recording: (no space is left for .*; free some and start again, nothing saved is lost)$")
    robot.wait_line(r".*recorded \d+ frames")
    status = watcher.wait("/fleet/robot_status", lambda m: m.phase == RobotStatus.REGISTERING)
    assert 20 < status.num_samples < 150, "it goes on with what it has"
    assert len(open_sequence(small_disk / "spot" / "snapshots" / "recorded")) == status.num_samples
    assert "samples" in told[1]
    assert not any("Traceback" in line for line in robot.output), robot.output


@pytest.mark.slow
def test_full_disk_while_training(fleet: Fleet, small_disk: Path) -> None:
    watcher = fleet.watcher
    watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    bag = {"data": str(record(fleet.folder / "bag"))}
    (small_disk / "spot").mkdir()
    (small_disk / "full").write_bytes(bytes(1_500_000))
    fleet.aggregator(min_robots=1, rounds=1)
    robot = fleet.robot("spot", source=bag, state_dir=small_disk / "spot")
    status = watcher.wait("/fleet/robot_status", lambda m: "space" in m.text)
    assert "\n" not in status.text
    whole = [p.name for p in (small_disk / "spot" / "blobs").iterdir() if len(p.name) == 64]
    assert whole == []
    assert not any("Traceback" in line for line in robot.output), robot.output
