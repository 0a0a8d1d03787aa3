"""A ROS context of its own for each test of the nodes' parts; nothing leaves the process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter


@pytest.fixture
def ros_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Context]:
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "ros_log"))
    context = Context()
    rclpy.init(context=context, domain_id=101)
    yield context
    rclpy.try_shutdown(context=context)


@pytest.fixture
def make_node(ros_context: Context) -> Iterator[Callable[..., Node]]:
    """Make a node whose parameters were overridden by ``values``."""
    made: list[Node] = []

    def make(**values: Any) -> Node:
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        node = Node("tested", context=ros_context, parameter_overrides=overrides)
        made.append(node)
        return node

    yield make
    for node in made:
        node.destroy_node()


@pytest.fixture
def spin(ros_context: Context) -> Iterator[Callable[[Node], None]]:
    """Take the executor's steps that are due, waiting at most 5 s for the first."""
    executor = SingleThreadedExecutor(context=ros_context)

    def step(node: Node) -> None:
        executor.add_node(node)
        executor.spin_once(timeout_sec=5.0)
        executor.remove_node(node)

    yield step
    executor.shutdown()


@pytest.fixture
def bench(ros_context: Context, make_node: Callable[..., Node]) -> Iterator[Callable[..., Any]]:
    """Make a :class:`tests.nodes.frame_bench.Bench` of the given options of frames."""
    from fed_nodes.sensing.frames import FrameOptions
    from tests.nodes.frame_bench import Bench

    executor = SingleThreadedExecutor(context=ros_context)
    node = make_node()
    executor.add_node(node)
    made: list[Bench] = []

    def spin(until: Callable[[], bool]) -> None:
        for _ in range(500):
            if until():
                return
            executor.spin_once(timeout_sec=0.02)
        pytest.fail("nothing came within 10 s")

    def make(**options: Any) -> Bench:
        made.append(Bench(node, spin, FrameOptions(**options)))
        return made[-1]

    yield make
    for each in made:
        each.pairer.close()
    executor.shutdown()
