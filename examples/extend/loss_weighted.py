"""LossWeighted: robots with a larger loss weigh more in the mean (the idea of Li et al. 2020, arXiv:1905.10497)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fed_core.config import check, option
from fed_core.errors import StrategyError
from fed_core.strategies.averaging import Mixer
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    LocalResult,
    LocalRule,
    LocalState,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    in_order,
    strategies,
)

if TYPE_CHECKING:
    from torch import Tensor

#: Name of the number that each robot sends beside its weights.
LOSS = "mean_loss"


class LossMeter(LocalRule):
    """Robot half: trains as ever, and tells the mean loss of the round."""

    def __init__(self) -> None:
        self._total, self._steps = 0.0, 0

    def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: "Tensor") -> "Tensor":
        """Return the task's loss unchanged; its mean over the step is kept."""
        state.add_share(LOSS, task_loss)
        return task_loss

    def after_step(self, state: LocalState) -> None:
        """Add the loss of a step that was made."""
        self._total += float(state.sums[LOSS])
        self._steps += 1

    def finish(self, state: LocalState) -> LocalResult:
        """Send the mean over the steps."""
        return LocalResult(scalars={LOSS: self._total / max(self._steps, 1)})


@strategies.register("loss_weighted")
@dataclass(frozen=True)
class LossWeighted(Strategy):
    """One global model: the mean of the robots' models, each weighed by samples x loss ** q."""

    paper: ClassVar[str] = "after Li et al. 2020, arXiv:1905.10497"

    q: float = option(1.0, help="how much the loss counts; 0 = FedAvg", low=0.0, high=10.0)

    def __post_init__(self) -> None:
        check(self)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the weighted mean of ``updates`` as the one model of every robot."""
        ordered = in_order(updates)
        shares = self.shares(ordered)
        sources = {update.robot_id: update.weights for update in ordered}
        rows = Mixer(state.signature, state.combine).rows(sources, {GLOBAL: shares}, state.blobs)
        plans = {robot_id: RobotPlan((GLOBAL,)) for robot_id in state.robots}
        log = {"shares": dict(zip(sources, shares.tolist(), strict=True))}
        return Aggregate(rows=rows, plans=plans, models=(GLOBAL,), log=log)

    def shares(self, updates: Sequence[Update]) -> npt.NDArray[np.float64]:
        """Return what each robot weighs, (R,) float64 that sum to 1."""
        raw = np.array([update.num_samples * max(_loss(update), 1e-12) ** self.q for update in updates])
        return np.asarray(raw / raw.sum())

    def local_rule(self) -> LocalRule:
        """Return the robot half."""
        return LossMeter()


def _loss(update: Update) -> float:
    loss = update.scalars.get(LOSS, math.nan)
    if not math.isfinite(loss):
        raise StrategyError(f"robot {update.robot_id!r} sent no {LOSS}, but {loss}; give every robot this plugin")
    return loss
