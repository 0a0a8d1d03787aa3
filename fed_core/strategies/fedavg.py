"""FedAvg: sample-weighted mean of the robots' weights (McMahan et al. 2017, arXiv:1602.05629)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    mean_rows,
    strategies,
)


@strategies.register("fedavg")
@dataclass(frozen=True)
class FedAvg(Strategy):
    """One global model: floating tensors are averaged by samples, counters take their maximum."""

    paper: ClassVar[str] = "McMahan et al. 2017, arXiv:1602.05629"
    combines: ClassVar[bool] = True

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the mean of ``updates`` as the one model of every robot."""
        plans = {robot_id: RobotPlan((GLOBAL,)) for robot_id in state.robots}
        return Aggregate(rows=mean_rows(updates, state), plans=plans, models=(GLOBAL,), memory=state.memory)
