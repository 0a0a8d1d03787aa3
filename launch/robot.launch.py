"""Starts one robot of the fleet, fed by its own sensors or by a recording; ``composed``: its inference too.

For example::

ros2 launch fed_perception robot.launch.py robot_id:=spot1 image:=/camera/color/image_raw
ros2 launch fed_perception robot.launch.py robot_id:=spot1 composed:=true   # both nodes in one process
"""

import sys
from pathlib import Path

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

sys.path.append(str(Path(__file__).parent))
from composed_process import start_composed  # noqa: E402
from node_actions import SHARE, flag, given, shared_arguments, start_node, text  # noqa: E402
from sensor_topics import sensor_arguments, sensor_topics  # noqa: E402

from fed_core.deployment import NodeSpec  # noqa: E402

PARAMS = SHARE / "config/robot_client.yaml"
LIVE = SHARE / "config/inference.yaml"
TOPICS = ("image", "depth", "info", "points", "right_image", "right_info")


def start(context: LaunchContext) -> list[Action]:
    """Return the action of the node, or of both."""
    robot, params = text(context, "robot_id"), Path(text(context, "params_file"))
    # Two robots on one machine must not share the folder that our own parameter file names.
    own = {"robot_id": robot, **({"state_dir": f"robots/{robot}"} if params == PARAMS else {})}
    own |= given(context, fleet_ns=str, state_dir=str, source=str, record_frames=int, reliable_sensors=flag)
    own |= given(context, task=str, rig=str, lidar=str)
    spec = NodeSpec("robot_client", robot, text(context, "namespace") or f"/{robot}", own)
    if not flag(text(context, "composed")):
        return [start_node(context, spec, params, sensor_topics(context, *TOPICS))]
    live = Path(text(context, "inference_params_file"))
    both = [(spec, params), (_live(context, spec, live), live)]
    return [start_composed(context, both, sensor_topics(context, *TOPICS))]


def _live(context: LaunchContext, robot: NodeSpec, params: Path) -> NodeSpec:
    """Return the inference node beside a robot."""
    name = f"{robot.name}_inference"
    own = {"robot_id": robot.name}
    if params == LIVE:
        own |= {"reader_id": name, "state_dir": f"inference/{name}"}
    if "state_dir" in robot.parameters:  # else it stands in the robot's own parameter file
        own["robot_dir"] = robot.parameters["state_dir"]
    own |= given(context, fleet_ns=str, reliable_sensors=flag, rig=str, lidar=str)
    return NodeSpec("inference", name, robot.namespace, own)


def generate_launch_description() -> LaunchDescription:
    """Return the arguments and what they start."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("robot_id", description="name of the robot in the fleet"),
            DeclareLaunchArgument("namespace", default_value="", description="ROS namespace; default /<robot_id>"),
            DeclareLaunchArgument("params_file", default_value=str(PARAMS), description="YAML of its parameters"),
            DeclareLaunchArgument("composed", default_value="false", description="true: one process, with inference"),
            DeclareLaunchArgument(
                "inference_params_file", default_value=str(LIVE), description="YAML of inference's parameters"
            ),
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
