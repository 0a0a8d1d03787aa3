"""The node that calls services: answers, services that are not there or say nothing, many requests, its end."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from std_srvs.srv import SetBool, Trigger

from fed_nodes import control
from fed_nodes.control import MAX_CALLS, ControlNode
from fed_nodes.run import Finished

SET_BOOL, TRIGGER = "std_srvs/srv/SetBool", "std_srvs/srv/Trigger"


class Bench:
    """The node, a node that serves in a thread, and the pipe between the test and the first."""

    def __init__(self, wait_s: float, capsys: pytest.CaptureFixture[str]) -> None:
        rclpy.init(args=["control", "--ros-args", "-p", f"wait_s:={wait_s}"], domain_id=101)
        self._capsys, (self._read, self._write) = capsys, os.pipe()
        self.node = ControlNode(self._read)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self.server = rclpy.create_node("server", use_global_arguments=False)
        self._group, self._serving = ReentrantCallbackGroup(), MultiThreadedExecutor(num_threads=4)
        self._serving.add_node(self.server)
        self._thread = threading.Thread(target=self._serving.spin, daemon=True)
        self._thread.start()
        self.answers: list[dict[str, Any]] = []

    def serve(self, kind: type, name: str, act: Callable[[Any, Any], Any]) -> Any:
        return self.server.create_service(kind, name, act, callback_group=self._group)

    def write(self, *requests: dict[str, Any] | str) -> None:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in requests]
        os.write(self._write, "".join(f"{line}\n" for line in lines).encode())

    def close_input(self) -> None:
        os.close(self._write)
        self._write = -1

    def until(self, count: int) -> list[dict[str, Any]]:
        """Return the answers when there are so many."""
        for _ in range(1_000):
            self.answers += [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
            if len(self.answers) >= count:
                return self.answers
            self.step()
        pytest.fail(f"only {self.answers}")

    def step(self) -> None:
        self._executor.spin_once(timeout_sec=0.05)

    def close(self) -> None:
        self._serving.shutdown(timeout_sec=5.0)
        self._thread.join(5.0)
        self._executor.shutdown()
        if self._write >= 0:
            self.close_input()
        for node in (self.node, self.server):
            node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture
def make_bench(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Bench]]:
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")  # other processes of the same ROS domain are not seen
    made: list[Bench] = []

    def make(wait_s: float = 20.0) -> Bench:
        made.append(Bench(wait_s, capsys))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def say(success: bool, message: str) -> Callable[[Any, Any], Any]:
    def act(request: Any, response: Any) -> Any:
        response.success, response.message = success, message
        return response

    return act


def test_what_a_service_says_is_answered(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    asked: list[bool] = []

    def pause(request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        asked.append(request.data)
        response.success, response.message = True, f"paused: {request.data}"
        return response

    bench.serve(SetBool, "/brick/pause_training", pause)
    bench.serve(Trigger, "/live/replay/stop", say(False, "it has ended"))
    bench.write({"id": 7, "service": "/brick/pause_training", "type": SET_BOOL, "value": True})
    assert bench.until(1) == [{"id": 7, "ok": True, "text": "paused: True"}]
    bench.write({"id": "b", "service": "/live/replay/stop", "type": TRIGGER})
    assert bench.until(2)[1] == {"id": "b", "ok": False, "text": "it has ended"}
    bench.write({"id": 8, "service": "/brick/pause_training", "type": SET_BOOL, "value": False})
    assert bench.until(3)[2] == {"id": 8, "ok": True, "text": "paused: False"}
    assert asked == [True, False] and not list(bench.node.clients)


def test_a_bad_line_is_answered_and_the_next_one_is_done(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.serve(Trigger, "/live/new_sequence", say(True, "m" * 5_000))
    bench.write("nonsense", {"id": 2, "service": "/a", "type": "x"})
    bench.write({"id": 3, "service": "/live/new_sequence", "type": TRIGGER})
    first, second, third = bench.until(3)
    assert (first["id"], first["ok"]) == (None, False) and first["text"].startswith("a line is no JSON: ")
    assert (second["id"], second["ok"]) == (2, False) and second["text"].startswith('type is "x"; it can be ')
    assert third == {"id": 3, "ok": True, "text": "m" * 1_000}


def test_a_service_that_nobody_serves_is_said(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(wait_s=0.5)
    bench.write({"id": 1, "service": "/nobody/new_sequence", "type": TRIGGER})
    (told,) = bench.until(1)
    assert (told["id"], told["ok"]) == (1, False)
    assert told["text"] == (
        "nobody serves /nobody/new_sequence (std_srvs/srv/Trigger) within 0.5 s; does its node run?"
    )
    assert not list(bench.node.clients)


def test_a_service_asked_for_with_two_types_at_once_is_said(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(wait_s=0.5)
    bench.write({"id": 1, "service": "/nobody/new_sequence", "type": TRIGGER})
    bench.write({"id": 2, "service": "/nobody/new_sequence", "type": SET_BOOL, "value": True})
    first, second = bench.until(2)
    assert first["id"] == 2 and second["id"] == 1
    assert first["text"] == "/nobody/new_sequence is no std_srvs/srv/SetBool: it is in use here with another type"


def test_a_service_that_says_nothing_holds_up_nobody(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(wait_s=3.0)
    release, reached = threading.Event(), threading.Event()

    def wait(request: Any, response: Any) -> Any:
        reached.set()
        release.wait(30.0)
        return response

    bench.serve(Trigger, "/slow/new_sequence", wait)
    bench.serve(Trigger, "/live/new_sequence", say(True, "done"))
    bench.write({"id": 1, "service": "/slow/new_sequence", "type": TRIGGER})
    bench.write({"id": 2, "service": "/live/new_sequence", "type": TRIGGER})
    try:
        fast, slow = bench.until(2)
        assert fast == {"id": 2, "ok": True, "text": "done"} and reached.is_set()
        assert slow["text"] == "/slow/new_sequence gave no answer within 3 s; it may act on the request later"
        assert (slow["id"], slow["ok"]) == (1, False)
    finally:
        release.set()


def test_many_requests_wait_their_turn_and_it_ends_when_all_are_answered(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    most: list[int] = []
    begin = control.Call

    def count(*arguments: Any) -> Any:
        most.append(len(list(bench.node.clients)))
        return begin(*arguments)

    monkeypatch.setattr(control, "Call", count)
    bench.serve(Trigger, "/live/new_sequence", say(True, "done"))
    bench.write(*({"id": n, "service": "/live/new_sequence", "type": TRIGGER} for n in range(3 * MAX_CALLS)))
    bench.close_input()
    with pytest.raises(Finished):
        for _ in range(1_000):
            bench.step()
    answers = bench.until(3 * MAX_CALLS)
    assert sorted(int(told["id"]) for told in answers) == list(range(3 * MAX_CALLS))
    assert all(told["ok"] for told in answers) and max(most) == MAX_CALLS - 1


def test_it_does_nothing_while_nothing_is_asked(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    (looks,) = (timer for timer in bench.node.timers if timer.timer_period_ns == 50_000_000)
    bench.serve(Trigger, "/live/new_sequence", say(True, "done"))
    bench.write({"id": 1, "service": "/live/new_sequence", "type": TRIGGER})
    bench.until(1)
    for _ in range(20):
        bench.step()
        if looks.is_canceled():
            break
    assert looks.is_canceled()
