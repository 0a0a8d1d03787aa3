"""Which services of the graph a person may call, as the monitor tells them."""

from collections.abc import Callable
from typing import Any

import pytest
from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from fed_nodes.watching import services
from fed_nodes.watching.services import find_services

SET_BOOL, TRIGGER = "std_srvs/srv/SetBool", "std_srvs/srv/Trigger"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes of the same ROS domain are not seen."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")


def until(done: Callable[[], Any], spin: Callable[[Node], None], node: Node) -> None:
    """Wait for the graph, whose changes end each step of the executor: the timer bounds them."""
    timer = node.create_timer(0.02, lambda: None)
    for _ in range(500):
        if done():
            break
        spin(node)
    else:
        pytest.fail(f"not within 10 s; found: {find_services(node)}")
    node.destroy_timer(timer)


def test_services_of_our_nodes_that_a_person_acts_on(
    make_node: Callable[..., Node], spin: Callable[[Node], None]
) -> None:
    node = make_node()
    names = ("/live/replay/stop", "/live/new_sequence", "/other/start", "/live/replay/reset", "/new_sequences")
    served = [node.create_service(Trigger, name, lambda _, answer: answer) for name in names]
    node.create_service(SetBool, "/brick/pause_training", lambda _, answer: answer)
    node.create_service(Trigger, "/fake/pause_training", lambda _, answer: answer)  # not its type
    node.create_client(Trigger, "/nobody/new_sequence")  # nobody serves it
    expected = [
        {"name": "/brick/pause_training", "type": SET_BOOL},
        {"name": "/live/new_sequence", "type": TRIGGER},
        {"name": "/live/replay/stop", "type": TRIGGER},
    ]
    until(lambda: find_services(node) == expected, spin, node)
    graph = {name for name, _ in node.get_service_names_and_types()}
    assert {"/fake/pause_training", "/nobody/new_sequence", "/other/start"} <= graph

    node.create_client(Trigger, "/live/new_sequence")
    node.destroy_service(served[1])
    until(lambda: find_services(node) == [expected[0], expected[2]], spin, node)


def test_no_more_than_so_many_are_told(
    make_node: Callable[..., Node], spin: Callable[[Node], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "MAX_SERVICES", 2)
    node = make_node()
    for name in ("c", "a", "b"):
        node.create_service(SetBool, f"/{name}/pause_training", lambda _, answer: answer)
    names = {"/a/pause_training", "/b/pause_training", "/c/pause_training"}
    until(lambda: names <= {name for name, _ in node.get_service_names_and_types()}, spin, node)
    assert [service["name"] for service in find_services(node)] == ["/a/pause_training", "/b/pause_training"]


def test_every_service_of_the_table_that_a_person_may_call_is_known() -> None:
    from scripts.write_interfaces import NODES, SOMETIMES, SRV

    rows = [row for node in NODES.values() for row in node]
    rows += [row for node in SOMETIMES.values() for _, own in node for row in own]
    told = {f"/{row.name}": row.type for row in rows if row.way == SRV and row.type.startswith("std_srvs/")}
    assert told == services.ACTS
