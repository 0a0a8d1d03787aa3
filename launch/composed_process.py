"""The action that starts several nodes in one process; launch files import this from their folder."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml
from launch import Action, LaunchContext
from launch_ros.actions import Node
from node_actions import flag, text

from fed_core.deployment import NodeSpec


def start_composed(
    context: LaunchContext, specs: Sequence[tuple[NodeSpec, Path]], topics: Sequence[tuple[str, str]] = ()
) -> Action:
    """Return the action that starts nodes of one namespace in one process.

    Args:
        context: holds the arguments.
        specs: the nodes, each with its YAML file of parameters; parameters of the node win over those of the file.
        topics: topics that are remapped for all of them, from and to.
    """
    nodes = [spec for spec, _ in specs]
    simulated, respawn = flag(text(context, "use_sim_time")), flag(text(context, "respawn"))
    own = {f"/**/{node.executable}": {"ros__parameters": dict(node.parameters)} for node in nodes}
    # A renamed process would rename all of its nodes, so parameters are given by file, below the names of the nodes.
    with tempfile.NamedTemporaryFile("w", prefix="fed_perception_", suffix=".yaml", delete=False) as file:
        yaml.safe_dump({**own, "/**": {"ros__parameters": {"use_sim_time": simulated}}}, file)
    return Node(
        package="fed_perception",
        executable="composed",
        namespace=nodes[0].namespace or "/",
        arguments=[node.executable for node in nodes],
        parameters=[*(str(params) for _, params in specs), file.name],
        remappings=[*topics, ("/clock", "clock")] if simulated else list(topics),
        ros_arguments=["--log-level", text(context, "log_level")],
        output="screen",
        sigterm_timeout="15",  # a network that is being loaded cannot be interrupted
        **({"respawn": True, "respawn_delay": 2.0} if respawn else {}),
    )
