"""Several of our nodes in one process: ``composed robot_client inference --ros-args -r __ns:=/spot1 ...``.

One interpreter, one DDS participant and one copy of the libraries instead of one for each node. What is meant for one
node only stands in a parameter file below its name (``/**/inference``) or is remapped by it (``-r inference:a:=b``,
before rules for all, since the first that fits counts). ``-p inference:name:=value`` works in the root namespace alone.
"""

import sys
from collections.abc import Callable

from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from fed_core.errors import ConfigError
from fed_nodes import run, usage
from fed_nodes.aggregator import AggregatorNode
from fed_nodes.inference import InferenceNode
from fed_nodes.monitor import MonitorNode
from fed_nodes.replay import ReplayNode
from fed_nodes.robot_client import RobotClientNode

NODES: dict[str, Callable[[], Node]] = {
    "aggregator": AggregatorNode,
    "robot_client": RobotClientNode,
    "inference": InferenceNode,
    "replay": ReplayNode,
    "monitor": MonitorNode,
}


def chosen(names: list[str]) -> list[Callable[[], Node]]:
    """Return what makes the named nodes.

    Raises:
        ConfigError: none is named, one is unknown, or one is named twice.
    """
    known = ", ".join(NODES)
    if not names:
        raise ConfigError(f"composed needs the names of nodes, for example robot_client inference; known: {known}")
    for name in names:
        if name not in NODES:
            raise ConfigError(f"composed: unknown node {name!r}; known: {known}")
        if names.count(name) > 1:
            raise ConfigError(f"composed: {name} is named twice; start a second one as a process of its own")
    return [NODES[name] for name in names]


def main() -> int:
    """Run the nodes that the command line names."""
    if usage.told(__doc__ or "", " NODE NODE ..."):
        return 0
    try:
        makers = chosen(remove_ros_args(sys.argv)[1:])
    except ConfigError as err:
        sys.stderr.write(f"error: {err}\n")
        return 2
    return run.main(*makers)


if __name__ == "__main__":
    sys.exit(main())
