"""Configuration dataclasses as ROS parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rcl_interfaces.msg import ParameterType
from rclpy.node import Node
from rclpy.parameter import Parameter

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


@dataclass(frozen=True)
class Limits:
    low_s: float = option(1.0, help="least", unit="s", low=0.0, high=10.0, live=True)
    high_s: float = option(2.0, help="most", unit="s", low=0.0, high=10.0, live=True)
    mode: str = option("soft", help="how", choices=("soft", "hard"), live=True)
    window: int = option(8, help="frozen", low=1)

    def __post_init__(self) -> None:
        check(self)
        if self.low_s > self.high_s:
            raise ConfigError(f"low_s is {self.low_s}, above high_s ({self.high_s}); lower it")


@dataclass(frozen=True)
class Other:
    gain: float = option(0.5, help="gain", low=0.0, high=1.0, live=True)

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


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "tested: parameter name is missing; give it with -p name:=NAME"),
        ({"name": 2}, "tested: parameter name is 2, but a text is expected, as in -p name:=\"'2'\""),
        ({"name": "a", "rate": 1}, "parameter rate is 1, but a number with a fraction is expected, as in -p rate:=1.0"),
        ({"name": "a", "count": 2.5}, "parameter count is 2.5, but a whole number is expected, as in -p count:=2"),
        ({"name": "a", "flag": "yes"}, "parameter flag is 'yes', but true or false is expected, as in -p flag:=true"),
    ],
)
def test_a_missing_value_and_another_type_say_what_to_write(make_node: Make, values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        params.load(make_node(**values), Config)
    assert str(caught.value).endswith(text)


# ---- changes while the node runs -----------------------------------------------------------------------------------


def change(node: Node, **values: Any) -> str:
    """Set parameters together; return why not, "" where it was done."""
    result = node.set_parameters_atomically([Parameter(name, value=value) for name, value in values.items()])
    assert result.successful == (not result.reason)
    return str(result.reason)


def test_live_values_reach_the_node_once_for_each_change(make_node: Make) -> None:
    node, got = make_node(), list[Limits]()
    assert params.load(node, Limits, got.append) == Limits()
    assert change(node, low_s=1.5) == ""
    assert change(node, low_s=4.0, high_s=6.0, mode="hard") == ""
    assert got == [Limits(1.5), Limits(4.0, 6.0, "hard")]
    assert change(node, low_s=4.0) == ""  # the same again
    assert len(got) == 2
    assert node.get_parameter("low_s").value == 4.0


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"low_s": 3.0}, "low_s is 3.0, above high_s (2.0); lower it"),
        ({"mode": "rude"}, "Limits.mode is 'rude'; choose one of soft, hard"),
        ({"low_s": 11.0}, "Parameter low_s out of range"),
        ({"window": 9}, "Trying to set a read-only parameter: window."),
        ({"low_s": 1.5, "window": 9}, "Trying to set a read-only parameter: window."),
        ({"low_s": "1"}, "tested: parameter low_s is '1', but a number with a fraction is expected"),
        ({"low_s": float("nan")}, "low_s"),
    ],
)
def test_bad_changes_are_refused_as_at_the_start_and_change_nothing(
    make_node: Make, values: dict[str, Any], text: str
) -> None:
    node, got = make_node(), list[Limits]()
    params.load(node, Limits, got.append)
    assert text in change(node, **values)
    assert got == []
    assert [node.get_parameter(name).value for name in ("low_s", "mode", "window")] == [1.0, "soft", 8]


def test_a_change_that_one_of_two_dataclasses_refuses_reaches_neither(make_node: Make) -> None:
    node, limits, other = make_node(), list[Limits](), list[Other]()
    params.load(node, Limits, limits.append)
    params.load(node, Other, other.append)
    assert "low_s is 3.0" in change(node, gain=1.0, low_s=3.0)
    assert "high_s" in change(node, gain=1.0, high_s=0.5)
    assert (limits, other) == ([], [])
    assert change(node, gain=1.0) == ""
    assert (limits, other) == ([], [Other(1.0)])


def test_without_somebody_who_hears_of_it_nothing_can_be_changed(make_node: Make) -> None:
    node = make_node()
    params.load(node, Limits)
    assert "read-only" in change(node, low_s=0.5)
    assert node.describe_parameter("low_s").read_only


def test_another_type_is_refused_in_our_words_while_the_node_runs(make_node: Make) -> None:
    node = make_node()
    params.load(node, Limits, list[Limits]().append)
    told = "tested: parameter low_s is 1, but a number with a fraction is expected, as in -p low_s:=1.0"
    assert change(node, low_s=1) == told
    assert change(node, mode=3).startswith("tested: parameter mode is 3, but a text is expected")
    assert node.describe_parameter("low_s").type == ParameterType.PARAMETER_DOUBLE
    assert change(node, low_s=0.5) == ""
