"""Starts one robot of the fleet, fed by its own sensors or by a recording.

For example::

ros2 launch fed_perception robot.launch.py robot_id:=spot1 image:=/camera/color/image_raw
"""

import sys
from pathlib import Path

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

sys.path.append(str(Path(__file__).parent))
from node_actions import SHARE, flag, given, shared_arguments, start_node, text  # noqa: E402
from sensor_topics import sensor_arguments, sensor_topics  # noqa: E402

from fed_core.deployment import NodeSpec  # noqa: E402

PARAMS = SHARE / "config/robot_client.yaml"
TOPICS = ("image", "depth", "info")


def start(context: LaunchContext) -> list[Action]:
    """Return the node's action."""
    robot, params = text(context, "robot_id"), Path(text(context, "params_file"))
    # Two robots on one machine must not share the folder that our own parameter file names.
    own = {"robot_id": robot, **({"state_dir": f"robots/{robot}"} if params == PARAMS else {})}
    own |= given(context, fleet_ns=str, state_dir=str, source=str, record_frames=int, reliable_sensors=flag)
    own |= given(context, task=str, rig=str, lidar=str)
    spec = NodeSpec("robot_client", robot, text(context, "namespace") or f"/{robot}", own)
    return [start_node(context, spec, params, sensor_topics(context, *TOPICS))]


def generate_launch_description() -> LaunchDescription:
    """Return the arguments and what they start."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("robot_id", description="name of the robot in the fleet"),
            DeclareLaunchArgument("namespace", default_value="", description="ROS namespace; default /<robot_id>"),
            DeclareLaunchArgument("params_file", default_value=str(PARAMS), description="YAML of its parameters"),
            DeclareLaunchArgument("state_dir", default_value="", description="its folder; default robots/<robot_id>"),
            DeclareLaunchArgument("task", default_value="", description="what the fleet learns"),
            DeclareLaunchArgument("rig", default_value="", description="cameras of a vehicle, as YAML"),
            DeclareLaunchArgument("lidar", default_value="", description="task detection: its LiDAR, as YAML"),
            DeclareLaunchArgument("source", default_value="", description="recording to train on, as YAML"),
            DeclareLaunchArgument("record_frames", default_value="", description="frames recorded before training"),
            DeclareLaunchArgument("reliable_sensors", default_value="", description="true: fed by a reliable replay"),
            DeclareLaunchArgument("use_sim_time", default_value="false", description="true: follow <namespace>/clock"),
            *sensor_arguments(*TOPICS),
            *shared_arguments(),
            OpaqueFunction(function=start),
        ]
    )
