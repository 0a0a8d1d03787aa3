"""Starts what a fleet file says on this machine: aggregator, robots, their replays, live inference.

For example::

ros2 launch fed_perception fleet.launch.py fleet:=my_fleet.yaml
ros2 launch fed_perception fleet.launch.py fleet:=my_fleet.yaml only:=spot1   # on the robot spot1
"""

import sys
from dataclasses import replace
from pathlib import Path

from launch import Action, LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

sys.path.append(str(Path(__file__).parent))
from node_actions import SHARE, shared_arguments, start_node, text  # noqa: E402

from fed_core.deployment import Deployment, NodeSpec  # noqa: E402
from fed_core.errors import ConfigError  # noqa: E402
from fed_core.fleet import load_fleet  # noqa: E402
from fed_core.traffic import with_traffic  # noqa: E402


def choose_nodes(context: LaunchContext) -> list[NodeSpec]:
    """Return the nodes of the fleet file, or those of them that ``only`` names."""
    path = Path(text(context, "fleet")).absolute()
    fleet = load_fleet(path)
    folder = Path(text(context, "folder") or f"runs/{fleet.run}").absolute()
    fleet = with_traffic(fleet, folder)
    deployment = Deployment(fleet, path.parent, folder, text(context, "fleet_ns") or "/fleet")
    specs = [deployment.aggregator()]
    for entry in fleet.robots:
        specs.append(deployment.robot(entry))
        replay = deployment.replay(entry, float(text(context, "rate_hz")))
        if replay is not None and not (folder / "robots" / entry.id / "samples").exists():
            specs.append(replay)
    namespaces = text(context, "inference")
    if namespaces:
        # Best effort reads every camera; none of the frames here is scored.
        live = deployment.live([] if namespaces == "auto" else [*filter(None, namespaces.split(","))])
        specs += [replace(spec, parameters={**spec.parameters, "reliable_sensors": False}) for spec in live]
    only = text(context, "only").split(",") if text(context, "only") else [spec.name for spec in specs]
    unknown = set(only) - {spec.name for spec in specs}
    if unknown:
        names = ", ".join(spec.name for spec in specs)
        raise ConfigError(f"only names {', '.join(sorted(unknown))}; this fleet has {names}")
    return [spec for spec in specs if spec.name in only]


def start(context: LaunchContext) -> list[Action]:
    """Return the nodes' actions."""
    params = Path(text(context, "params_dir"))
    return [start_node(context, spec, params / f"{spec.executable}.yaml") for spec in choose_nodes(context)]


def generate_launch_description() -> LaunchDescription:
    """Return the arguments and what they start."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("fleet", description="fleet file (YAML)"),
            DeclareLaunchArgument("folder", default_value="", description="where all is kept; default runs/<run>"),
            DeclareLaunchArgument("only", default_value="", description="nodes to start here, by comma; default all"),
            DeclareLaunchArgument(
                "inference", default_value="auto", description='namespaces, by comma, or ""; or auto'
            ),
            DeclareLaunchArgument("rate_hz", default_value="10.0", description="frames per second of the replays"),
            DeclareLaunchArgument("use_sim_time", default_value="false", description="nodes follow the replays' clock"),
            DeclareLaunchArgument("params_dir", default_value=str(SHARE / "config"), description="a YAML per node"),
            *shared_arguments(),
            OpaqueFunction(function=start),
        ]
    )
