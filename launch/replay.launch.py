"""Plays a recording on a robot's sensor topics, with a clock in the robot's namespace.

For example::

ros2 launch fed_perception replay.launch.py namespace:=/spot1 source:="{data: yard_bag}"
"""

import sys
from pathlib import Path

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

sys.path.append(str(Path(__file__).parent))
from node_actions import SHARE, flag, given, shared_arguments, start_node, text  # noqa: E402
from sensor_topics import sensor_arguments, sensor_topics  # noqa: E402

from fed_core.deployment import NodeSpec  # noqa: E402

PARAMS = SHARE / "config/replay.yaml"
TOPICS = ("image", "depth", "info")


def start(context: LaunchContext) -> list[Action]:
    """Return the node's action."""
    own = given(
        context,
        task=str,
        source=str,
        source_base=str,
        topics=str,
        rate_hz=float,
        speed=float,
        reliable=flag,
        loop=flag,
        start_paused=flag,
    )
    spec = NodeSpec("replay", "replay", text(context, "namespace"), own)
    return [start_node(context, spec, Path(text(context, "params_file")), sensor_topics(context, *TOPICS))]


def generate_launch_description() -> LaunchDescription:
    """Return the arguments and what they start; an empty argument leaves the parameter file's value."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("namespace", description="ROS namespace of the robot it plays for"),
            DeclareLaunchArgument("params_file", default_value=str(PARAMS), description="YAML of its parameters"),
            DeclareLaunchArgument("task", default_value="", description="depth, bev, detection, or any: a bag"),
            DeclareLaunchArgument("source", default_value="", description="recording, as in a fleet file, as YAML"),
            DeclareLaunchArgument("source_base", default_value="", description="folder that its paths start from"),
            DeclareLaunchArgument("rate_hz", default_value="", description="frames per second"),
            DeclareLaunchArgument("speed", default_value="", description="times the recorded speed; 0 = rate_hz"),
            DeclareLaunchArgument("topics", default_value="", description="task any: new names of topics, as YAML"),
            DeclareLaunchArgument("start_paused", default_value="", description="true: wait for the service start"),
            DeclareLaunchArgument("reliable", default_value="", description="true: lose no frame, wait for a reader"),
            DeclareLaunchArgument("loop", default_value="", description="true: start again at the end"),
            *sensor_arguments(*TOPICS),
            *shared_arguments(),
            OpaqueFunction(function=start),
        ]
    )
