"""What people expect of every node: exit codes, parameters that survive a dump, topics that can be remapped."""

import dataclasses
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.parameter import Parameter, parameter_value_to_python

from fed_nodes import params, qos
from scripts.write_interfaces import CLI, NODES, SRV
from scripts.write_interfaces import PARAMETERS as CLASSES
from tests.ros.fleets import NETWORK, Fleet, record

PARAMETERS: dict[str, dict[str, Any]] = {
    "aggregator": {"network_options": NETWORK, "rounds": 3, "round_deadline_s": 120.0, "strategy": "fedavg"},
    "robot_client": {"robot_id": "spot", "record_frames": 12, "network_options": {**NETWORK, "note": "a b: {c}" * 30}},
    "inference": {"autostart": False, "descriptor_frames": 6, "gap_s": 2.5},
    "replay": {"rate_hz": 7.5, "loop": True},
    "monitor": {"fleet_ns": "/yard"},
}


def start(fleet: Fleet, name: str, *arguments: str, **changed: Any) -> Any:
    """Start a node in namespace ``/spot`` with parameters of a test."""
    values = {**PARAMETERS[name], **changed}
    if name == "aggregator":
        values.setdefault("runs_dir", fleet.folder / "runs")
    if name in ("robot_client", "inference"):
        values.setdefault("state_dir", fleet.folder / name)
    if name == "replay":
        bag = fleet.folder / "bag"
        values.setdefault("source", {"data": str(bag if bag.exists() else record(bag))})
    return fleet.node(name, "spot", **values)


