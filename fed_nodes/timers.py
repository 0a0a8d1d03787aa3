"""Timers that follow the machine's steady clock, whatever ``use_sim_time`` says.

A node's own timers follow ROS time: with simulated time they stand still before the first ``clock`` message and again
when the replay has ended. Heartbeats, deadlines and transfers must go on.
"""

from collections.abc import Callable

from rclpy.clock import Clock, ClockType  # type: ignore[attr-defined]
from rclpy.node import Node
from rclpy.timer import Timer


def steady_timer(node: Node, period_s: float, callback: Callable[[], None]) -> Timer:
    """Call ``callback`` every ``period_s`` seconds of wall time, on the node's executor."""
    return node.create_timer(period_s, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))
