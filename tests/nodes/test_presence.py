"""What is told of aggregators that fall silent, and of others on the same topics."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fed_msgs.msg import FleetStatus
from rclpy.node import Node

from fed_nodes import qos
from fed_nodes.presence import FORGOTTEN_S, HEARD_S, AggregatorPresence, OtherAggregators

Make = Callable[..., Node]


class Log:
    """Stands for a node that keeps what it logs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def get_logger(self) -> Any:
        tell = lambda text, **_: self.lines.append(text)  # noqa: E731
        return SimpleNamespace(info=tell, warning=tell)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_silent_aggregator_is_told_in_ever_longer_steps_until_it_is_back() -> None:
    log, clock = Log(), Clock()
    presence = AggregatorPresence(log, "/fleet", clock)  # type: ignore[arg-type]
    for _ in range(120):
        clock.now_s += 1.0
        presence.look(needed=True)
    assert presence.problem == "no aggregator on /fleet for 60 s"
    assert log.lines == [f"no aggregator on /fleet for {step} s" for step in (10, 30, 60)]
    presence.heard()
    for _ in range(2):
        presence.look(needed=True)
    assert presence.problem == "" and log.lines[3:] == ["an aggregator is on /fleet again"]


def test_who_needs_no_aggregator_is_not_told_of_it() -> None:
    log, clock = Log(), Clock()
    presence = AggregatorPresence(log, "/fleet", clock)  # type: ignore[arg-type]
    clock.now_s += 1000.0
    presence.look(needed=False)
    assert (presence.problem, log.lines) == ("", [])


@pytest.fixture
def others(make_node: Make) -> tuple[Node, OtherAggregators, Clock]:
    node, clock = make_node(), Clock()
    return node, OtherAggregators(node, "/fleet", "mine", clock), clock


def test_a_status_of_another_run_is_told_for_a_while(
    others: tuple[Node, OtherAggregators, Clock], spin: Callable[[Node], None]
) -> None:
    node, found, clock = others
    publisher = node.create_publisher(FleetStatus, "/fleet/status", qos.LATCHED)
    for run_id, problem in (("mine", ""), ("nope", "another aggregator on /fleet: run nope")):
        publisher.publish(FleetStatus(run_id=run_id))
        spin(node)
        found.look()
        assert found.problem == problem
    clock.now_s += HEARD_S
    found.look()
    assert found.problem == ""


def test_a_second_publisher_of_the_same_run_is_told_once_it_cannot_be_a_dead_one(
    others: tuple[Node, OtherAggregators, Clock],
) -> None:
    node, found, clock = others
    for _ in range(2):
        node.create_publisher(FleetStatus, "/fleet/status", qos.LATCHED)
    found.look()
    assert found.problem == ""
    clock.now_s += FORGOTTEN_S + 1.0
    found.look()
    assert found.problem == "another aggregator on /fleet: run mine, as this one"
