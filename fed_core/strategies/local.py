"""Local training: every robot trains its own model and nothing is mixed; the lower bound of every comparison.

The models still travel, so that a sequence can be served: by the model of the robot whose images are most alike
(FeDepth's own fallback; with a tiny tau the two methods are the same), or by the asking robot's own model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.errors import StrategyError
from fed_core.strategies.averaging import Row
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    RobotInfo,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    in_order,
    strategies,
)
from fed_core.strategies.grouping import Grouping, described, grouped
from fed_core.strategies.measures import Affinity
from fed_core.types import Choice, Descriptor, Memory


@strategies.register("local")
@dataclass(frozen=True)
class Local(Strategy):
    """Key "robot/<id>" is a robot's own model; "global" stays the initial one, for newcomers."""

    descriptor: ClassVar[str | None] = "gaussian"

    choice: str = option(
        "nearest", help="model that serves a sequence: of the most alike robot, or the asking robot's own",
        choices=("nearest", "own"),
    )  # fmt: skip
    noise_correction: bool = option(False, help="subtract the sampling noise from distances")

    def __post_init__(self) -> None:
        check(self)

    def begin(self, state: ServerState) -> Aggregate:
        """Start everyone from the initial model."""
        return self._outcome({}, (), state)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return every robot's model as it came; robots that sent none keep theirs."""
        fresh = {f"robot/{u.robot_id}": u for u in in_order(updates) if u.robot_id in state.robots}
        return self._outcome(fresh, _copies(fresh, state), state)

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Start a newcomer from the initial model."""
        own = f"robot/{robot.robot_id}"
        return RobotPlan((own if own in state.blobs else GLOBAL,)), state.memory

    def choose(
        self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory, robot_id: str = ""
    ) -> Choice:
        """Return the one model of the nearest robot, or the asking robot's own."""
        grouping = Grouping.from_memory(serving)
        if self.choice == "own" and robot_id in grouping.robots:
            index = grouping.robots.index(robot_id)
            return Choice((models[index],), (index,))
        if descriptor is None:
            raise StrategyError("local needs the descriptor of a sequence to find the nearest robot's model")
        distances = grouping.distances(descriptor, Affinity("mean", self.noise_correction), "the sequence")
        nearest = int(np.argmin(distances))
        return Choice((models[nearest],), (nearest,), tuple(float(d) for d in distances))

    def _outcome(self, fresh: Mapping[str, Update], rows: Iterator[Row] | tuple[()], state: ServerState) -> Aggregate:
        keys = {robot_id: f"robot/{robot_id}" for robot_id in sorted(state.robots)}
        stale = tuple(key for key in keys.values() if key in state.blobs and key not in fresh)
        holder = {robot: key if key in fresh or key in stale else GLOBAL for robot, key in keys.items()}
        grouping = _each_its_own(state)
        return Aggregate(
            rows=rows,
            plans={robot_id: RobotPlan((key,)) for robot_id, key in holder.items()},
            models=tuple(holder[robot_id] for robot_id in grouping.robots),
            kept=(GLOBAL, *stale),
            serving=grouping.to_memory(),
            clusters=grouping.by_robot(),
        )


def _copies(fresh: Mapping[str, Update], state: ServerState) -> Iterator[Row]:
    for name in state.signature.names:
        row = {key: update.weights[name] for key, update in fresh.items() if name in update.weights}
        if row:
            yield name, row


def _each_its_own(state: ServerState) -> Grouping:
    robots = described(state.robots, "gaussian")
    group, floor = grouped(robots, Affinity())
    return Grouping(
        robots=tuple(robot.robot_id for robot in robots),
        ids=tuple(range(len(robots))),
        sources=tuple(f"robot/{robot.robot_id}" for robot in robots),
        members=np.eye(len(robots), dtype=np.bool_),
        group=group,
        floor=floor,
        tau=0.0,
        encoder=robots[0].descriptor.encoder if robots[0].descriptor else "",
        num_built=len(robots),
    )
