"""Configuration dataclasses as ROS parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rcl_interfaces.msg import ParameterType
from rclpy.node import Node

from fed_core.config import check, option
from fed_core.errors import ConfigError
from fed_nodes import params


@dataclass(frozen=True)
class Shape:
    sides: int = option(4, help="sides", low=3)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Config:
    name: str = option(help="who it is")
    count: int = option(3, help="how many", unit="count", low=1, high=10)
    rate: float = option(2.0, help="how often", unit="Hz", low=0.5, high=50.0)
    big: int = option(5, help="no upper bound", low=0)
    flag: bool = option(False, help="whether")
    kind: str = option("a", help="which", choices=("a", "b"))
    folder: Path = option(Path("x"), help="where")
    tree: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "anything"})
    shape: Shape | None = option(None, help="form")

    def __post_init__(self) -> None:
        check(self)


Make = Callable[..., Node]


def test_defaults_and_values(make_node: Make) -> None:
    assert params.load(make_node(name="spot"), Config) == Config("spot")
    node = make_node(name="spot", count=10, rate=0.5, flag=True, kind="b", folder="/tmp/y", tree="{a: [1, 2.5]}")
    assert params.load(node, Config) == Config("spot", 10, 0.5, 5, True, "b", Path("/tmp/y"), {"a": [1, 2.5]})


def test_nested_dataclass_from_yaml_text(make_node: Make) -> None:
    assert params.load(make_node(name="spot", shape="sides: 5"), Config).shape == Shape(5)


def test_descriptors_tell_help_unit_and_bounds(make_node: Make) -> None:
    node = make_node(name="spot")
    params.load(node, Config)
    count, rate, big, kind = node.describe_parameters(["count", "rate", "big", "kind"])
    assert count.type == ParameterType.PARAMETER_INTEGER and count.description == "how many [count]"
    assert (count.integer_range[0].from_value, count.integer_range[0].to_value) == (1, 10)
    assert (rate.floating_point_range[0].from_value, rate.floating_point_range[0].to_value) == (0.5, 50.0)
    assert rate.description == "how often [Hz]" and rate.read_only
    assert (big.integer_range[0].from_value, big.integer_range[0].to_value) == (0, 2**53)
    assert kind.description == "which; one of a, b"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ({}, ("name",)),
        ({"name": 5}, ("name",)),
        ({"name": "a", "count": 0}, ("count", "0")),
        ({"name": "a", "count": 11}, ("count", "11")),
        ({"name": "a", "count": 2.5}, ("count",)),
        ({"name": "a", "rate": 51.0}, ("rate", "51")),
        ({"name": "a", "rate": float("nan")}, ("rate",)),
        ({"name": "a", "flag": "yes"}, ("flag",)),
        ({"name": "a", "kind": "c"}, ("kind", "c")),
        ({"name": "a", "tree": "{a: ["}, ("tested.tree is not valid YAML",)),
        ({"name": "a", "tree": "5"}, ("tree",)),
        ({"name": "a", "shape": "{sides: 2}"}, ("sides", "2")),
        ({"name": "a", "shape": "{corners: 2}"}, ("corners",)),
    ],
)
def test_bad_values_end_in_one_line(make_node: Make, values: dict[str, Any], texts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        params.load(make_node(**values), Config)
    line = str(caught.value)
    assert "\n" not in line
    assert all(text in line for text in texts), line
