"""What roles say to each other, as plain data. ``fed_nodes.convert`` turns these into ``fed_msgs`` and back."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from fed_core.config import to_tree
from fed_core.errors import Refusal, WireError
from fed_core.strategies.base import RobotPlan
from fed_core.types import Array, BlobRef, Descriptor, Json

#: Largest number of robots, keys and scalars that a message may name; more is refused before anything is kept.
MAX_ENTRIES = 100_000


class RobotPhase(IntEnum):
    """What a robot is doing; the numbers of ``fed_msgs/RobotStatus``."""

    STARTING = 0
    REGISTERING = 1
    DESCRIBING = 2
    WAITING = 3
    FETCHING = 4
    TRAINING = 5
    REPORTED = 6
    FINISHED = 7
    FAILED = 8


@dataclass(frozen=True)
class RunConfig:
    """What a whole run has in common; its digest goes into every plan and report."""

    strategy: str
    strategy_options: Mapping[str, Json]
    task: str
    network: str
    network_options: Mapping[str, Json]
    train: Mapping[str, Json]
    total_rounds: int
    seed: int

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over all fields."""
        return hashlib.sha256(json.dumps(to_tree(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Registration:
    """A robot (or an observer) asks to be taken; fields as in ``fed_msgs/RegisterRobot``."""

    robot_id: str
    instance: str
    observer: bool
    protocol: int
    software: str
    task: str
    architecture: str
    model_digest: str
    num_samples: int
    blob_service: str = ""


@dataclass(frozen=True)
class RegistrationReply:
    """Answer to a :class:`Registration`."""

    code: Refusal
    text: str
    run_id: str = ""
    descriptor: str = ""


@dataclass(frozen=True)
class FleetPlan:
    """The latched plan of the current round (``fed_msgs/RoundPlan``).

    Attributes:
        run_id: name of the run.
        config: what the whole run has in common.
        round: current round, the first is 1.
        finished: the last round is closed; models are final.
        robots: what each registered robot starts from.
        participants: robots that train in this round.
        blobs: every blob the plan names, by key.
        models: keys that inference may load, in the order of the clusters.
        serving: what inference needs to choose among them.
        deadline_s: seconds left when it was sent; 0 = none.
    """

    run_id: str
    config: RunConfig
    round: int
    finished: bool
    robots: Mapping[str, RobotPlan]
    participants: tuple[str, ...]
    blobs: Mapping[str, BlobRef]
    models: tuple[str, ...]
    serving: BlobRef | None = None
    deadline_s: float = 0.0

    def to_json(self) -> Any:
        """Return a JSON tree; :meth:`from_json` reads it."""
        return to_tree(self)

    @classmethod
    def from_json(cls, tree: Any) -> "FleetPlan":
        """Read what :meth:`to_json` wrote."""
        rest = dict(tree)
        rest["config"] = RunConfig(**rest["config"])
        rest["robots"] = {
            k: RobotPlan(tuple(v["load"]), tuple(v["extras"]), v["values"]) for k, v in rest["robots"].items()
        }
        rest["participants"] = tuple(rest["participants"])
        rest["blobs"] = {k: BlobRef(**v) for k, v in rest["blobs"].items()}
        rest["models"] = tuple(rest["models"])
        rest["serving"] = BlobRef(**rest["serving"]) if rest["serving"] else None
        return cls(**rest)

    @property
    def named(self) -> frozenset[str]:
        """Keys that a robot or inference may ask for; others (a robot's last control) are the aggregator's alone."""
        robots = {key for entry in self.robots.values() for key in (*entry.load, *entry.extras)}
        return frozenset(robots | set(self.models))

    def wanted_by(self, robot_id: str) -> dict[str, BlobRef]:
        """Return the blobs that ``robot_id`` must have before it trains."""
        plan = self.robots[robot_id]
        return {key: self.blobs[key] for key in (*plan.load, *plan.extras)}


@dataclass(frozen=True)
class SequenceDescriptor:
    """A robot's descriptor on its way to the aggregator."""

    robot_id: str
    run_id: str
    descriptor: Descriptor


@dataclass(frozen=True)
class UpdateReport:
    """Manifest of an update (``fed_msgs/UpdateReport``): the aggregator reads the blobs it names.

    Attributes:
        blobs: "weights" and, where the strategy sends more, "extras".
        mask: (units,) bool or None = everything is shared.
        model_digest: of the signature that the mask's units belong to; "" without a mask.
    """

    robot_id: str
    instance: str
    run_id: str
    round: int
    config_digest: str
    num_samples: int
    loss: float
    seconds: float
    blobs: Mapping[str, BlobRef]
    scalars: Mapping[str, float] = field(default_factory=dict)
    mask: Array | None = None
    model_digest: str = ""

    def __post_init__(self) -> None:
        if "weights" not in self.blobs or set(self.blobs) - {"weights", "extras"}:
            raise WireError(f"report of {self.robot_id!r} names blobs {sorted(self.blobs)}; expected weights, extras")
        if self.num_samples <= 0:
            raise WireError(f"report of {self.robot_id!r} counts {self.num_samples} samples", Refusal.NO_SAMPLES)

    def to_json(self) -> Any:
        """Return a JSON tree; :meth:`from_json` reads it."""
        tree = to_tree({name: value for name, value in vars(self).items() if name != "mask"})
        tree["mask"] = None if self.mask is None else [int(unit) for unit in self.mask]
        return tree

    @classmethod
    def from_json(cls, tree: Any) -> "UpdateReport":
        """Read what :meth:`to_json` wrote."""
        rest = dict(tree)
        rest["blobs"] = {key: BlobRef(**blob) for key, blob in rest["blobs"].items()}
        rest["mask"] = None if rest["mask"] is None else np.array(rest["mask"], bool)
        return cls(**rest)


@dataclass(frozen=True)
class RobotStatus:
    """Heartbeat of a robot (``fed_msgs/RobotStatus``)."""

    robot_id: str
    instance: str
    phase: RobotPhase
    round: int = 0
    progress: float = 0.0
    loss: float = float("nan")
    samples_per_s: float = 0.0
    num_samples: int = 0
    text: str = ""


@dataclass(frozen=True)
class RobotState:
    """How the aggregator sees one robot (``fed_msgs/RobotState``)."""

    robot_id: str
    alive: bool
    described: bool
    reported: bool
    clusters: tuple[int, ...]
    updates: int
    refused: int
    last_code: Refusal
    last_text: str
    quarantine: str = ""


@dataclass(frozen=True)
class FleetStatus:
    """State of the whole fleet (``fed_msgs/FleetStatus``)."""

    run_id: str
    phase: str
    round: int
    total_rounds: int
    strategy: str
    expected_robots: int
    robots: tuple[RobotState, ...]
    waiting_for: str

    def state_of(self, robot_id: str) -> RobotState | None:
        """Return how the aggregator sees one robot; None where it does not know it."""
        return self._by_id.get(robot_id)

    @cached_property
    def _by_id(self) -> dict[str, RobotState]:
        """Every robot of a simulation looks itself up in the same status."""
        return {robot.robot_id: robot for robot in self.robots}
