"""Processes that are killed or told to stop: nothing is lost, counted twice, or left behind."""

import random
import re
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from fed_msgs.msg import FleetStatus, RobotStatus

from fed_nodes import qos
from tests.ros.fleets import Fleet, record

ROBOTS = {"forest": (60, 200, 60), "brick": (220, 60, 50)}


def children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(p) for task in tasks for p in (task / "children").read_text().split()]
    except OSError:
        return []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def segments(pid: int) -> set[Path]:
    """Return the Fast DDS segments that a process has mapped and that are its own."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {Path(name) for name in re.findall(r"/dev/shm/fastdds_[0-9a-f]{16}", maps)}


def read_journal(folder: Path) -> Any:
    """Return (config of the run, rounds, who was counted when, models of the last round)."""
    database = folder / "aggregator" / "tiny" / "journal.sqlite"
    with sqlite3.connect(database) as db:
        rounds = [row[0] for row in db.execute("SELECT round FROM rounds ORDER BY round")]
        counted = list(db.execute("SELECT round, robot_id FROM updates ORDER BY round, robot_id"))
        models = dict(db.execute("SELECT key, digest FROM models WHERE round = (SELECT MAX(round) FROM models)"))
    db.close()
    return rounds, counted, models


def start(fleet: Fleet) -> dict[str, Any]:
    nodes = {"aggregator": fleet.aggregator(rounds=2, train={"lr": 3e-3, "local_epochs": 4})}
    for name, colour in ROBOTS.items():
        bag = fleet.folder / f"bag_{name}"
        nodes[name] = fleet.robot(name, source={"data": str(bag if bag.exists() else record(bag, colour))})
    return nodes


def watch(fleet: Fleet) -> None:
    fleet.watcher.watch(FleetStatus, "/fleet/status", qos.LATCHED)
    fleet.watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)


def training(robot: str, number: int) -> Any:
    return lambda m: (m.robot_id, m.round, m.phase) == (robot, number, RobotStatus.TRAINING) and m.progress > 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_in_mid_round_the_run_ends_with_the_same_models(fleet: Fleet) -> None:
    watch(fleet)
    nodes = start(fleet)
    fleet.watcher.wait("/fleet/robot_status", training("brick", 1), 60.0)
    nodes["aggregator"].kill()
    nodes["aggregator"] = fleet.aggregator(rounds=2, train={"lr": 3e-3, "local_epochs": 4})
    fleet.watcher.wait("/fleet/robot_status", training("forest", 2), 60.0)
    trainers = children(nodes["forest"].pid)
    nodes["forest"].kill()
    fleet.watcher.until(lambda: not any(map(alive, trainers)), 10.0)
    nodes["forest"] = fleet.robot("forest", source={"data": str(fleet.folder / "bag_forest")})
    fleet.watcher.wait("/fleet/status", lambda m: m.phase == "finished", 90.0)
    disturbed = read_journal(fleet.folder)
    for node in nodes.values():
        assert node.stop() == 0
    # The same again, undisturbed, in the same folders under another name.
    (fleet.folder / "aggregator").rename(fleet.folder / "disturbed")
    (fleet.folder / "robots").rename(fleet.folder / "disturbed_robots")
    fleet.watcher.messages["/fleet/status"].clear()
    start(fleet)
    fleet.watcher.wait("/fleet/status", lambda m: m.phase == "finished", 90.0)
    assert disturbed == read_journal(fleet.folder)
    rounds, counted, _ = disturbed
    assert rounds == [0, 1, 2]
    assert counted == [(number, robot) for number in (1, 2) for robot in sorted(ROBOTS)]


def test_killed_robot_takes_its_trainer_along(fleet: Fleet) -> None:
    robot = fleet.robot("spot", source={"data": str(record(fleet.folder / "bag"))})
    trainers = fleet.watcher.until(lambda: children(robot.pid))
    robot.kill()
    fleet.watcher.until(lambda: not any(map(alive, trainers)), 10.0)


STOPPED = ["aggregator", "robot_client", "inference", "replay", "monitor"]


def make(fleet: Fleet, name: str) -> Any:
    bag = record(fleet.folder / "bag")
    if name == "robot_client":
        return fleet.robot("spot", source={"data": str(bag)})
    if name == "replay":
        return fleet.replay("spot", bag, loop=True, reliable=False)
    return {"aggregator": fleet.aggregator, "inference": fleet.inference}.get(name, lambda: fleet.node(name))()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", STOPPED)
def test_asked_to_stop_at_any_moment(fleet: Fleet, name: str, number: int) -> None:
    process, watcher = make(fleet, name), fleet.watcher
    watcher.until(lambda: name in watcher.node.get_node_names(), 30.0)
    moment_s = random.uniform(0.0, 3.0)
    wait_s(watcher, moment_s)
    owned, young = segments(process.pid), children(process.pid)
    assert process.stop(number, timeout_s=15.0) == 0, (moment_s, process.output)
    process.close()
    assert not any(map(alive, young))
    assert "Traceback" not in "".join(process.output), (moment_s, process.output)
    assert [path for path in owned if path.exists() and not held(path)] == [], (moment_s, process.output)


def wait_s(watcher: Any, seconds: float) -> None:
    """Let a random moment pass: any moment is as good as another, so nothing can be waited for."""
    with watcher._changed:
        watcher._changed.wait_for(lambda: False, seconds)


def held(segment: Path) -> bool:
    """Tell whether a living process owns a Fast DDS segment."""
    name = str(segment)
    return any(name in read_maps(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def read_maps(process: Path) -> str:
    try:
        return (process / "maps").read_text()
    except OSError:
        return ""


TINY = """
run: tiny
rounds: 50
network: {name: adabins_s, options: {height: 96, width: 96}}
strategy: {name: fedavg}
train: {local_epochs: 20}
robots:
  - {id: one, source: {data: bag}}
  - {id: two, source: {data: bag}}
test:
  - {name: unseen, source: {data: bag}}
"""


@pytest.mark.slow
def test_killed_demo_leaves_no_node_alive(fleet: Fleet, ros_process: Any) -> None:
    record(fleet.folder / "bag", frames=20)
    (fleet.folder / "fleet.yaml").write_text(TINY)
    out = fleet.folder / "out"
    command = [sys.executable, "-m", "fed_cli", "demo", "--data", str(fleet.folder / "fleet.yaml"), "--out", str(out)]
    demo = ros_process(command)
    expected = {"aggregator", "one", "two"}

    def descendants(pid: int) -> list[int]:
        found = children(pid)
        return found + [deeper for child in found for deeper in descendants(child)]

    def nodes_of(pids: list[int]) -> set[str]:
        texts = [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids if alive(pid)]
        return {name for name in expected for text in texts if f"/{name}.yaml" in text}

    fleet.watcher.until(lambda: nodes_of(descendants(demo.pid)) == expected, 40.0)
    family = descendants(demo.pid)
    demo.kill()
    fleet.watcher.until(lambda: not any(map(alive, family)), 10.0)
