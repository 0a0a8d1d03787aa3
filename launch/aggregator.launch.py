"""Starts the aggregator, usually on the base station.

For example::

ros2 launch fed_perception aggregator.launch.py run:=yard strategy:=fedepth rounds:=20
"""

import sys
from pathlib import Path

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

sys.path.append(str(Path(__file__).parent))
from node_actions import SHARE, given, shared_arguments, start_node, text  # noqa: E402

from fed_core.deployment import NodeSpec  # noqa: E402

PARAMS = SHARE / "config/aggregator.yaml"


def start(context: LaunchContext) -> list[Action]:
    """Return the node's action."""
    own = given(
        context, fleet_ns=str, run=str, runs_dir=str, strategy=str, strategy_options=str, rounds=int, min_robots=int
    )
    spec = NodeSpec("aggregator", "aggregator", parameters=own)
    return [start_node(context, spec, Path(text(context, "params_file")))]


def generate_launch_description() -> LaunchDescription:
    """Return the arguments and what they start; an empty argument leaves the parameter file's value."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("params_file", default_value=str(PARAMS), description="YAML of its parameters"),
            DeclareLaunchArgument("run", default_value="", description="name of the run"),
            DeclareLaunchArgument("runs_dir", default_value="", description="folder of all runs"),
            DeclareLaunchArgument("strategy", default_value="", description="federated method"),
            DeclareLaunchArgument("strategy_options", default_value="", description="options of the method, as YAML"),
            DeclareLaunchArgument("rounds", default_value="", description="communication rounds"),
            DeclareLaunchArgument("min_robots", default_value="", description="robots that round 1 waits for"),
            *shared_arguments(),
            OpaqueFunction(function=start),
        ]
    )
