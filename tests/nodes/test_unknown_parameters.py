"""A misspelt parameter is told; ROS alone ignores it."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_unknown_parameters_are_named() -> None:
    node = subprocess.Popen(
        [sys.executable, "-m", "fed_nodes.monitor", "--ros-args", "-p", "flet_ns:=/x", "-p", "use_sim_time:=false"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert node.stderr is not None
    try:
        line = node.stderr.readline()
        node.send_signal(signal.SIGINT)
        assert node.wait(timeout=30) == 0
    finally:
        node.kill()
    assert "ignored unknown parameters flet_ns; `ros2 param list /monitor` lists its own" in line
