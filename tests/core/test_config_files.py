"""The parameter files in config/ hold every parameter of their node, with its help text and its default."""

import dataclasses
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fed_core.config import from_tree, read_yaml, to_tree
from fed_core.fleet import load_fleet
from fed_core.roles.membership import AggregatorConfig
from fed_core.roles.robot import RobotConfig

CONFIG = Path(__file__).resolve().parents[2] / "config"
#: Dataclasses of each node, in the order of the file; those of fed_nodes by name, since they need ROS.
NODES: dict[str, tuple[Any, ...]] = {
    "aggregator": ("fed_nodes.aggregator.RunParameters", AggregatorConfig),
    "robot_client": (
        RobotConfig,
        "fed_nodes.robot_client.RobotParameters",
        "fed_nodes.training.limits.TrainingLimits",
        "fed_nodes.training.yielding.YieldingConfig",
        "fed_nodes.recording.recorder.RecorderConfig",
    ),
    "inference": ("fed_nodes.inference.InferenceConfig",),
    "replay": ("fed_nodes.replay.ReplayConfig",),
    "monitor": ("fed_nodes.monitor.MonitorConfig",),
    "control": ("fed_nodes.control.ControlConfig",),
}
every_node = pytest.mark.parametrize("node", NODES)


def parameters(node: str) -> dict[str, Any]:
    tree = read_yaml(CONFIG / f"{node}.yaml")
    assert list(tree) == [f"/**/{node}"]  # any namespace
    assert list(tree[f"/**/{node}"]) == ["ros__parameters"]
    found: dict[str, Any] = tree[f"/**/{node}"]["ros__parameters"]
    return found


def fields(node: str) -> list[tuple[type, "dataclasses.Field[Any]"]]:
    found = []
    for cls in NODES[node]:
        if isinstance(cls, str):
            pytest.importorskip("rclpy", reason="the node's own options are read from fed_nodes, which needs ROS 2")
            module, _, name = cls.rpartition(".")
            cls = getattr(import_module(module), name)
        found += [(cls, field) for field in dataclasses.fields(cls)]
    return found


def is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def comment(field: "dataclasses.Field[Any]") -> str:
    """Return what stands above a parameter, the same as `ros2 param describe` shows."""
    unit, choices = field.metadata.get("unit", ""), ", ".join(field.metadata.get("choices", ()))
    return field.metadata["help"] + (f" [{unit}]" if unit else "") + (f"; one of {choices}" if choices else "")


def test_every_node_has_its_file() -> None:
    assert {path.stem for path in CONFIG.glob("*.yaml")} == set(NODES)


@every_node
def test_values_are_plain(node: str) -> None:
    # ROS parameters have no nested values; trees are texts.
    assert all(isinstance(value, bool | int | float | str) for value in parameters(node).values())


@every_node
def test_file_has_the_parameters_of_the_node(node: str) -> None:
    assert list(parameters(node)) == [field.name for _, field in fields(node) if not is_required(field)]


@every_node
def test_values_are_the_defaults(node: str) -> None:
    import yaml

    given = parameters(node)
    for cls, field in fields(node):
        if is_required(field):
            continue
        default = field.default_factory() if field.default is dataclasses.MISSING else field.default  # type: ignore[misc]
        tree, value = to_tree(default), given[field.name]
        if isinstance(tree, dict):
            value = yaml.safe_load(value)
        where = f"config/{node}.yaml: {field.name} of {cls.__name__}"
        # ROS tells 1 from 1.0, so the type counts too.
        assert (type(value), value) == (type(tree), tree), where


@every_node
def test_every_parameter_has_its_help_text_above(node: str) -> None:
    lines = [line.strip() for line in (CONFIG / f"{node}.yaml").read_text(encoding="utf-8").splitlines()]
    for _, field in fields(node):
        place = [i for i, line in enumerate(lines) if re.match(rf"(# )?{field.name}: ", line)]
        assert len(place) == 1, f"config/{node}.yaml: {field.name} stands there {len(place)} times"
        assert lines[place[0] - 1] == f"# {comment(field)}", f"config/{node}.yaml: comment above {field.name}"


def test_files_of_the_core_roles_build_them() -> None:
    names = {field.name for field in dataclasses.fields(AggregatorConfig)}
    tree = {name: value for name, value in parameters("aggregator").items() if name in names}
    assert from_tree(AggregatorConfig, tree) == AggregatorConfig()


@pytest.mark.parametrize("path", sorted((CONFIG / "fleet").glob("*.yaml")), ids=lambda path: path.name)
def test_fleet_files_can_be_read(path: Path) -> None:
    assert load_fleet(path).robots
