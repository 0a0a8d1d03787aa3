"""The launch files: read as source everywhere, and generated where ROS's launch is installed."""

import ast
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "launch"
FILES = sorted(LAUNCH.glob("*.launch.py"))
NODES = {"aggregator": "aggregator", "robot": "robot_client", "inference": "inference", "replay": "replay"}
SHARED = {"fleet_ns", "localhost", "fastdds_profile", "respawn", "log_level"}
TINY = """
run: tiny
rounds: 2
strategy: {name: fedepth, options: {tau_quantile: 0.5}}
robots:
  - {id: uav, frames: 4, source: {generated: {platform: uav, environment: forest, frames: 4}}}
  - {id: spot1, frames: 4}
"""

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def calls(path: Path, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def arguments(path: Path) -> dict[str, dict[str, ast.expr]]:
    """Return, by argument, the keywords of its declaration."""
    found = {}
    for call in calls(path, "DeclareLaunchArgument"):
        assert isinstance(call.args[0], ast.Constant), f"{path.name}:{call.lineno}"
        found[str(call.args[0].value)] = {str(word.arg): word.value for word in call.keywords}
    return found


# ---- as source ---------------------------------------------------------------------------------------------------


def test_there_is_a_launch_file_for_the_fleet_and_for_each_node() -> None:
    assert {path.name.split(".")[0] for path in FILES} == {"fleet", *NODES}


@every_file
def test_every_argument_is_documented(path: Path) -> None:
    for name, words in arguments(path).items():
        text = words.get("description")
        assert isinstance(text, ast.Constant) and len(str(text.value)) > 8, f"{path.name}: {name} has no description"


def test_shared_arguments_are_documented() -> None:
    found = arguments(LAUNCH / "node_actions.py")
    assert set(found) == SHARED
    assert all("description" in words and "default_value" in words for words in found.values())


@every_file
def test_required_arguments_are_few(path: Path) -> None:
    required = {name for name, words in arguments(path).items() if "default_value" not in words}
    expected = {"fleet": {"fleet"}, "robot": {"robot_id"}, "replay": {"namespace"}}
    assert required == expected.get(path.name.split(".")[0], set())


@every_file
def test_docstring_shows_a_command_with_existing_arguments(path: Path) -> None:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    lines = [line.strip() for line in doc.splitlines() if "ros2 launch" in line]
    assert lines and all(line.startswith(f"ros2 launch fed_perception {path.name} ") for line in lines)
    known = {*arguments(path), *SHARED, "image", "depth", "info"}
    used = {word.split(":=")[0] for line in lines for word in line.split() if ":=" in word}
    assert used and used <= known


@pytest.mark.parametrize("path", sorted(LAUNCH.glob("*.py")), ids=lambda path: path.name)
def test_referenced_config_files_exist(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and str(n.value).startswith("config/")]
    assert all((ROOT / str(name)).is_file() for name in named), named
    if path.name.split(".")[0] in NODES:
        assert named[0] == f"config/{NODES[path.name.split('.')[0]]}.yaml"


@pytest.mark.parametrize("name", ["robot", "inference", "fleet"])
def test_readers_of_sensors_can_follow_the_clock_of_a_replay(name: str) -> None:
    assert "use_sim_time" in arguments(LAUNCH / f"{name}.launch.py")


def test_no_two_launch_files_have_the_same_body() -> None:
    bodies = {}
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                text = ast.unparse(node)
                assert text not in bodies, f"{path.name} and {bodies[text]} both hold {node.name}"
                bodies[text] = path.name


# ---- generated ---------------------------------------------------------------------------------------------------


@pytest.fixture
def launch_ros(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # `import launch` alone would find the folder launch/ of this repository as a namespace package.
    module = pytest.importorskip(
        "launch_ros.actions", reason="launch_ros comes with an installed ROS 2, not as a wheel"
    )
    monkeypatch.delenv("FASTDDS_DEFAULT_PROFILES_FILE", raising=False)
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE", raising=False)
    return module


def visit(path: Path, **given: str) -> tuple[list[Any], Any]:
    """Return the node actions that a launch file makes of its arguments, and the context."""
    from launch import LaunchContext
    from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
    from launch_ros.actions import Node

    spec = importlib.util.spec_from_file_location("launch_file", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = LaunchContext()
    context.launch_configurations.update(given)
    nodes = []
    waiting = list(module.generate_launch_description().entities)
    while waiting:
        entity = waiting.pop(0)
        if isinstance(entity, Node):
            nodes.append(entity)
        elif isinstance(entity, DeclareLaunchArgument | OpaqueFunction | SetEnvironmentVariable):
            waiting = [*(entity.visit(context) or []), *waiting]
    return nodes, context


def prepared(node: Any, context: Any) -> tuple[str, dict[str, Any], list[tuple[str, str]]]:
    """Return full name, own parameters (those not from a file) and remappings."""
    from launch_ros.utilities import evaluate_parameters

    node._perform_substitutions(context)
    sets = evaluate_parameters(context, node._Node__parameters)
    own = {key: value for tree in sets if isinstance(tree, dict) for key, value in tree.items()}
    return node.node_name, own, list(node.expanded_remapping_rules or [])


def test_fleet_starts_what_the_file_says(launch_ros: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    folder = str(tmp_path / "run")
    nodes, context = visit(LAUNCH / "fleet.launch.py", fleet=str(tmp_path / "tiny.yaml"), folder=folder)
    found = {name: own for name, own, _ in (prepared(node, context) for node in nodes)}
    assert set(found) == {
        "/aggregator",
        "/uav/robot_client",
        "/uav/replay",
        "/spot1/robot_client",
        "/live/inference",
    }
    assert found["/aggregator"]["strategy_options"] == '{"tau_quantile": 0.5}'
    assert found["/aggregator"]["rounds"] == 2
    assert found["/uav/robot_client"]["state_dir"] == f"{folder}/robots/uav"
    assert (found["/uav/robot_client"]["reliable_sensors"], found["/uav/replay"]["reliable"]) == (True, True)
    assert found["/spot1/robot_client"]["reliable_sensors"] is False


def test_fleet_starts_only_what_is_asked(launch_ros: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    nodes, _ = visit(LAUNCH / "fleet.launch.py", fleet=str(tmp_path / "tiny.yaml"), only="spot1,aggregator")
    assert len(nodes) == 2
    with pytest.raises(Exception, match="only names spot2; this fleet has aggregator, uav, uav_replay, spot1"):
        visit(LAUNCH / "fleet.launch.py", fleet=str(tmp_path / "tiny.yaml"), only="spot2")


def test_robot_gets_its_namespace_topics_and_clock(launch_ros: ModuleType) -> None:
    given = {"robot_id": "on", "image": "/colour", "use_sim_time": "true", "record_frames": "12"}
    (node,), context = visit(LAUNCH / "robot.launch.py", **given)  # "on" must stay a text
    name, own, remapped = prepared(node, context)
    assert name == "/on/robot_client"
    assert own == {"robot_id": "on", "state_dir": "robots/on", "record_frames": 12, "use_sim_time": True}
    assert remapped == [("camera/image_raw", "/colour"), ("/clock", "clock")]


def test_a_robot_with_a_lidar_or_a_second_camera_names_their_topics(launch_ros: ModuleType) -> None:
    given = {"robot_id": "spot1", "points": "/velodyne_points", "right_image": "/r/image", "right_info": "/r/info"}
    (node,), context = visit(LAUNCH / "robot.launch.py", **given)
    assert prepared(node, context)[2] == [
        ("lidar/points", "/velodyne_points"),
        ("camera/right/image_raw", "/r/image"),
        ("camera/right/camera_info", "/r/info"),
    ]


def test_an_own_parameter_file_is_not_overruled(launch_ros: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("/**:\n  ros__parameters:\n    state_dir: /data/spot1\n")
    (node,), context = visit(LAUNCH / "robot.launch.py", robot_id="spot1", params_file=str(tmp_path / "mine.yaml"))
    assert prepared(node, context)[1] == {"robot_id": "spot1", "use_sim_time": False}


def test_a_robot_and_its_inference_share_a_process(launch_ros: ModuleType) -> None:
    given = {"robot_id": "spot1", "composed": "true", "image": "/colour", "use_sim_time": "true", "fleet_ns": "/yard"}
    (process,), context = visit(LAUNCH / "robot.launch.py", **given)
    process._perform_substitutions(context)
    command = [str(part[0].text) for part in process.cmd[1:3]]
    assert command == ["robot_client", "inference"]
    assert process.expanded_node_namespace == "/spot1"
    assert not [part for part in process.cmd if "__node" in str(part)]  # it would rename both
    files = [path for path, _ in process._Node__expanded_parameter_arguments]
    assert files[:2] == [str(ROOT / "config/robot_client.yaml"), str(ROOT / "config/inference.yaml")]
    own = yaml.safe_load(Path(files[2]).read_text())
    robot = {"robot_id": "spot1", "state_dir": "robots/spot1", "fleet_ns": "/yard"}
    live = {"robot_id": "spot1", "robot_dir": "robots/spot1", "fleet_ns": "/yard"}
    live |= {"reader_id": "spot1_inference", "state_dir": "inference/spot1_inference"}
    assert own["/**/robot_client"]["ros__parameters"] == robot
    assert own["/**/inference"]["ros__parameters"] == live
    assert own["/**"]["ros__parameters"] == {"use_sim_time": True}


def test_inference_is_a_lifecycle_node_that_may_wait(launch_ros: ModuleType) -> None:
    (node,), context = visit(LAUNCH / "inference.launch.py", namespace="/spot1", autostart="false")
    assert isinstance(node, launch_ros.LifecycleNode)
    name, own, _ = prepared(node, context)
    assert name == "/spot1/inference"
    assert (own["autostart"], own["reader_id"]) == (False, "spot1_inference")


@pytest.mark.parametrize("profile", ["", "none"])
def test_network_variables_follow_the_arguments(
    launch_ros: ModuleType, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # launch writes there
    given = {"fastdds_profile": profile} if profile else {}
    _, context = visit(LAUNCH / "aggregator.launch.py", localhost="true", **given)
    assert context.environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    expected = None if profile else str(ROOT / "config/fastdds/fleet.xml")
    assert context.environment.get("FASTDDS_DEFAULT_PROFILES_FILE") == expected
