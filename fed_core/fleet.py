"""The fleet file: one YAML that says who is in the fleet, what feeds them, and what they learn.

The launch files, the demo and the simulator all read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fed_core.config import check, from_tree, option, read_yaml
from fed_core.data.open import SourceConfig
from fed_core.errors import ConfigError
from fed_core.roles.membership import AggregatorConfig, is_robot_id
from fed_core.roles.messages import RunConfig


@dataclass(frozen=True)
class NamedOptions:
    """A registered name with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RobotEntry:
    """One robot of the fleet.

    Attributes:
        id: robot id, also its ROS namespace.
        source: recording that a replay publishes to the robot's sensor topics, or None for live sensors.
        rig: with live sensors of a vehicle: where the cameras sit, as the nodes' parameter ``rig`` says it.
        lidar: task detection with live sensors: where the LiDAR sits, as the nodes' parameter ``lidar`` says it.
        frames: samples that the robot records before it trains (0 = all frames of ``source``).
    """

    id: str
    source: SourceConfig | None = None
    frames: int = option(0, help="samples recorded before training; 0 = all of the source", unit="count", low=0)
    rig: Mapping[str, Any] = field(default_factory=dict, hash=False)
    lidar: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check(self)
        if not is_robot_id(self.id):
            raise ConfigError(f"robot id {self.id!r} is no ROS name: letters, digits and _, a letter first, at most 63")

    @property
    def recorded(self) -> SourceConfig | None:
        """The part of :attr:`source` that the robot records; None with live sensors."""
        if self.source is None or not self.frames:
            return self.source
        return replace(self.source, stop=(self.source.start or 0) + self.frames * self.source.step)


@dataclass(frozen=True)
class SequenceEntry:
    """A held-out sequence, never trained on.

    Attributes:
        name: name of the sequence.
        source: recording that is played.
        robot: robot that drives it, for strategies with a model or a part of a model for each robot; "" = none.
    """

    name: str
    source: SourceConfig
    robot: str = ""


@dataclass(frozen=True)
class InferenceEntry:
    """How the live model is chosen and scored."""

    descriptor_frames: int = option(
        8, help="first frames of a sequence that choose the models", unit="count", low=2, high=200
    )
    cap_m: float = option(80.0, help="largest true depth that is scored", unit="m", low=0.1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class FleetConfig:
    """The whole fleet file.

    Attributes:
        run: name of the run; letters, digits, "_" and "-".
        task: what the fleet learns.
        network: the model and its options.
        strategy: the federated method and its options.
        rounds: communication rounds.
        seed: seed of weights, data order and descriptors.
        train: options of local training.
        aggregator: options of the aggregator.
        inference: options of the inference node.
        robots: who trains.
        test: held-out sequences.
        traffic: made-up traffic, for task bev the options of :class:`fed_core.scenes.driving.DrivingOptions`, for task
            detection those of :class:`fed_core.scenes.domains.DomainOptions`; sources name what is in it, as
            ``traffic/train/client_1`` (see :mod:`fed_core.traffic`).
    """

    run: str
    robots: tuple[RobotEntry, ...]
    task: str = "depth"
    network: NamedOptions = NamedOptions("adabins_s")
    strategy: NamedOptions = NamedOptions("fedepth")
    rounds: int = option(8, help="communication rounds", unit="count", low=0, high=100_000)
    seed: int = option(0, help="seed of weights, data order and descriptors", low=0, high=2**31 - 1)
    train: Mapping[str, Any] = field(default_factory=dict)
    aggregator: AggregatorConfig = field(default_factory=AggregatorConfig)
    inference: InferenceEntry = field(default_factory=InferenceEntry)
    test: tuple[SequenceEntry, ...] = ()
    traffic: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)
        if not self.run.replace("_", "").replace("-", "").isalnum():
            raise ConfigError(f"run is {self.run!r}; use letters, digits, _ and -")
        if not self.robots:
            raise ConfigError("the fleet has no robot; list at least one under robots")
        for what, names in (("robot id", [r.id for r in self.robots]), ("test sequence", [t.name for t in self.test])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ConfigError(f"{what} {', '.join(twice)} is listed twice in the fleet")
        robots = [robot.id for robot in self.robots]
        for entry in self.test:
            if entry.robot and entry.robot not in robots:
                raise ConfigError(f"test sequence {entry.name} is of robot {entry.robot!r}; known: {', '.join(robots)}")
            if (entry.robot or self.task in ("bev", "detection")) and not is_robot_id(entry.name):
                text = "it names a ROS namespace here: letters, digits and _, a letter first"
                raise ConfigError(f"test sequence {entry.name!r}: {text}")
        rigs = [robot.id for robot in self.robots if robot.rig]
        if rigs and self.task not in ("bev", "detection"):
            tasks = "tasks bev and detection"
            raise ConfigError(f"robot {rigs[0]} has a rig, which is for {tasks}; this fleet learns {self.task}")
        lidars = [robot.id for robot in self.robots if robot.lidar]
        if lidars and self.task != "detection":
            text = f"robot {lidars[0]} has a lidar, which is for task detection; this fleet learns {self.task}"
            raise ConfigError(text)
        if self.traffic and self.task not in ("bev", "detection"):
            text = "traffic is made for tasks bev and detection"
            raise ConfigError(f"{text}, and this fleet learns {self.task}; leave it out")

    def run_config(self) -> RunConfig:
        """Return what goes into every plan of this run."""
        return RunConfig(
            strategy=self.strategy.name,
            strategy_options=dict(self.strategy.options),
            task=self.task,
            network=self.network.name,
            network_options=dict(self.network.options),
            train=dict(self.train),
            total_rounds=self.rounds,
            seed=self.seed,
        )


def load_fleet(path: Path) -> FleetConfig:
    """Read a fleet file; mistakes raise :class:`ConfigError` with the place."""
    return from_tree(FleetConfig, read_yaml(path), where=str(path))