def wait_for(fleet: Fleet, *names: str) -> None:
    """Wait until nodes tell that they run."""
    topic = "/diagnostics"
    if topic not in fleet.watcher.messages:
        fleet.watcher.watch(DiagnosticArray, topic, qos.DIAGNOSTICS)
    for name in names:
        fleet.watcher.wait(topic, lambda msg, name=name: msg.status[0].name == f"/spot/{name}: state", 90.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_every_node_ends_with_0_when_it_is_told_to(fleet: Fleet, number: int) -> None:
    processes = {name: start(fleet, name) for name in PARAMETERS}
    wait_for(fleet, *PARAMETERS)
    codes = {name: process.stop(number, 30.0) for name, process in processes.items()}
    assert codes == dict.fromkeys(PARAMETERS, 0)
    assert not [line for p in processes.values() for line in p.output if "Traceback" in line]


def test_every_node_ends_with_2_and_one_line_for_a_bad_parameter(fleet: Fleet) -> None:
    bad = {
        "aggregator": {"liveness_s": 0.0},
        "robot_client": {"slop_s": -1.0},
        "inference": {"min_score": 1.5},
        "replay": {"rate_hz": 0.0},
        "monitor": {"fleet_ns": 5},
    }
    processes = {name: start(fleet, name, **values) for name, values in bad.items()}
    for name, process in processes.items():
        assert process.wait(60.0) == 2, name
        process.close()
        errors = [line for line in process.output if line.startswith("error: ")]
        assert len(errors) == 1 and next(iter(bad[name])) in errors[0], process.output
        assert not any("Traceback" in line for line in process.output), process.output


@pytest.mark.parametrize("arguments", [["--params-file", "/nowhere.yaml"], ["-p", "fleet_ns"], ["--no-such", "x"]])
def test_bad_ros_arguments_end_with_2_and_one_line_of_ours(ros_process: Any, arguments: list[str]) -> None:
    process = ros_process([sys.executable, "-m", "fed_nodes.monitor", "--ros-args", *arguments])
    assert process.wait(60.0) == 2
    process.close()
    assert len([line for line in process.output if line.startswith("error: ")]) == 1
    assert not any("Traceback" in line for line in process.output)


# ---- parameters ----------------------------------------------------------------------------------------------------


def dump(fleet: Fleet, node: str) -> dict[str, Any]:
    """Return all parameters of a node as ``ros2 param dump`` reads them: by the services of the node."""
    watcher = fleet.watcher
    clients = {
        kind: watcher.node.create_client(kind, f"{node}/{kind.__name__.replace('P', '_p').lower()}")
        for kind in (ListParameters, GetParameters)
    }
    for client in clients.values():
        assert client.wait_for_service(30.0)
    names = watcher.call(clients[ListParameters], ListParameters.Request()).result.names
    values = watcher.call(clients[GetParameters], GetParameters.Request(names=names)).values
    return dict(zip(names, map(parameter_value_to_python, values), strict=True))


def frozen(fleet: Fleet, node: str, names: Iterable[str]) -> dict[str, bool]:
    """Return which parameters cannot be changed."""
    client = fleet.watcher.node.create_client(DescribeParameters, f"{node}/describe_parameters")
    assert client.wait_for_service(30.0)
    found = fleet.watcher.call(client, DescribeParameters.Request(names=list(names))).descriptors
    return {descriptor.name: descriptor.read_only for descriptor in found}


def write(path: Path, node: str, values: dict[str, Any]) -> Path:
    """Write a dump as ``ros2 param dump`` does, dots as nested keys."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *folders, last = name.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    path.write_text(yaml.dump({node: {"ros__parameters": tree}}, default_flow_style=False))
    return path


@pytest.mark.parametrize("name", ["aggregator", "robot_client", "inference", "replay"])
def test_a_dump_starts_the_same_node_again(fleet: Fleet, name: str) -> None:
    node, first = f"/spot/{name}", start(fleet, name)
    before = dump(fleet, node)
    for key, value in PARAMETERS[name].items():
        assert (yaml.safe_load(before[key]) if isinstance(value, dict) else before[key]) == value
    ours = [field for cls in CLASSES[name] for field in dataclasses.fields(cls)]
    assert {field.name for field in ours} <= set(before)
    assert frozen(fleet, node, [f.name for f in ours]) == {f.name: not params.is_live(f) for f in ours}
    assert first.stop(signal.SIGINT, 30.0) == 0
    path = write(fleet.folder / "dump.yaml", node, before)
    command = [sys.executable, "-m", f"fed_nodes.{name}", "--ros-args", "-r", "__ns:=/spot", "--params-file", str(path)]
    second = fleet._start(command)
    assert dump(fleet, node) == before
    assert second.stop(signal.SIGINT, 30.0) == 0


def test_a_live_parameter_is_changed_by_its_service_and_stands_in_the_next_dump(fleet: Fleet) -> None:
    process = start(fleet, "aggregator")
    assert dump(fleet, "/spot/aggregator")["liveness_s"] == 10.0
    client = fleet.watcher.node.create_client(SetParameters, "/spot/aggregator/set_parameters")
    assert client.wait_for_service(30.0)

    def change(name: str, value: Any) -> str:
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        result = fleet.watcher.call(client, request).results[0]
        assert result.successful == (not result.reason)
        return str(result.reason)

    assert change("liveness_s", 20.0) == ""
    process.wait_line(r".*liveness_s is now 20.0")
    assert "out of range" in change("liveness_s", 0.5)
    assert "a round might never close; lower min_updates or raise min_robots" in change("min_updates", 3)
    assert "read-only" in change("rounds", 5)
    after = dump(fleet, "/spot/aggregator")
    assert (after["liveness_s"], after["min_updates"], after["rounds"]) == (20.0, 1, 3)


# ---- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["robot_client", "inference"])
def test_every_relative_name_can_be_remapped(fleet: Fleet, name: str) -> None:
    relative = [row.name for row in NODES[name] if row.way != CLI and not row.name.startswith(("/", "<"))]
    services = {row.name for row in NODES[name] if row.way == SRV}
    path = fleet.folder / "params.yaml"
    values = {"state_dir": str(fleet.folder / "state"), **PARAMETERS[name], "autostart": True}
    values = {key: yaml.safe_dump(value) if isinstance(value, dict) else value for key, value in values.items()}
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
    command = [sys.executable, "-m", f"fed_nodes.{name}", "--ros-args", "-r", "__ns:=/spot", "--params-file", str(path)]
    for topic in relative:
        command += ["-r", f"{topic}:=/elsewhere/{topic}"]
    fleet._start(command)
    node = fleet.watcher.node

    def found() -> set[str]:
        try:
            topics = [
                *node.get_publisher_names_and_types_by_node(name, "/spot"),
                *node.get_subscriber_names_and_types_by_node(name, "/spot"),
                *node.get_service_names_and_types_by_node(name, "/spot"),
            ]
        except Exception:  # it is not there yet
            return set()
        return {topic for topic, _ in topics}

    wanted = {f"/elsewhere/{topic}" for topic in relative}
    fleet.watcher.until(lambda: wanted <= found(), 90.0)
    left = {topic for topic in found() if topic.startswith("/spot/") and not topic.startswith(f"/spot/{name}/")}
    assert left == set()
    assert services <= set(relative)


def test_nodes_of_one_process_have_their_own_names_and_parameters(fleet: Fleet) -> None:
    folder = fleet.folder
    values = {
        "/**/robot_client": {"robot_id": "spot", "state_dir": str(folder / "robot"), "record_frames": 12},
        "/**/inference": {"state_dir": str(folder / "live"), "autostart": False, "gap_s": 2.5},
    }
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump({node: {"ros__parameters": own} for node, own in values.items()}))
    command = [sys.executable, "-m", "fed_nodes.composed", "robot_client", "inference", "--ros-args"]
    command += ["-r", "inference:__ns:=/spot/live", "-r", "__ns:=/spot", "--params-file", str(path)]
    process = fleet._start(command)
    assert dump(fleet, "/spot/robot_client")["record_frames"] == 12
    assert dump(fleet, "/spot/live/inference")["gap_s"] == 2.5
    assert process.stop(signal.SIGTERM, 30.0) == 0
    assert not [line for line in process.output if re.search("Traceback|ignored unknown", line)]
