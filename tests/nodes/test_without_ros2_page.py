"""The commands for people without ``ros2`` give the nodes what they say; every page on nodes leads to them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from rclpy.context import Context
from rclpy.node import Node

from fed_nodes import params
from scripts.write_interfaces import PARAMETERS

DOCS = Path(__file__).parents[2] / "docs"
SECTION = (DOCS / "launch.md").read_text(encoding="utf-8").split("## Without the ros2 command")[1].split("\n## ")[0]
COMMANDS = [line.split(" #")[0] for line in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[0].splitlines()]
REPLAY = re.findall(r"^replay .*$", (DOCS / "replay.md").read_text(encoding="utf-8"), re.MULTILINE)
(ROBOT,) = re.findall(
    r"^ros2 run fed_perception (robot_client .*)$", (DOCS / "your_robot.md").read_text(encoding="utf-8"), re.MULTILINE
)
#: Of the tutorials, with their lines joined; $R is the robot that the page begins with.
TUTORIALS = [
    line.replace("$R", "spot1").replace("other_bag", "my_bag")
    for page in sorted((DOCS / "tutorials").glob("*.md"))
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.split(" ")[0] in PARAMETERS
]
PAGES = ("your_robot", "recording", "training_on_robots", "live_depth", "replay", "deploy", "looking")


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Context]:
    """A context of a folder with the file ``spot1.yaml``, the first of your_robot.md."""
    page = (DOCS / "your_robot.md").read_text(encoding="utf-8")
    (tmp_path / "spot1.yaml").write_text(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "ros_log"))
    context = Context()
    yield context
    rclpy.try_shutdown(context=context)


def given(context: Context, command: str) -> tuple[Node, dict[str, Any]]:
    """Return a node as a command starts it, and its parameters."""
    name, *arguments = shlex.split(command)
    rclpy.init(args=[name, *arguments], context=context, domain_id=101)
    node = Node(name, context=context)
    values: dict[str, Any] = {}
    for cls in PARAMETERS[name]:
        values |= vars(params.load(node, cls))
    assert all(node.has_parameter(parameter) for parameter in node._parameter_overrides)
    return node, values


def test_the_section_has_every_node_that_a_robot_needs() -> None:
    assert {command.split()[0] for command in COMMANDS[1:]} == {"aggregator", "robot_client", "inference", "replay"}
    assert COMMANDS[0].startswith("export ") and (DOCS.parent / COMMANDS[0].split("$PWD/")[1].strip()).is_file()


@pytest.mark.parametrize("command", [*COMMANDS[1:], *REPLAY, ROBOT])
def test_every_command_is_understood(context: Context, command: str) -> None:
    node, values = given(context, command)
    assert node.get_namespace() == ("/" if command.startswith("aggregator") else "/spot1")
    if command.startswith("replay"):
        assert values["source"] == {"data": "yard_bag"}
    if command.startswith("robot_client"):
        assert values["robot_id"] == "spot1"
        assert ("--params-file" in command) == (values["depth_from"] == "lidar")
    node.destroy_node()


@pytest.mark.parametrize("command", TUTORIALS)
def test_every_command_of_the_tutorials_is_understood(context: Context, command: str) -> None:
    """Parameters that nobody declares would be ignored; ``given`` finds them."""
    node, values = given(context, command)
    if command.startswith("replay"):
        assert list(values["source"].values()) == ["my_bag"]
        assert (values["task"] == "any") == ("bag" in values["source"])
    if command.startswith(("robot_client", "inference")):
        assert node.get_namespace() == "/spot1"
    node.destroy_node()


def test_the_tutorials_start_every_kind_of_node_that_a_fleet_needs() -> None:
    assert {line.split()[0] for line in TUTORIALS} == {"aggregator", "robot_client", "inference", "replay"}


@pytest.mark.parametrize("page", PAGES)
def test_every_page_leads_there(page: str) -> None:
    assert "launch.md#without-the-ros2-command" in (DOCS / f"{page}.md").read_text(encoding="utf-8")
