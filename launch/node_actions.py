"""What the launch files share; each adds its own folder to ``sys.path`` to import this, since it is in no package."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from launch import Action, LaunchContext
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.parameter_descriptions import ParameterValue

from fed_core.deployment import NodeSpec

#: Holds launch/ and config/, in a checkout and in an installed share folder alike.
SHARE = Path(__file__).resolve().parents[1]
FASTDDS = "FASTDDS_DEFAULT_PROFILES_FILE"


def shared_arguments() -> list[Action]:
    """Return the arguments of every launch file; the last action sets the nodes' environment from them."""
    profile = os.environ.get(FASTDDS, str(SHARE / "config/fastdds/fleet.xml"))
    return [
        DeclareLaunchArgument("fleet_ns", default_value="", description="fleet's namespace; default /fleet"),
        DeclareLaunchArgument("localhost", default_value="false", description="true: talk to this machine only"),
        DeclareLaunchArgument("fastdds_profile", default_value=profile, description='Fast DDS profile, or "none"'),
        DeclareLaunchArgument("respawn", default_value="false", description="true: start a node again when it ends"),
        DeclareLaunchArgument("log_level", default_value="info", description="log level of the nodes"),
        OpaqueFunction(function=_set_environment),
    ]


def _set_environment(context: LaunchContext) -> list[Action]:
    profile, localhost = text(context, "fastdds_profile"), flag(text(context, "localhost"))
    actions = [SetEnvironmentVariable(FASTDDS, profile)] if profile != "none" else []
    return actions + ([SetEnvironmentVariable("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")] if localhost else [])


def text(context: LaunchContext, name: str) -> str:
    """Return an argument's value, "" where the launch file has no such argument."""
    return LaunchConfiguration(name, default="").perform(context)


def given(context: LaunchContext, **kinds: Callable[[str], Any]) -> dict[str, Any]:
    """Return the arguments that are not empty as parameters: these, and no others, win over the parameter file."""
    return {name: kind(text(context, name)) for name, kind in kinds.items() if text(context, name)}


def flag(value: str) -> bool:
    """Return whether an argument's text means yes."""
    return value.lower() in ("true", "1", "yes")


def start_node(context: LaunchContext, spec: NodeSpec, params: Path, topics: Sequence[tuple[str, str]] = ()) -> Action:
    """Return the action that starts a node.

    Args:
        context: holds the arguments.
        spec: which node, where; its parameters win over those of the file ``params``.
        params: YAML file of parameters.
        topics: remapped topics, from and to.
    """
    simulated, respawn = flag(text(context, "use_sim_time")), flag(text(context, "respawn"))
    # Launch would read a text as YAML; ours hold whole trees, so each value keeps the type that it has.
    own = {name: ParameterValue(value, value_type=type(value)) for name, value in spec.parameters.items()}
    return (LifecycleNode if spec.executable == "inference" else Node)(
        package="fed_perception",
        executable=spec.executable,
        name=spec.executable,
        namespace=spec.namespace or "/",
        parameters=[str(params), {**own, "use_sim_time": simulated}],
        # The replay of each robot has a clock of its own, in the robot's namespace.
        remappings=[*topics, ("/clock", "clock")] if simulated else list(topics),
        ros_arguments=["--log-level", text(context, "log_level")],
        output="screen",
        sigterm_timeout="15",  # a network that is being loaded cannot be interrupted
        **({"respawn": True, "respawn_delay": 2.0} if respawn else {}),
    )
