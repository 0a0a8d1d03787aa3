"""A Flower app's configuration: its run config names a fleet file, a node's own config says which robot it is.

Run config (``[tool.flwr.app.config]`` or ``flwr run --run-config``): ``fleet`` path of a fleet file, ``folder`` of the
run, ``threads`` and ``device`` of training. Node config (``flower-supernode --node-config``): ``partition-id``, the
robot's place in the fleet file (simulations set it), or ``robot-id``; ``data``, the robot's own recording.
"""

from dataclasses import replace
from pathlib import Path

from flwr.app import Context, UserConfig

from fed_core import requests
from fed_core.data.open import SourceConfig
from fed_core.data.rendered import on_disk
from fed_core.errors import ConfigError
from fed_core.fleet import FleetConfig, RobotEntry, load_fleet
from fed_flower.client_app import FlowerRobot, RobotOf


def fleet_of(run_config: UserConfig) -> tuple[FleetConfig, Path]:
    """Return the fleet that a run config names, and the folder that relative paths of its sources start from."""
    named = run_config.get("fleet")
    if not isinstance(named, str) or not named:
        raise ConfigError('the run config names no fleet; add fleet = "/path/to/fleet.yaml"')
    return load_fleet(Path(named)), Path(named).parent


def folder_of(run_config: UserConfig) -> Path:
    """Return the run's folder."""
    return Path(str(run_config.get("folder", "runs/flower")))


def robot_of(context: Context) -> FlowerRobot:
    """Return the robot that a node stands for, by the app's run config and the node's own."""
    fleet, base = fleet_of(context.run_config)
    threads, device = context.run_config.get("threads", 1), context.run_config.get("device", "auto")
    robot = robots_of(fleet, base, folder_of(context.run_config))(context)
    return replace(robot, threads=int(threads), device=str(device))


def robots_of(fleet: FleetConfig, base: Path, folder: Path) -> RobotOf:
    """Return what finds a node's robot in a fleet.

    Args:
        fleet: the fleet.
        base: folder that relative paths of its sources start from.
        folder: the run's; what is rendered rather than recorded lies in it.
    """

    def find(context: Context) -> FlowerRobot:
        entry = _entry(fleet, context.node_config)
        own = context.node_config.get("data")
        source = SourceConfig(data=str(own)) if own is not None else entry.recorded
        if source is None:
            where = "the fleet file names none, and neither does data in the node config"
            raise ConfigError(f"robot {entry.id!r} has no recording: {where}")
        return FlowerRobot(entry.id, requests.Samples(on_disk(source, base, folder / "robots" / entry.id), base))

    return find


def _entry(fleet: FleetConfig, node_config: UserConfig) -> RobotEntry:
    named, place = node_config.get("robot-id"), node_config.get("partition-id")
    known = [entry.id for entry in fleet.robots]
    if named is not None:
        if named not in known:
            raise ConfigError(f"robot-id is {named!r} in the node config; the fleet file knows {', '.join(known)}")
        return fleet.robots[known.index(str(named))]
    if not isinstance(place, int):
        raise ConfigError('the node config names no robot; add robot-id="NAME" or partition-id=NUMBER')
    if not 0 <= place < len(known):
        text = f"partition-id is {place}, but the fleet file has {len(known)} robot(s)"
        raise ConfigError(f"{text}; start as many nodes (num-supernodes) as it has robots")
    return fleet.robots[place]
