"""FedDyn: a regulariser that turns local minima towards the common one (Acar et al. 2021, arXiv:2111.04263).

In the form of accumulated drift (fedepth spec 9): a robot remembers ``d_c``, the sum of all its walks so far, and
minimises ``L_c(w) + a_c <w, d_c - w_start> + (a_c / 2) ||w||^2``; afterwards ``d_c <- d_c + (w_c - w_start)``. Robots
start the next round from ``mean w_c + (1 / C) sum d_c``, the sum over all C robots of the fleet. What is served is the
plain mean of the robots' models. At rest ``sum d_c = 0`` and ``grad L_c = -a_c d_c``: with ``a_c = a / (C p_c)`` the
gradients, weighted by the shares p_c of the samples, sum to zero, which is the optimum of FedAvg's objective. A
newcomer's drift is zero, a lost update counts nowhere, and all drifts start anew when a robot leaves the fleet.

With ``weights: samples`` both means count robots by their samples, and a robot's regulariser does not (a_c = a); the
point of rest is the same. ``part_alpha`` scales a within parts of the network, ``norm_penalty: false`` leaves BatchNorm
out; a tensor without regulariser has no drift and is averaged. Before round ``drift_from`` robots count no drift, so
that ``d_c = 0``: they are held near the start of the round and plainly averaged. FedCKA's setting (fedcka spec 6) is
``weights: samples, part_alpha: {image_backbone: 0.01, image_neck: 0.1}, norm_penalty: false, drift_from: 11``; drift
that was counted from round 1 on would there be let loose at once, as a leap of ten rounds' walks.

Where robots walk too short a way for the regulariser to hold them back (few steps, a small ``alpha``, Adam), the mean
drift is a momentum without friction: the loss falls fast at first and may rise again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.errors import ConfigError
from fed_core.strategies.averaging import NORMS, Floats, Mixer, Row
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
from fed_core.strategies.personal import part_of
from fed_core.types import Json, Memory, ModelSignature

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
    weights: str = option(
        "robots", help="what counts equally in both means: robots, or their samples", choices=("robots", "samples")
    )
    part_alpha: Mapping[str, float] = field(
        default_factory=dict, metadata={"help": "factors on alpha by part of the network; 0 = no regulariser there"}
    )
    norm_penalty: bool = option(True, help="hold BatchNorm layers, too")
    drift_from: int = option(
        1, help="first round whose drift counts; before it robots are averaged", unit="count", low=1
    )

    def __post_init__(self) -> None:
        check(self)
        for part, factor in self.part_alpha.items():
            if not factor >= 0:
                raise ConfigError(f"FedDyn.part_alpha.{part} is {factor}; it must be at least 0")

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model, without drift; a network without a part of ``part_alpha`` is refused."""
        self.factors(state.signature)
        plans = self._plans(Ledger(), GLOBAL, state)
        return Aggregate(rows=(), plans=plans, models=(GLOBAL,), kept=(GLOBAL,))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the plain mean, the sum of the drifts, and the mean moved by the mean drift."""
        ordered, ledger = in_order(updates), Ledger.of(state)
        counting = [u for u in ordered if state.round >= self.drift_from and ledger.accepts(u.robot_id, state)]
        after = ledger.after([update.robot_id for update in counting], state.round)
        log: dict[str, Json] = {}
        return Aggregate(
            rows=self._rows(ordered, counting, state, log),
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
        return DynamicRegulariser(self)

    def factors(self, signature: ModelSignature) -> dict[str, float]:
        """Return the factor on alpha by tensor, where it is not 1."""
        factors: dict[str, float] = {}
        for part, factor in self.part_alpha.items():
            for name in part_of(signature, part, "feddyn"):
                factors[name] = factors.get(name, 1.0) * factor
        if not self.norm_penalty:
            factors.update({spec.name: 0.0 for spec in signature.tensors if spec.module in NORMS})
        return factors

    def _plans(self, ledger: Ledger, key: str, state: ServerState) -> dict[str, RobotPlan]:
        return {robot_id: self._plan(robot, ledger, key, state) for robot_id, robot in state.robots.items()}

    def _plan(self, robot: RobotInfo, ledger: Ledger, key: str, state: ServerState) -> RobotPlan:
        mean = sum(other.num_samples for other in state.robots.values()) / len(state.robots)
        alpha = self.alpha if self.weights == "samples" else self.alpha * mean / max(robot.num_samples, 1)
        return RobotPlan((key,), values={**ledger.values(robot.robot_id, state), "alpha": alpha})

    def _weight(self, robot: RobotInfo) -> int:
        return robot.num_samples if self.weights == "samples" else 1

    def _shares(self, updates: Sequence[Update]) -> Floats:
        if self.weights == "robots":
            return np.full(len(updates), 1.0 / len(updates))
        counts = np.array([update.num_samples for update in updates], np.float64)
        return np.asarray(counts / counts.sum())

    def _rows(
        self, updates: Sequence[Update], counting: Sequence[Update], state: ServerState, log: dict[str, Json]
    ) -> Iterator[Row]:
        """Yield mean, sum of drifts and start of every tensor; ``log`` is filled at the end."""
        sources = {update.robot_id: update.weights for update in updates}
        still = {name for name, factor in self.factors(state.signature).items() if factor == 0}
        drifting, square = learned(state.signature) - still, 0.0
        old = state.blobs[DRIFT] if Ledger.of(state).counted and DRIFT in state.blobs else {}
        starts = {key: state.blobs[key] for key in {state.plans[u.robot_id].load[0] for u in counting}}
        weight = {robot_id: self._weight(robot) for robot_id, robot in state.robots.items()}
        rows = Mixer(state.signature, state.combine).rows(sources, {GLOBAL: self._shares(updates)}, state.blobs)
        for name, row in rows:
            mean = row[GLOBAL]
            if name not in drifting:
                yield name, {GLOBAL: mean, START: mean}
                continue
            total = old[name].astype(np.float64) if name in old else np.zeros(mean.shape)
            for update in counting:
                start = starts[state.plans[update.robot_id].load[0]][name]
                total += weight[update.robot_id] * (update.weights[name].astype(np.float64) - start)
            shift = np.asarray(total / sum(weight.values()))
            square += float(np.vdot(shift, shift))
            moved = np.asarray(mean + shift, mean.dtype)
            yield name, {GLOBAL: mean, START: moved, DRIFT: total.astype(wide(mean.dtype))}
        log["drift_norm"] = square**0.5


class DynamicRegulariser(LocalRule):
    """Adds ``a_c (w - w_start + d_c)``, the gradient of the regulariser, to that of the loss.

    Args:
        options: of the strategy.
    """

    def __init__(self, options: FedDyn) -> None:
        self._options = options

    def begin(self, state: LocalState) -> None:
        """Take up the drift of the rounds that counted."""
        self._before = recall(state)
        self._drift = {name: state.start[name].new_tensor(array) for name, array in self._before.items()}
        alpha = float(state.values["alpha"])  # type: ignore[arg-type]
        factors = self._options.factors(state.signature)
        scaled = {name: alpha * factors.get(name, 1.0) for name, _ in state.model.named_parameters()}
        self._alpha = {name: value for name, value in scaled.items() if value > 0}

    def correct_gradient(self, state: LocalState) -> None:
        """Add the regulariser's gradient; nothing at the first step of a robot without drift."""
        for name, parameter in state.model.named_parameters():
            if parameter.grad is None or name not in self._alpha:
                continue
            pull = parameter.detach() - state.start[name]
            if name in self._drift:
                pull += self._drift[name]
            parameter.grad.add_(pull, alpha=self._alpha[name])
        if self._options.grad_clip > 0:
            from torch.nn.utils import clip_grad_norm_

            clip_grad_norm_(state.model.parameters(), self._options.grad_clip)

    def finish(self, state: LocalState) -> LocalResult:
        """Add this round's walk to the drift."""
        after = {}
        for name, parameter in state.model.named_parameters():
            if name in self._alpha:
                walk = to_array(parameter.detach().double() - state.start[name].double())
                after[name] = (walk + self._before.get(name, 0.0)).astype(to_array(parameter).dtype)
        before = {name: self._before.get(name, np.zeros_like(array)) for name, array in after.items()}
        return LocalResult(memory=remember(state, before, after))
