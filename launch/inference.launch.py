"""Starts live inference beside a camera, or a vehicle's: a lifecycle node that starts itself, unless told not to.

For example::

ros2 launch fed_perception inference.launch.py namespace:=/spot1 image:=/camera/color/image_raw
ros2 launch fed_perception inference.launch.py namespace:=/car_a params_file:=car_a.yaml robot_id:=car_a
"""

import sys
from pathlib import Path

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

sys.path.append(str(Path(__file__).parent))
from node_actions import SHARE, flag, given, shared_arguments, start_node, text  # noqa: E402
from sensor_topics import sensor_arguments, sensor_topics  # noqa: E402

from fed_core.deployment import NodeSpec  # noqa: E402

PARAMS = SHARE / "config/inference.yaml"
TOPICS = ("image", "info")


def start(context: LaunchContext) -> list[Action]:
    """Return the node's action."""
    namespace, params = text(context, "namespace"), Path(text(context, "params_file"))
    name = "_".join([*filter(None, namespace.split("/")), "inference"])
    # Our own parameter file names one reader and one folder; a fleet has many.
    own = {"reader_id": name, "state_dir": f"inference/{name}"} if params == PARAMS else {}
    own |= given(context, fleet_ns=str, reader_id=str, state_dir=str, reliable_sensors=flag, autostart=flag)
    own |= given(context, robot_id=str, robot_dir=str, rig=str, lidar=str)
    spec = NodeSpec("inference", name, namespace, own)
    return [start_node(context, spec, params, sensor_topics(context, *TOPICS))]


def generate_launch_description() -> LaunchDescription:
    """Return the arguments and what they start; an empty argument leaves the parameter file's value."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("namespace", default_value="/live", description="ROS namespace, the camera's"),
            DeclareLaunchArgument("params_file", default_value=str(PARAMS), description="YAML of its parameters"),
            DeclareLaunchArgument("autostart", default_value="", description="false: wait for a lifecycle manager"),
            DeclareLaunchArgument("reader_id", default_value="", description="its name in the fleet, unique"),
            DeclareLaunchArgument("state_dir", default_value="", description="folder of downloaded models"),
            DeclareLaunchArgument("robot_id", default_value="", description="robot whose own model is served"),
            DeclareLaunchArgument("robot_dir", default_value="", description="that robot's state_dir"),
            DeclareLaunchArgument("rig", default_value="", description="cameras of a vehicle, as YAML"),
            DeclareLaunchArgument("lidar", default_value="", description="task detection: its LiDAR, as YAML"),
            DeclareLaunchArgument("reliable_sensors", default_value="", description="true: fed by a reliable replay"),
            DeclareLaunchArgument("use_sim_time", default_value="false", description="true: follow <namespace>/clock"),
            *sensor_arguments(*TOPICS),
            *shared_arguments(),
            OpaqueFunction(function=start),
        ]
    )
