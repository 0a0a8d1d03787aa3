"""Starts and stops a node's process: one line for a bad configuration, exit code 0 for one SIGINT or SIGTERM."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import rclpy
from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from fed_core.errors import FedError


class Finished(Exception):  # noqa: N818 - no error
    """A callback raises this when the node's work is done."""


def main(make_node: Callable[[], Node]) -> int:
    """Make a node, spin it until it is told to stop, and return the exit code (2: it could not start, 1: it failed)."""
    if "ROS_LOG_DIR" not in os.environ and "HOME" not in os.environ:
        os.environ["ROS_LOG_DIR"] = str(Path.cwd() / "log")
    _interrupt_once()
    rclpy.init(args=sys.argv)
    node: Node | None = None
    code = 0
    try:
        node = make_node()
        _warn_of_unknown(node)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException, Finished):
        pass
    except FedError as err:
        sys.stderr.write(f"error: {err}\n")
        code = 2 if node is None else 1
    except (InvalidHandle, RCLError):
        if rclpy.ok():  # else a signal came while a callback, or the start, used ROS
            raise
    finally:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # or one more would kill the interpreter while it ends
    return code


def _interrupt_once() -> None:
    """Let only the first SIGINT interrupt: launch sends a second one after that of the terminal, into the clean-up."""
    seen = False

    def on_signal(number: int, frame: object) -> None:
        nonlocal seen
        if not seen:
            seen = True
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_signal)


def _warn_of_unknown(node: Node) -> None:
    """Tell of given parameters that the node has not; ROS ignores a misspelt one without a word."""
    unknown = [name for name in getattr(node, "_parameter_overrides", {}) if not node.has_parameter(name)]
    if unknown:
        names = f"ros2 param list {node.get_fully_qualified_name()}"
        node.get_logger().warning(f"ignored unknown parameters {', '.join(sorted(unknown))}; `{names}` lists its own")
