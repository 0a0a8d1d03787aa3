"""The host of a role, and the mailbox between threads and the executor."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import rclpy
from rclpy.context import Context
from rclpy.node import Node

from fed_core.errors import DiskFullError, Refusal, WireError
from fed_core.roles import events as ev
from fed_core.types import BlobRef
from fed_nodes.host import Mailbox, RoleHost, fetch_for, guarded

Make, Spin = Callable[..., Node], Callable[[Node], None]


class Recorder:
    """A role that answers events with given effects and keeps what it was fed."""

    def __init__(self, answers: dict[Any, list[Any]]) -> None:
        self.answers, self.events = answers, []

    def handle(self, event: Any, now_s: float) -> list[Any]:
        self.events.append(event)
        return self.answers.get(event, [])


def test_effects_are_carried_out_in_order_and_answers_are_fed(make_node: Make) -> None:
    role = Recorder({"start": [1, 2.0], "answer": [3]})
    done: list[Any] = []
    carriers = {int: done.append, float: lambda effect: done.append(effect) or "answer"}
    RoleHost(make_node(), role, carriers).feed("start")
    assert done == [1, 2.0, 3]
    assert role.events == ["start", "answer"]


def test_events_of_other_threads_are_handled_on_the_executor(make_node: Make, spin: Spin) -> None:
    node, role = make_node(), Recorder({})
    host = RoleHost(node, role, {})
    thread = threading.Thread(target=lambda: [host.post(number) for number in range(3)])
    thread.start()
    thread.join()
    assert role.events == []
    spin(node)
    assert role.events == [0, 1, 2]


def test_every_level_can_be_logged_in_any_order(make_node: Make) -> None:
    # rclpy raises where one place in the code logs at changing levels; that once took the aggregator down.
    role = Recorder({"all": [ev.Log(level, "text") for level in ("info", "warning", "error", "info", "warning")]})
    RoleHost(make_node(), role, {}).feed("all")
    assert role.events == ["all"]


def test_mailbox_throws_away_what_comes_too_late(make_node: Make, spin: Spin, ros_context: Context) -> None:
    node, got = make_node(), []
    closed, late = Mailbox(node, got.append), Mailbox(node, got.append)
    closed.close()
    closed.close()
    closed.post("after close")
    rclpy.try_shutdown(context=ros_context)
    late.post("after shutdown")
    assert got == []


@pytest.mark.parametrize("error", [WireError("broken"), ValueError("odd")])
def test_guarded_drops_what_cannot_be_converted(make_node: Make, error: Exception) -> None:
    used: list[Any] = []

    def convert(msg: Any) -> Any:
        if msg == "bad":
            raise error
        return msg.upper()

    callback = guarded(make_node(), convert, used.append)
    callback("bad")
    callback("good")
    assert used == ["GOOD"]


def test_fetch_tells_the_role_how_it_ended() -> None:
    posted: list[Any] = []
    calls: dict[str, Any] = {}
    channel = SimpleNamespace(fetch=lambda blob, service, **kw: calls.update(kw, service=service))
    blob = BlobRef("ab" * 32, 5)
    fetch_for(channel, SimpleNamespace(post=posted.append), blob, "/spot/read_blob")  # type: ignore[arg-type]
    assert calls["service"] == "/spot/read_blob"
    calls["on_done"](blob)
    calls["on_error"](blob, WireError("too big", Refusal.TOO_LARGE))
    calls["on_error"](blob, WireError("no chunk came", lost=True))
    calls["on_error"](blob, DiskFullError("full"))
    assert posted == [
        ev.BlobReady(blob.digest),
        ev.BlobFailed(blob.digest, Refusal.TOO_LARGE, "too big"),
        ev.BlobFailed(blob.digest, Refusal.BROKEN_BLOB, "no chunk came", lost=True),
        ev.BlobFailed(blob.digest, Refusal.BROKEN_BLOB, "full", lost=True),
    ]
