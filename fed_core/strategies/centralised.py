"""Centralised training: all recordings in one place, the reference that federated methods are measured by.

It is no federated method. One robot trains on the recordings of all (``source: {parts: [...]}`` in the fleet file) with
the same loop, learning rate and rounds as everybody else, so that nothing but the pooling differs (fedepth spec 9, CL).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fed_core.errors import StrategyError
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    RobotInfo,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    mean_rows,
    strategies,
)
from fed_core.types import Memory


@strategies.register("centralised")
@dataclass(frozen=True)
class Centralised(Strategy):
    """One robot holds all recordings; its model is "global", as it came."""

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model; more than one robot is an error."""
        _alone(state)
        return super().begin(state)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the robot's model."""
        _alone(state)
        plans = {robot_id: RobotPlan((GLOBAL,)) for robot_id in state.robots}
        return Aggregate(rows=mean_rows(updates, state), plans=plans, models=(GLOBAL,), memory=state.memory)

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Let a robot take over; a second one beside it is an error."""
        _alone(state)
        return super().join(robot, state)


def _alone(state: ServerState) -> None:
    if len(state.robots) > 1:
        text = f"centralised pools the recordings and averages nothing, but {len(state.robots)} robots registered"
        raise StrategyError(f"{text}; run it with one robot whose source lists the recordings under 'parts'")
