"""Heartbeats go on while simulated time stands still."""

import time

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter

from fed_nodes.timers import steady_timer


def test_steady_timer_fires_without_a_clock_message() -> None:
    context = Context()
    rclpy.init(context=context)
    fired: list[str] = []
    try:
        simulated = Parameter("use_sim_time", Parameter.Type.BOOL, True)
        node = Node("timed", context=context, parameter_overrides=[simulated])
        node.create_timer(0.01, lambda: fired.append("ros"))
        steady_timer(node, 0.05, lambda: fired.append("steady"))
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        end_s = time.monotonic() + 10.0
        while fired.count("steady") < 2 and time.monotonic() < end_s:
            executor.spin_once(timeout_sec=0.5)
        node.destroy_node()
    finally:
        context.try_shutdown()
    assert fired == ["steady", "steady"]
