"""A fleet of detectors over DDS: own layers of a robot live through SIGKILL and damage; masks are checked."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fed_msgs.msg import FleetStatus, LayerMask, RobotStatus, RoundPlan

from fed_core.errors import Refusal
from fed_core.strategies.base import make_strategy
from fed_core.wire.codec import open_tensors
from fed_nodes import qos
from tests.core.data.nuscenes_trees import CAMERAS, write_scenes
from tests.ros.fleets import Fleet
from tests.ros.liar import Liar

pytestmark = pytest.mark.timeout(300)

ROBOTS = {"day": "sunny", "rain": "rain"}
NETWORK: dict[str, Any] = {"task": "detection", "network": "cmt_tiny", "network_options": {"queries": 20, "noise": 20}}
#: Layers that drift at all stay on the robot.
STRATEGY = {"strategy": "fedcka", "strategy_options": {"tau": 0.999, "frames": 2}}
TRAIN = {"lr": 5e-3, "batch_size": 2, "local_epochs": 1}
FINISHED = "/fleet/status"


def watch(fleet: Fleet) -> None:
    fleet.watcher.watch(FleetStatus, FINISHED, qos.LATCHED)
    fleet.watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    fleet.watcher.watch(LayerMask, "/fleet/masks", qos.UPDATES)


def robot(fleet: Fleet, name: str) -> Any:
    root = fleet.folder / f"drives_{name}"
    if not root.exists():
        write_scenes(root, [(f"scene-{name}", "boston-seaport", ROBOTS[name], "train")])
    return fleet.robot(name, **NETWORK, source={"data": str(root), "options": {"cameras": list(CAMERAS), "sweeps": 0}})


def start(fleet: Fleet, rounds: int = 3, names: tuple[str, ...] = tuple(ROBOTS)) -> dict[str, Any]:
    nodes = {"aggregator": fleet.aggregator(**NETWORK, **STRATEGY, train=TRAIN, rounds=rounds, min_robots=2)}
    return nodes | {name: robot(fleet, name) for name in names}


def kill_when_reported(fleet: Fleet, nodes: dict[str, Any], name: str, number: int) -> None:
    """Kill a robot between two rounds: its update is ready, the next round has not begun for it."""
    fleet.watcher.wait(
        "/fleet/robot_status",
        lambda m: (m.robot_id, m.round, m.phase) == (name, number, RobotStatus.REPORTED),
        120.0,
    )
    nodes[name].kill()


def own_file(fleet: Fleet, name: str, number: int) -> Path:
    return fleet.folder / "robots" / name / "rounds" / "tiny" / f"{number}" / "own.safetensors"


def outcome(fleet: Fleet) -> tuple[list[Any], dict[str, str], dict[str, bytes]]:
    """Return the mask of each update by round and robot, the last models, and what each robot ended with."""
    with sqlite3.connect(fleet.folder / "aggregator" / "tiny" / "journal.sqlite") as db:
        reports = list(db.execute("SELECT round, robot_id, report FROM updates ORDER BY round, robot_id"))
        models = dict(db.execute("SELECT key, digest FROM models WHERE round = (SELECT MAX(round) FROM models)"))
    db.close()
    masks = [(number, name, json.loads(text)["mask"]) for number, name, text in reports]
    return masks, models, {name: own_file(fleet, name, 3).read_bytes() for name in ROBOTS}


@pytest.mark.slow
def test_a_robot_killed_between_rounds_goes_on_with_its_own_layers_and_mask(fleet: Fleet) -> None:
    watch(fleet)
    nodes = start(fleet)
    kill_when_reported(fleet, nodes, "rain", 2)
    nodes["rain"] = robot(fleet, "rain")
    fleet.watcher.wait(FINISHED, lambda m: m.phase == "finished", 120.0)
    disturbed = outcome(fleet)
    for node in nodes.values():
        assert node.stop() == 0
    # The same again, undisturbed, in the same folders under another name.
    (fleet.folder / "aggregator").rename(fleet.folder / "disturbed")
    (fleet.folder / "robots").rename(fleet.folder / "disturbed_robots")
    fleet.watcher.messages[FINISHED].clear()
    start(fleet)
    fleet.watcher.wait(FINISHED, lambda m: m.phase == "finished", 120.0)
    assert disturbed == outcome(fleet)

    masks, models, own = disturbed
    shared = {(number, name): mask for number, name, mask in masks}
    assert sorted(shared) == [(number, name) for number in (1, 2, 3) for name in sorted(ROBOTS)]
    assert shared[1, "rain"] is None  # the first round is FedAvg
    assert 0 < sum(shared[3, "rain"]) < len(shared[3, "rain"])  # some layers are its own, some are shared
    assert own["rain"] != own["day"]


def test_a_robot_whose_own_layers_are_damaged_says_so_and_the_round_goes_on(fleet: Fleet) -> None:
    watch(fleet)
    nodes = start(fleet)
    kill_when_reported(fleet, nodes, "rain", 2)
    path = own_file(fleet, "rain", 2)
    path.write_bytes(path.read_bytes()[:100])
    nodes["rain"] = robot(fleet, "rain")
    nodes["rain"].wait_line(
        r".*\[rain.robot_client\]: .*2/own.safetensors cannot be used .*; the robot starts from the global layers", 90.0
    )
    fleet.watcher.wait(FINISHED, lambda m: m.phase == "finished", 120.0)
    masks, _, _ = outcome(fleet)
    assert [(number, name) for number, name, _ in masks][-2:] == [(3, "day"), (3, "rain")]  # both count in round 3


def test_a_mask_of_another_model_is_refused_by_number_and_the_round_goes_on(fleet: Fleet) -> None:
    from fed_models import build, signature

    signed = signature(build(NETWORK["network"], NETWORK["network_options"]), NETWORK["network"])
    units = make_strategy(STRATEGY["strategy"], STRATEGY["strategy_options"]).units(signed)
    mask = np.ones(len(units), bool)
    mask[0] = False
    watch(fleet)
    fleet.watcher.watch(RoundPlan, "/fleet/round", qos.LATCHED)
    start(fleet, rounds=1, names=("day",))
    liar = Liar(fleet, "liar", "detection", "cmt_tiny")
    try:
        liar.register(signed.digest)
        plan = fleet.watcher.wait("/fleet/round", lambda m: m.round == 1, 90.0)
        blob = fleet.folder / "aggregator" / "tiny" / "blobs" / plan.blobs[0].digest
        strategy = make_strategy(STRATEGY["strategy"], STRATEGY["strategy_options"])
        sent = {name: open_tensors(blob)[name] for name in sorted(strategy.uploads(signed, mask))}
        liar.report(plan, sent, mask, "f" * 64)

        def refused(status: FleetStatus) -> bool:
            return any(r.robot_id == "liar" and r.refused for r in status.robots)

        status = fleet.watcher.wait(FINISHED, refused, 60.0)
        (state,) = (r for r in status.robots if r.robot_id == "liar")
        assert state.last_code == Refusal.WRONG_MODEL == 3
        told = f"the mask belongs to model {'f' * 12}, this run learns {signed.digest[:12]}; use one network"
        assert state.last_text.startswith(told)
        liar.report(plan, sent, mask, signed.digest)  # it mends its ways
        fleet.watcher.wait(FINISHED, lambda m: m.phase == "finished", 90.0)
    finally:
        liar.channel.close()
