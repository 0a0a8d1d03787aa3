"""Fixtures of the ROS tests: a domain for each test, processes that always end, no leftovers in shared memory."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from fed_msgs.msg import FleetStatus, RobotPlan, RobotState, RobotStatus, RoundPlan, Selection

from fed_cli.fleetrun.environment import lock_domain
from fed_cli.fleetrun.shared_memory import remove_dead_segment
from fed_nodes import qos
from tests.ros.fleets import Fleet, Watcher

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = Path(__file__).resolve().parent / "processes"


class RosProcess:
    """A child process whose output is read line by line; it is known by its own pid and killed by nothing else."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.command = command
        self.output: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            env=environment,
            cwd=ROOT,
        )
        self.pid = self._child.pid
        self._interrupted = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._child.stdout or ():
            self.output.append(line.rstrip("\n"))
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_line(self, pattern: str, timeout_s: float = 30.0) -> re.Match[str]:
        """Return the match of the next line that begins with ``pattern``; its end or the timeout fail the test."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no line {pattern!r} within {timeout_s} s:\n" + "\n".join(self.output[-30:]))
            if line is None:
                pytest.fail(f"ended before a line {pattern!r}:\n" + "\n".join(self.output[-30:]))
            match = re.match(pattern, line)
            if match:
                return match

    def tell(self, text: str = "") -> None:
        """Write one line to its input."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{text}\n")
        self._child.stdin.flush()

    def anonymous_bytes(self) -> int:
        """Return its anonymous resident memory (RssAnon); 0 when it is gone."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        match = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
        return int(match[1]) * 1024 if match else 0

    def kill(self) -> None:
        """SIGKILL, and remove the shared memory that nobody owns any more."""
        segments = _segments_of(self.pid)
        self._child.kill()
        self._child.wait(10.0)
        for segment in segments:
            remove_dead_segment(segment)

    def stop(self, number: int = signal.SIGINT, timeout_s: float = 15.0) -> int:
        """Ask it to end by a signal and return its exit code; too slow a one is killed and fails the test."""
        if self._child.poll() is None:
            self._child.send_signal(number)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 15.0) -> int:
        """Return its exit code when it ends by itself."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"still running after {timeout_s} s:\n" + "\n".join(self.output[-30:]))

    def interrupt(self) -> None:
        """Ask it to end, once."""
        if self._child.poll() is None and not self._interrupted:
            self._interrupted = True
            self._child.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End it by whatever means."""
        if self._child.poll() is None:
            segments = _segments_of(self.pid)
            self.interrupt()
            try:
                self._child.wait(5.0)
            except subprocess.TimeoutExpired:
                self.kill()
            for segment in segments:
                remove_dead_segment(segment)
        self._reader.join(5.0)
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()


def _segments_of(pid: int) -> set[str]:
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return set()
    return set(re.findall(r"/dev/shm/(fast(?:dds|rtps)_[0-9a-z]+)$", maps, re.MULTILINE))


Starter = Callable[..., RosProcess]


@contextmanager
def locked_domain() -> Iterator[int]:
    """Give a ROS domain that no other test or demo on this machine uses at the same time."""
    number, lock = lock_domain()
    with lock:
        yield number


def environment_of(domain_id: int, folder: Path) -> dict[str, str]:
    """Return the environment of a test's processes."""
    return {
        **os.environ,
        "ROS_DOMAIN_ID": str(domain_id),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_LOG_DIR": str(folder / "ros_log"),
        "FASTDDS_DEFAULT_PROFILES_FILE": str(ROOT / "config" / "fastdds" / "fleet.xml"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "models"), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
    }


@contextmanager
def process_starter(ros_environment: dict[str, str]) -> Iterator[Starter]:
    """Start processes: ``start("script.py", *args)`` from ``processes/``, or any command as a list.

    Keyword ``environment`` adds variables. All are ended after the test, the last one first.
    """
    started: list[RosProcess] = []

    def start(what: str | list[str], *args: object, environment: dict[str, str] | None = None) -> RosProcess:
        command = [sys.executable, str(PROCESSES / what)] if isinstance(what, str) else what
        process = RosProcess([*command, *map(str, args)], {**ros_environment, **(environment or {})})
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.interrupt()  # all at once, so that they end side by side
        for process in reversed(started):
            process.close()


@pytest.fixture
def domain_id() -> Iterator[int]:
    """A ROS domain that no other test on this machine uses at the same time."""
    with locked_domain() as number:
        yield number


@pytest.fixture
def ros_environment(domain_id: int, tmp_path: Path) -> dict[str, str]:
    """Environment of this test's processes."""
    return environment_of(domain_id, tmp_path)


@pytest.fixture
def ros_process(ros_environment: dict[str, str]) -> Iterator[Starter]:
    """Start processes, see :func:`process_starter`."""
    with process_starter(ros_environment) as start:
        yield start


@contextmanager
def opened_fleet(folder: Path) -> Iterator[Fleet]:
    with locked_domain() as number, process_starter(environment_of(number, folder)) as start:
        fleet = Fleet(folder, number, start)
        try:
            yield fleet
        finally:
            fleet.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A small fleet of real processes, empty at first."""
    with opened_fleet(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One fleet for all tests of a module."""
    with opened_fleet(tmp_path_factory.mktemp("fleet")) as made:
        yield made


@pytest.fixture
def told(domain_id: int) -> Iterator[Watcher]:
    """A fleet that only speaks: two robots in round 2 of 5, one away; an inference node; a node that is not well."""
    watcher = Watcher(domain_id)
    node = watcher.node
    robots = [
        RobotState(robot_id="spot1", alive=True, reported=True, clusters=[0]),
        RobotState(robot_id="spot2", alive=False, clusters=[0, 1], refused=3, last_text="too large"),
    ]
    fleet = FleetStatus(run_id="yard", phase="training", round=2, total_rounds=5, strategy="fedepth", robots=robots)
    plan = RoundPlan(run_id="yard", round=2, task="depth", network="adabins_s", deadline_s=300.0, robots=[RobotPlan()])
    chosen = Selection(run_id="yard", round=1, sequence="sequence_1", clusters=[1], distances=[0.5, 0.25])
    latched = ((FleetStatus, "status", fleet), (RoundPlan, "round", plan))
    publishers = [(node.create_publisher(kind, f"/fleet/{name}", qos.LATCHED), msg) for kind, name, msg in latched]
    publishers.append((node.create_publisher(Selection, "/spot1/selection", qos.LATCHED), chosen))
    for publisher, msg in publishers:
        publisher.publish(msg)
    beats = node.create_publisher(RobotStatus, "/fleet/robot_status", qos.STATUS)
    health = node.create_publisher(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
    ill = DiagnosticStatus(level=DiagnosticStatus.WARN, name="/spot1/inference: state", message="disk is nearly full")

    def speak() -> None:
        beats.publish(RobotStatus(robot_id="spot1", phase=RobotStatus.REPORTED, round=2, loss=0.75, progress=1.0))
        health.publish(DiagnosticArray(status=[ill]))

    node.create_timer(0.1, speak)
    yield watcher
    watcher.close()
