"""Starts and stops the process of a node, or of several: one line for a bad configuration, and the exit code.

0: told to stop (SIGINT, SIGTERM), or its work is done. 1: it failed while it ran, or the disk is full. 2: it could not
start, and would not the next time either, so that a supervisor need not try again.
"""

import contextlib
import gc
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import rclpy
from rclpy._rclpy_pybind11 import InvalidHandle, RCLError, RCLInvalidROSArgsError, UnknownROSArgsError
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from fed_core.errors import DiskFullError, FedError, FolderInUseError
from fed_nodes import usage

#: A start that one of these ends may succeed the next time: there is room again, or who held the folder has ended.
_PASSING = (DiskFullError, FolderInUseError)
#: How long a node's callback may go on once the process of several nodes was told to stop.
_STOP_S = 10.0


class Finished(Exception):  # noqa: N818 - no error
    """A callback raises this when the node's work is done."""


def main(*make_nodes: Callable[[], Node]) -> int:
    """Make nodes, spin them until they are told to stop, and return the exit code (2: no start, 1: failed).

    Several nodes share the process and its DDS participant. Each has a thread of its own, since what one does in a
    callback, such as loading networks, must not stop the heartbeats of another.
    """
    if usage.told(str(sys.modules[make_nodes[0].__module__].__doc__)):
        return 0
    if unreadable := _unreadable():
        sys.stderr.write(f"error: cannot read {unreadable}\n")
        return 2
    if "ROS_LOG_DIR" not in os.environ and "HOME" not in os.environ:
        os.environ["ROS_LOG_DIR"] = str(Path.cwd() / "log")
    _interrupt_once()
    try:
        rclpy.init(args=sys.argv)
    except (RCLError, RCLInvalidROSArgsError, UnknownROSArgsError) as err:  # such as a parameter file that is not there
        sys.stderr.write(f"error: {' '.join(str(err).split())}\n")
        return 2
    nodes: list[Node] = []
    spinning: list[_Spinning] = []
    code = 0
    try:
        for make_node in make_nodes:
            nodes.append(make_node())
        _spin(nodes, spinning)
    except (KeyboardInterrupt, ExternalShutdownException, Finished):
        pass
    except FedError as err:
        sys.stderr.write(f"error: {err}\n")
        code = 2 if len(nodes) < len(make_nodes) and not isinstance(err, _PASSING) else 1
    except (InvalidHandle, RCLError):
        if rclpy.ok():  # else a signal came while a callback, or the start, used ROS
            raise
    finally:
        _clean_up(nodes, spinning, whole=len(nodes) == len(make_nodes))
        # What a callback that was broken off still holds keeps the participant, and its shared memory, beyond the end.
        nodes.clear()
        spinning.clear()
        gc.collect()
    return code


def _unreadable() -> str:
    """Return the parameter file of the command line that cannot be read; "" = there is none such."""
    files = [name for option, name in zip(sys.argv, sys.argv[1:], strict=False) if option == "--params-file"]
    return next((name for name in files if Path(name).is_dir() or not os.access(name, os.R_OK)), "")


class _Spinning:
    """One of several nodes, in a thread.

    Args:
        node: what is spun.
        ended: receives what ended it.
    """

    def __init__(self, node: Node, ended: "queue.SimpleQueue[BaseException]") -> None:
        self._ended, self._executor = ended, SingleThreadedExecutor()
        self._executor.add_node(node)
        self._thread = threading.Thread(target=self._spin, name=node.get_name(), daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        try:
            self._executor.spin()
            self._ended.put(Finished())
        except BaseException as err:  # whatever it is, the main thread decides
            self._ended.put(err)

    def stop(self) -> None:
        """Wait for the callback that runs, then stop."""
        self._executor.shutdown(timeout_sec=0.0)
        self._thread.join(_STOP_S)


def _spin(nodes: Sequence[Node], spinning: list[_Spinning]) -> None:
    for node in nodes:
        _warn_of_unknown(node)
    if len(nodes) > 1:
        _spin_each(nodes, spinning)
    executor = SingleThreadedExecutor()
    executor.add_node(nodes[0])
    executor.spin()


def _spin_each(nodes: Sequence[Node], spinning: list[_Spinning]) -> None:
    ended: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    spinning += [_Spinning(node, ended) for node in nodes]
    raise ended.get()


def _clean_up(nodes: Sequence[Node], spinning: Sequence[_Spinning], *, whole: bool) -> None:
    for thread in spinning:
        thread.stop()
    for node in reversed(nodes):
        node.destroy_node()
    # A node that broke off its start is destroyed by the shutdown; what it lacks then must not hide why it broke off.
    with contextlib.nullcontext() if whole else contextlib.suppress(Exception):
        rclpy.try_shutdown()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # or one more would kill the interpreter while it ends


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
