"""A whole fleet end to end: two robots recorded in different years, an aggregator, live inference."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fed_msgs.msg import FleetStatus, RobotStatus, RoundPlan, Selection
from rcl_interfaces.srv import GetParameters
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image

from fed_core.data.open import open_source
from fed_nodes import qos
from fed_nodes.convert.images import depth_from_msg, stamp_ns
from scripts.write_interfaces import CLI, NODES, PUB, SRV, SUB, document, policy
from tests.ros.fleets import YEAR_NS, Fleet, Watcher, record

ROOT = Path(__file__).resolve().parents[2]
GREEN, RED = (60, 200, 60), (220, 60, 50)


@pytest.fixture(scope="module")
def trained(shared_fleet: Fleet) -> Fleet:
    """The fleet after training, with inference serving an unseen sequence; processes by name in ``nodes``."""
    fleet, watcher = shared_fleet, shared_fleet.watcher
    watcher.watch(FleetStatus, "/fleet/status", qos.LATCHED)
    watcher.watch(RoundPlan, "/fleet/round", qos.LATCHED)
    watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    watcher.watch(Clock, "/live/clock", qos.SENSORS)
    watcher.watch(Image, "/live/depth/image", qos.OUTPUTS)
    watcher.watch(CameraInfo, "/live/depth/camera_info", qos.OUTPUTS)
    nodes: dict[str, Any] = {
        "aggregator": fleet.aggregator(strategy="fedepth", seed=3),
        "monitor": fleet.node("monitor"),
    }
    for name, colour, year in (("forest", GREEN, 2009), ("brick", RED, 2024)):
        nodes[name] = fleet.robot(name)
        nodes[f"{name}_replay"] = fleet.replay(name, record(fleet.folder / f"bag_{name}", colour, year=year))
    watcher.wait("/fleet/status", lambda m: m.phase == "finished", 90.0)
    nodes["inference"] = fleet.inference()
    unseen = record(fleet.folder / "unseen", (200, 70, 60), year=2015, frames=12)
    nodes["unseen"] = fleet.replay("live", unseen, rate_hz=10.0, loop=True)
    watcher.wait("/live/depth/image", lambda m: True, 40.0)
    fleet.nodes = nodes
    return fleet


def test_the_run_finishes(trained: Fleet) -> None:
    status = trained.watcher.wait("/fleet/status", lambda m: m.phase == "finished")
    assert (status.round, status.total_rounds, status.run_id) == (2, 2, "tiny")
    assert {r.robot_id: r.updates for r in status.robots} == {"forest": 2, "brick": 2}
    assert {r.refused for r in status.robots} == {0}
    assert status.waiting_for == ""
    plan = trained.watcher.wait("/fleet/round", lambda m: m.phase == RoundPlan.FINISHED)
    assert set(plan.models) <= {blob.key for blob in plan.blobs}


def test_every_robot_keeps_its_own_time(trained: Fleet) -> None:
    for name, year in (("forest", 2009), ("brick", 2024)):
        recorded = open_source({"data": str(trained.folder / "robots" / name / "samples")}, Path())
        assert len(recorded) == 10
        assert [recorded[i].stamp_ns - (year - 1970) * YEAR_NS for i in (0, 9)] == [0, 900_000_000]
    clock = trained.watcher.wait("/live/clock", lambda m: True)
    assert 0 <= stamp_ns(clock.clock) - (2015 - 1970) * YEAR_NS < 1_200_000_000


def test_robots_report_their_progress(trained: Fleet) -> None:
    seen = [m for m in trained.watcher.messages["/fleet/robot_status"] if m.robot_id == "brick"]
    phases = [m.phase for m in seen]
    assert RobotStatus.FINISHED in phases and RobotStatus.TRAINING in phases
    last = seen[-1]
    assert last.num_samples == 10 and np.isfinite(last.loss) and last.sent_bytes > 0 and last.disk_free_bytes > 0


def test_selection_is_latched_and_names_the_cluster_of_the_like_robot(trained: Fleet) -> None:
    # A reader that comes late gets the selection: it is latched.
    trained.watcher.watch(Selection, "/live/selection", qos.LATCHED)
    selection = trained.watcher.wait("/live/selection", lambda m: True)
    status = trained.watcher.wait("/fleet/status", lambda m: m.phase == "finished")
    clusters = {r.robot_id: set(r.clusters) for r in status.robots}
    assert set(selection.clusters) & clusters["brick"], f"{selection} does not use the models of {clusters}"
    assert selection.run_id == "tiny" and selection.round == 2
    assert selection.num_frames == 4
    assert re.fullmatch(r"sequence_\d+", selection.sequence)
    assert selection.header.frame_id == "unseen_optical"
    assert len(selection.models) == len(selection.clusters)


def test_output_is_depth_in_metres_of_the_input_image(trained: Fleet) -> None:
    depth = trained.watcher.wait("/live/depth/image", lambda m: True)
    assert (depth.encoding, depth.height, depth.width) == ("32FC1", 48, 64)
    assert depth.header.frame_id == "unseen_optical"
    offset_ns = stamp_ns(depth.header.stamp) - (2015 - 1970) * YEAR_NS
    assert offset_ns % 100_000_000 == 0 and 0 <= offset_ns < 12 * 100_000_000
    values = depth_from_msg(depth)
    assert np.isfinite(values).all() and (values > 0.05).all() and (values <= 20.0).all()
    info = trained.watcher.wait("/live/depth/camera_info", lambda m: m.header.stamp == depth.header.stamp)
    assert info.header.frame_id == "unseen_optical" and info.k[0] == 60.0 and (info.height, info.width) == (48, 64)


def test_pytorch_is_loaded_only_where_networks_run(trained: Fleet) -> None:
    def loads_torch(pid: int) -> bool:
        return "libtorch" in Path(f"/proc/{pid}/maps").read_text()

    nodes = trained.nodes
    light = ("aggregator", "forest", "brick", "forest_replay", "monitor")
    assert [name for name in light if loads_torch(nodes[name].pid)] == []
    assert loads_torch(nodes["inference"].pid)
    trainers = [pid for pid in children(nodes["brick"].pid) if loads_torch(pid)]
    assert len(trainers) == 1


def children(pid: int) -> list[int]:
    return [int(p) for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()]


def test_parameters_tell_their_bounds(trained: Fleet) -> None:
    client = trained.watcher.node.create_client(GetParameters, "/aggregator/get_parameters")
    trained.watcher.until(client.service_is_ready)
    answer = trained.watcher.call(client, GetParameters.Request(names=["rounds", "strategy"]))
    assert answer.values[0].integer_value == 2 and answer.values[1].string_value == "fedepth"


def hidden(name: str, node: str) -> bool:
    """Tell whether every ROS node, or every lifecycle node, has this."""
    own = f"/{node}/"
    return name in ("/rosout", "/parameter_events") or own in name or name.endswith("_event")


def live_rows(watcher: Watcher, node: str, namespace: str) -> set[tuple[str, str, str, tuple[str, str] | None]]:
    """Return (way, name, type, reliability and durability) of all that a running node has."""
    graph, rows = watcher.node, set()
    for way, names, infos in (
        (PUB, graph.get_publisher_names_and_types_by_node, graph.get_publishers_info_by_topic),
        (SUB, graph.get_subscriber_names_and_types_by_node, graph.get_subscriptions_info_by_topic),
    ):
        for topic, types in names(node, namespace):
            ends = [e for e in infos(topic) if (e.node_name, e.node_namespace) == (node, namespace)]
            rows |= {(way, topic, types[0], policy(end.qos_profile)) for end in ends if not hidden(topic, node)}
    for way, names in (
        (SRV, graph.get_service_names_and_types_by_node),
        (CLI, graph.get_client_names_and_types_by_node),
    ):
        rows |= {(way, name, types[0], None) for name, types in names(node, namespace) if not hidden(name, node)}
    return rows


def told_rows(node: str, namespace: str, reliable: bool) -> set[tuple[str, str, str, tuple[str, str] | None]]:
    """Return the same of the documented table, names filled in."""
    rows = set()
    for row in NODES[node]:
        reader = {"inference": "live_inference"}.get(node, namespace.strip("/"))
        profile = row.qos
        if profile in ("SENSORS", "DRIVERS") and reliable and row.name != "clock":
            profile = "SENSORS_RELIABLE"
        readers = ("forest", "brick", "live_inference") if row.name.endswith("<reader>") else ("forest", "brick")
        for other in readers:
            name = row.name.replace("<fleet_ns>", "/fleet").replace("<reader_id>", reader).replace("<reader>", other)
            name = name.replace("<inference>", "live")
            name = name.replace("<robot>", reader if node == "robot_client" else other)
            name = name if name.startswith("/") else f"{namespace.rstrip('/')}/{name}"
            is_topic = row.way in (PUB, SUB)
            rows.add((row.way, name, row.type, policy(getattr(qos, profile)) if is_topic else None))
    return rows


@pytest.mark.parametrize(
    ("node", "namespace"),
    [
        ("aggregator", "/"),
        ("robot_client", "/brick"),
        ("inference", "/live"),
        ("replay", "/live"),
        ("monitor", "/"),
    ],
)
def test_graph_is_as_documented(trained: Fleet, node: str, namespace: str) -> None:
    told = told_rows(node, namespace, reliable=node in ("inference", "replay"))
    if node == "robot_client":  # it has recorded enough and listens to its sensors no more
        told = {row for row in told if "/camera/" not in row[1]}
    watcher, live = trained.watcher, set[Any]()

    def as_told() -> bool:  # ends are announced beside the data: a lost announcement comes again seconds after it
        live.clear()
        live.update(live_rows(watcher, node, namespace))
        return live == told

    watcher.until(as_told, tell=lambda: f"only live: {live - told}; only documented: {told - live}")


def test_interfaces_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "interfaces.md").read_text(encoding="utf-8")
    assert page == document(), "run scripts/write_interfaces.py"
