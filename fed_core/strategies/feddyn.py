"""FedDyn: a regulariser that turns local minima towards the common one (Acar et al. 2021, arXiv:2111.04263).

In the form of accumulated drift (fedepth spec 9): a robot remembers ``d_c``, the sum of all its walks so far, and
minimises ``L_c(w) + a_c <w, d_c - w_start> + (a_c / 2) ||w||^2``; afterwards ``d_c <- d_c + (w_c - w_start)``. Robots
start the next round from ``mean w_c + (1 / C) sum d_c``, the sum over all C robots of the fleet. What is served is the
plain mean of the robots' models. At rest ``sum d_c = 0`` and ``grad L_c = -a_c d_c``: with ``a_c = a / (C p_c)`` the
gradients, weighted by the shares p_c of the samples, sum to zero, which is the optimum of FedAvg's objective. A
newcomer's drift is zero, a lost update counts nowhere, and all drifts start anew when a robot leaves the fleet.

Where robots walk too short a way for the regulariser to hold them back (few steps, a small ``alpha``, Adam), the mean
drift is a momentum without friction: the loss falls fast at first and may rise again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.strategies.averaging import Mixer, Row
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    LocalResult,
    LocalRule,
    LocalState,
    RobotInfo,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    in_order,
    strategies,
)
from fed_core.strategies.ledger import Ledger, learned, recall, remember, to_array, wide
from fed_core.types import Json, Memory

START, DRIFT = "start", "drift"


@strategies.register("feddyn")
@dataclass(frozen=True)
class FedDyn(Strategy):
    """Keys: "global" is the mean of the robots' models, "start" where they go on from, "drift" the sum of all d_c.

    Drift is a matter of parameters; buffers are averaged.
    """

    paper: ClassVar[str] = "Acar et al. 2021, arXiv:2111.04263"

    alpha: float = option(1e-2, help="weight of the regulariser, for a robot with a mean number of samples", low=1e-8)
    grad_clip: float = option(10.0, help="largest norm of the gradient with the regulariser; 0 = no clipping", low=0.0)

    def __post_init__(self) -> None:
        check(self)

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model, without drift."""
        plans = self._plans(Ledger(), GLOBAL, state)
        return Aggregate(rows=(), plans=plans, models=(GLOBAL,), kept=(GLOBAL,))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the plain mean, the sum of the drifts, and the mean moved by the mean drift."""
        ordered, ledger = in_order(updates), Ledger.of(state)
        counting = [update for update in ordered if ledger.accepts(update.robot_id, state)]
        after = ledger.after([update.robot_id for update in counting], state.round)
        log: dict[str, Json] = {}
        return Aggregate(
            rows=_rows(ordered, counting, ledger, state, log),
            plans=self._plans(after, START, state),
            models=(GLOBAL,),
            memory=after.to_memory(),
            log=log,
        )

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Start a newcomer where all go on, without drift."""
        key = START if START in state.blobs else GLOBAL
        return self._plan(robot, Ledger.of(state), key, state), state.memory

    def local_rule(self) -> LocalRule:
        """Return the regulariser."""
        return DynamicRegulariser(self.grad_clip)

    def _plans(self, ledger: Ledger, key: str, state: ServerState) -> dict[str, RobotPlan]:
        return {robot_id: self._plan(robot, ledger, key, state) for robot_id, robot in state.robots.items()}

    def _plan(self, robot: RobotInfo, ledger: Ledger, key: str, state: ServerState) -> RobotPlan:
        mean = sum(other.num_samples for other in state.robots.values()) / len(state.robots)
        values = ledger.values(robot.robot_id, state)
        return RobotPlan((key,), values={**values, "alpha": self.alpha * mean / max(robot.num_samples, 1)})


def _rows(
    updates: Sequence[Update], counting: Sequence[Update], ledger: Ledger, state: ServerState, log: dict[str, Json]
) -> Iterator[Row]:
    """Yield mean, sum of drifts and start of every tensor; ``log`` is filled at the end."""
    shares = {GLOBAL: np.full(len(updates), 1.0 / len(updates))}
    sources = {update.robot_id: update.weights for update in updates}
    drifting, square = learned(state.signature), 0.0
    old = state.blobs[DRIFT] if ledger.counted and DRIFT in state.blobs else {}
    starts = {key: state.blobs[key] for key in {state.plans[u.robot_id].load[0] for u in counting}}
    for name, row in Mixer(state.signature, state.combine).rows(sources, shares, state.blobs):
        mean = row[GLOBAL]
        if name not in drifting:
            yield name, {GLOBAL: mean, START: mean}
            continue
        total = old[name].astype(np.float64) if name in old else np.zeros(mean.shape)
        for update in counting:
            start = starts[state.plans[update.robot_id].load[0]][name]
            total += update.weights[name].astype(np.float64) - start
        shift = np.asarray(total / len(state.robots))
        square += float(np.vdot(shift, shift))
        moved = np.asarray(mean + shift, mean.dtype)
        yield name, {GLOBAL: mean, START: moved, DRIFT: total.astype(wide(mean.dtype))}
    log["drift_norm"] = square**0.5


class DynamicRegulariser(LocalRule):
    """Adds ``a_c (w - w_start + d_c)``, the gradient of the regulariser, to that of the loss.

    Args:
        grad_clip: largest norm of the sum; 0 = no clipping.
    """

    def __init__(self, grad_clip: float) -> None:
        self._grad_clip = grad_clip

    def begin(self, state: LocalState) -> None:
        """Take up the drift of the rounds that counted."""
        self._before = recall(state)
        self._drift = {name: state.start[name].new_tensor(array) for name, array in self._before.items()}
        self._alpha = float(state.values["alpha"])  # type: ignore[arg-type]

    def correct_gradient(self, state: LocalState) -> None:
        """Add the regulariser's gradient; nothing at the first step of a robot without drift."""
        for name, parameter in state.model.named_parameters():
            if parameter.grad is None:
                continue
            pull = parameter.detach() - state.start[name]
            if name in self._drift:
                pull += self._drift[name]
            parameter.grad.add_(pull, alpha=self._alpha)
        if self._grad_clip > 0:
            from torch.nn.utils import clip_grad_norm_

            clip_grad_norm_(state.model.parameters(), self._grad_clip)

    def finish(self, state: LocalState) -> LocalResult:
        """Add this round's walk to the drift."""
        after = {}
        for name, parameter in state.model.named_parameters():
            walk = to_array(parameter.detach().double() - state.start[name].double())
            after[name] = (walk + self._before.get(name, 0.0)).astype(to_array(parameter).dtype)
        before = {name: self._before.get(name, np.zeros_like(array)) for name, array in after.items()}
        return LocalResult(memory=remember(state, before, after))
