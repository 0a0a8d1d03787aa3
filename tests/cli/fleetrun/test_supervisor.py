"""The supervisor of a local fleet, with trivial programs instead of nodes."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fed_cli.fleetrun.supervisor import Supervisor
from fed_core.deployment import NodeSpec

SLEEPER = "import time; print('ready', flush=True); time.sleep(600)"


class Programs(Supervisor):
    """Runs ``python -c`` where the real one runs a node; the rest is the same."""

    def command(self, spec: NodeSpec) -> list[str]:
        tether = super().command(spec)[:3]
        return [*tether, sys.executable, "-c", spec.parameters["code"]]


def program(name: str, code: str) -> NodeSpec:
    return NodeSpec("none", name, parameters={"code": code})


def until(done: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    end_s = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < end_s, f"{what} did not happen in {limit_s} s"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_start_log_and_stop(tmp_path: Path) -> None:
    with Programs(tmp_path, {}) as supervisor:
        supervisor.start(program("node", SLEEPER))
        until(lambda: "ready" in supervisor.log_tail("node"), "the first line")
        (pid,) = supervisor.pids("node")
        assert alive(pid)
        supervisor.stop("node")
        until(lambda: not alive(pid), "the end of the program")
        assert supervisor.log_tail("another") == "it wrote nothing"


def test_log_tail_gives_the_last_lines(tmp_path: Path) -> None:
    with Programs(tmp_path, {}) as supervisor:
        supervisor.start(program("node", "for i in range(9): print(i)"))
        until(lambda: not supervisor.running("node"), "the end of the program")
        until(lambda: "8" in supervisor.log_tail("node"), "the last line")
        assert supervisor.log_tail("node", lines=2) == "7 | 8"


def test_killed_program_comes_back_only_with_respawn(tmp_path: Path) -> None:
    with Programs(tmp_path, {}) as supervisor:
        supervisor.start(program("again", SLEEPER), respawn=True)
        supervisor.start(program("once", SLEEPER))
        until(lambda: supervisor.running("again") and supervisor.running("once"), "the start")
        (first,), (second,) = supervisor.pids("again"), supervisor.pids("once")
        os.kill(first, signal.SIGKILL)
        os.kill(second, signal.SIGKILL)
        until(lambda: supervisor.pids("again") not in ([], [first]), "the respawn")
        assert not supervisor.running("once")


def test_no_program_outlives_the_supervisor(tmp_path: Path) -> None:
    with Programs(tmp_path, {}) as supervisor:
        supervisor.start(program("node", SLEEPER))
        # deaf to SIGTERM, as a node that hangs
        deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
        supervisor.start(program("deaf", deaf))
        until(lambda: all("ready" in supervisor.log_tail(name) for name in ("node", "deaf")), "the start")
        pids = [*supervisor.pids("node"), *supervisor.pids("deaf"), supervisor._process.pid]
        assert len(pids) == 3
    until(lambda: not any(alive(pid) for pid in pids), "the end of all programs")


def test_programs_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    supervisor = Programs(tmp_path, {})
    try:
        supervisor.start(program("node", SLEEPER))
        until(lambda: supervisor.running("node"), "the start")
        (pid,) = supervisor.pids("node")
        os.kill(supervisor._process.pid, signal.SIGKILL)
        until(lambda: not alive(pid), "the end of the program")
    finally:
        supervisor._process.wait(timeout=10)
        supervisor._client.stop()


def test_parameters_lie_in_a_file(tmp_path: Path) -> None:
    with Supervisor(tmp_path, {}) as supervisor:
        command = supervisor.command(NodeSpec("monitor", "m", namespace="/spot", parameters={"rate": 2}))
    assert command[-2:] == ["--params-file", str(tmp_path / "params" / "m.yaml")]
    assert "fed_nodes.monitor" in command
    assert "__ns:=/spot" in command
    assert (tmp_path / "params" / "m.yaml").read_text() == "/**:\n  ros__parameters:\n    rate: 2\n"


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fed_cli.fleetrun.supervisor._GRACE_S", 2)


def test_a_fault_is_the_error_that_a_node_ended_with_since_it_was_started(tmp_path: Path) -> None:
    with Programs(tmp_path, {}) as supervisor:
        supervisor.start(program("node", "print('hello'); print('error: no such camera')"))
        until(lambda: supervisor.fault("node") == "no such camera", "the error")
        supervisor.stop("node")
        supervisor.start(program("node", SLEEPER))
        until(lambda: supervisor.log_tail("node", lines=1) == "ready", "the first line")
        assert supervisor.fault("node") == ""  # the old one is of the last start
        assert supervisor.fault("another") == ""
