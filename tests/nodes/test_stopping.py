"""How a node's process ends; launch sends SIGINT twice: the terminal's, and then its own."""

import signal
import subprocess
import sys
from pathlib import Path

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
