"""How a node's process ends; launch sends SIGINT twice: the terminal's, and then its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NODE = """
import sys
from rclpy.node import Node
from fed_nodes import run

class Slow(Node):
    def __init__(self):
        super().__init__("slow")
        self.create_timer(0.01, lambda: print("spinning", flush=True))

    def destroy_node(self):
        print("closing", flush=True)
        sys.stdin.readline()
        super().destroy_node()
        print("closed", flush=True)

sys.exit(run.main(Slow))
"""


def test_second_interrupt_does_not_break_the_clean_up() -> None:
    node = subprocess.Popen(
        [sys.executable, "-c", NODE],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert node.stdout is not None
    try:
        assert node.stdout.readline() == "spinning\n"
        node.send_signal(signal.SIGINT)
        while node.stdout.readline() != "closing\n":
            assert node.poll() is None
        node.send_signal(signal.SIGINT)
        out, err = node.communicate("go on\n", timeout=30)
    finally:
        node.kill()
    assert (node.returncode, out, err) == (0, "closed\n", "")


SEVERAL = """
import sys, threading
from rclpy.node import Node
from fed_core.errors import ConfigError, DataError
from fed_nodes import run

released = threading.Event()

class Busy(Node):
    def __init__(self):
        super().__init__("busy")
        self.create_timer(0.01, lambda: (print("busy", flush=True), released.wait()))

    def destroy_node(self):
        super().destroy_node()
        print("busy closed", flush=True)

class Ticking(Node):
    def __init__(self):
        super().__init__("ticking")
        self.ticks = 0
        self.create_timer(0.01, self.tick)

    def tick(self):
        self.ticks += 1
        if self.ticks == 20:
            print("twenty", flush=True)
            HOOK

    def destroy_node(self):
        super().destroy_node()
        print("ticking closed", flush=True)

class Halfway(Node):
    def __init__(self):
        super().__init__("halfway")
        self.itself = self  # still there when ROS shuts down
        raise ConfigError("tilt is 5; it must be at most 1")

    def destroy_node(self):
        self.what_there_would_be.close()

sys.exit(run.main(NODES))
"""


def several(nodes: str, hook: str = "released.set()") -> "subprocess.Popen[str]":
    code = SEVERAL.replace("NODES", nodes).replace("HOOK", hook)
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(("error", "code"), [("ConfigError", 2), ("DiskFullError", 1), ("FolderInUseError", 1)])
def test_a_start_that_may_work_the_next_time_is_no_wrong_configuration(error: str, code: int) -> None:
    program = f"""
import sys
from fed_core.errors import ConfigError, DiskFullError, FolderInUseError
from fed_nodes import run

def start():
    raise {error}("no room")

sys.exit(run.main(start))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, "error: no room\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_several_nodes_do_not_wait_for_each_other_and_end_together(number: int) -> None:
    process = several("Busy, Ticking")
    try:
        assert process.stdout is not None
        lines = {process.stdout.readline() for _ in range(2)}
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert lines == {"busy\n", "twenty\n"}  # twenty ticks, while the other's callback was waiting
    assert (process.returncode, err) == (0, "")
    assert out.split("\n")[-3:-1] == ["ticking closed", "busy closed"]


@pytest.mark.parametrize(
    ("hook", "code", "error"),
    [
        ("released.set(); raise DataError('bag.mcap is cut off')", 1, "error: bag.mcap is cut off\n"),
        ("released.set(); raise run.Finished", 0, ""),
    ],
)
def test_what_ends_one_of_several_nodes_ends_all(hook: str, code: int, error: str) -> None:
    process = several("Busy, Ticking", hook)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (code, error)
    assert "ticking closed" in out and "busy closed" in out


@pytest.mark.parametrize("nodes", ["Halfway", "Ticking, Halfway"])
def test_a_node_that_cannot_start_ends_with_code_2(nodes: str) -> None:
    process = several(nodes)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (2, "error: tilt is 5; it must be at most 1\n")
    assert out == ("ticking closed\n" if "Ticking" in nodes else "")


def test_an_error_of_ours_while_running_ends_with_code_1() -> None:
    process = several("Ticking", "raise DataError('bag.mcap is cut off')")
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (1, "error: bag.mcap is cut off\n")
