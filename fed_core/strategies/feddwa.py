"""FedDWA: control variates whose mean weighs robots by their KL divergence (arXiv:2404.17147, IEEE RA-L 2024).

A robot trains with ``g - c_m + c_g``, as in SCAFFOLD, and renews its control ``c_m``. Then it measures T_m, the mean KL
divergence on its own samples between the global model that it received and the model that it trained. The aggregator
forms ``w_m = T_m / sum T`` and ``c_g = sum w_m c_m``, and moves ``w <- w - eta_g sum a_m (w - w_m)`` (feddwa spec 2).

At rest ``sum w_m grad f_m = 0``: the method descends on the loss weighted by w, whatever a is; with uniform weights it
is SCAFFOLD. The paper does not state the direction of w, so compare ``increasing``, ``inverse`` and ``uniform``.

Controls belong to parameters; buffers are averaged by samples, counters take their maximum. The controls and T_m of
absent robots stay in the sum, for which the aggregator keeps one control per robot. A robot whose divergence is not
finite is left out of its round; one whose control does not fit moves the model only. As with SCAFFOLD all controls
start anew when a robot leaves.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.errors import ConfigError, TrainingError
from fed_core.strategies.averaging import Floats, Mixer, Row
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
from fed_core.strategies.dynamic_weights import DIRECTIONS, dynamic_weights
from fed_core.strategies.ledger import Ledger, learned, remember, to_array, wide
from fed_core.strategies.optimizer_memory import learning_rates, restore_optimizer, with_optimizer
from fed_core.strategies.scaffold import CONTROL, Corrected, control_shapes, moved_by, sends_control, unfitting
from fed_core.types import Array, Json, Memory

if TYPE_CHECKING:
    from torch import Tensor

    from fed_core.training.divergence import Divergence

DIVERGENCE, RATE_SUM = "divergence", "rate_sum"
NOT_FINITE = "its KL divergence is not finite"


@strategies.register("feddwa")
@dataclass(frozen=True)
class FedDWA(Strategy):
    """Keys: "global" is the model, "control" the fleet's control, "control/<robot>" each robot's last one."""

    paper: ClassVar[str] = "On the Federated Learning Framework for Cooperative Perception 2024, arXiv:2404.17147"

    local_init: str = option(
        "global", help="what a robot's round starts from: the global model, or the robot's own last one",
        choices=("global", "persistent"),
    )  # fmt: skip
    kld_softmax: str = option(
        "class", help="softmax over the classes of a pixel, or all pixels of a class", choices=("class", "spatial")
    )
    kld_reduction: str = option("mean", help="of what the softmax leaves", choices=("mean", "sum"))
    dwa_direction: str = option("increasing", help="weight of a robot by its divergence", choices=DIRECTIONS)
    kld_source: str = option(
        "eval_pass", help="divergence after training, or its running mean over the steps",
        choices=("eval_pass", "running"),
    )  # fmt: skip
    kld_step_norm: bool = option(False, help="divide the divergence by the sum of the steps' learning rates")
    w_max: float = option(1.0, help="largest weight of a robot; 1 = no cap", low=0.0, high=1.0)
    cv_update: str = option(
        "I", help="control from the mean of raw gradients (I) or from the path walked (II)", choices=("I", "II")
    )
    cv_space: str = option(
        "grad", help="correct the gradient, or the weights after each step", choices=("grad", "update")
    )
    cg_form: str = option(
        "absolute", help="fleet's control: the weighted mean, or the old one plus weighted changes",
        choices=("absolute", "incremental"),
    )  # fmt: skip
    agg_weight: str = option("uniform", help="a_m: 1 / M, samples, or w", choices=("uniform", "size", "w"))
    eta_g: float = option(1.0, help="step of the model towards the mean of the robots' models", low=1e-3, high=10.0)
    opt_state: str = option("persist", help="the optimiser's moments over rounds", choices=("persist", "reset"))

    def __post_init__(self) -> None:
        check(self)

    def check_training(self, train: Mapping[str, Json]) -> None:
        """Refuse a path that says nothing about gradients (feddwa spec 2.8), and rates that change within a round."""
        if train.get("schedule") == "cyclic" and (self.cv_update == "II" or self.cv_space == "update"):
            text = "feddwa: cv_update II and cv_space update need one learning rate in a round"
            raise ConfigError(f"{text}, but train.schedule is cyclic; take another schedule")
        if self.cv_update != "II" or self.cv_space != "grad":
            return
        optimizer = train.get("optimizer", "adamw")
        if optimizer != "sgd" or train.get("encoder_lr_scale", 1.0) != 1.0:
            text = "feddwa: cv_update II with cv_space grad needs plain SGD of one learning rate"
            found = f"train.optimizer is {optimizer}, encoder_lr_scale {train.get('encoder_lr_scale', 1.0)}"
            raise ConfigError(f"{text}, but {found}; set cv_update to I or cv_space to update")

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model, with zero controls."""
        return Aggregate(rows=(), plans=self._plans(Ledger(), (), state), models=(GLOBAL,), kept=(GLOBAL,))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the moved model, the fleet's new control and each robot's."""
        ordered, ledger = in_order(updates), Ledger.of(state)
        told = {u.robot_id: self._divergence(u) for u in ordered}
        valid = [u for u in ordered if math.isfinite(told[u.robot_id])]
        shapes = control_shapes(state.signature)
        fitting = [update for update in valid if sends_control(update, shapes)]
        log = _told(ordered, valid, fitting)
        if not valid:
            return self._unchanged(ledger, state, log)
        counting = [update for update in fitting if ledger.accepts(update.robot_id, state)]
        counted = [update.robot_id for update in counting]
        after = ledger.after(counted, state.round)
        divergences = {**_remembered(state, ledger), **{robot_id: told[robot_id] for robot_id in counted}}
        weights = dynamic_weights(divergences, _samples(state), self.dwa_direction, w_max=self.w_max)
        log |= {"divergence": {**divergences}, "weights": {**weights}}
        log["without_control"] = [u.robot_id for u in valid if u.robot_id not in counted]
        absent = {robot_id: _own(robot_id) for robot_id in ledger.counted if robot_id not in counted}
        return Aggregate(
            rows=_Round(self, valid, counting, absent, weights, state).rows(log),
            plans=self._plans(after, (CONTROL,), state),
            models=(GLOBAL,),
            kept=tuple(absent.values()),
            memory=Memory(values={**after.to_memory().values, DIVERGENCE: {**divergences}}),
            log=log,
        )

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Start a newcomer from the model, with a zero control of its own."""
        extras = (CONTROL,) if CONTROL in state.blobs else ()
        return self._plan(robot.robot_id, Ledger.of(state), extras, state), state.memory

    def merge(self, name: str, own: Array | None, loaded: Array | None, memory: Memory) -> Array:
        """Return the global model's tensor, or the robot's own where local models persist."""
        keeps = self.local_init == "persistent" and own is not None
        return super().merge(name, own, None if keeps else loaded, memory)

    def local_rule(self) -> LocalRule:
        """Return the correction of the drift, with the measure of the divergence."""
        return DynamicallyWeighted(self)

    def _divergence(self, update: Update) -> float:
        """Return T_m; NaN where it is missing, negative or not finite."""
        value = update.scalars.get(DIVERGENCE, math.nan)
        if self.kld_step_norm:
            value /= max(update.scalars.get(RATE_SUM, math.nan), 1e-300)
        return value if math.isfinite(value) and value >= 0.0 else math.nan

    def _unchanged(self, ledger: Ledger, state: ServerState, log: Mapping[str, Json]) -> Aggregate:
        extras = (CONTROL,) if CONTROL in state.blobs else ()
        plans, kept = self._plans(ledger, extras, state), tuple(state.blobs)
        return Aggregate(rows=(), plans=plans, models=(GLOBAL,), kept=kept, memory=state.memory, log=log)

    def _plans(self, ledger: Ledger, extras: tuple[str, ...], state: ServerState) -> dict[str, RobotPlan]:
        return {robot_id: self._plan(robot_id, ledger, extras, state) for robot_id in state.robots}

    def _plan(self, robot_id: str, ledger: Ledger, extras: tuple[str, ...], state: ServerState) -> RobotPlan:
        reference = (GLOBAL,) if self.local_init == "persistent" else ()  # it is not what training starts from
        return RobotPlan((GLOBAL,), (*extras, *reference), ledger.values(robot_id, state))


def _told(updates: Sequence[Update], valid: Sequence[Update], fitting: Sequence[Update]) -> dict[str, Json]:
    """Return what the log says of robots that are left out, or whose control is; "warnings" are told to people."""
    named = {update.robot_id for update in valid}
    dropped = {update.robot_id: NOT_FINITE for update in updates if update.robot_id not in named}
    warnings = [f"robot {robot_id!r} is left out of the round: {reason}" for robot_id, reason in dropped.items()]
    warnings += unfitting(valid, fitting)
    return {"dropped": {**dropped}, "warnings": [*warnings]}


def _own(robot_id: str) -> str:
    return f"{CONTROL}/{robot_id}"


def _samples(state: ServerState) -> dict[str, int]:
    return {robot_id: robot.num_samples for robot_id, robot in state.robots.items()}


def _remembered(state: ServerState, ledger: Ledger) -> dict[str, float]:
    """Return T_m of the robots in the ledger, as of their last round that counted."""
    found: Any = state.memory.values.get(DIVERGENCE, {})
    return {robot_id: float(value) for robot_id, value in found.items() if robot_id in ledger.counted}


@dataclass(frozen=True)
class _Round:
    """One aggregation, tensor by tensor.

    Attributes:
        strategy: its options.
        updates: those that move the model, by robot id.
        counting: those whose control counts.
        absent: keys of the controls that stay, by robot id.
        weights: w_m.
        state: the server's state.
    """

    strategy: FedDWA
    updates: Sequence[Update]
    counting: Sequence[Update]
    absent: Mapping[str, str]
    weights: Mapping[str, float]
    state: ServerState

    def rows(self, log: dict[str, Json]) -> Iterator[Row]:
        """Yield the model and the controls of every tensor; ``log`` is filled at the end."""
        names, model, square = learned(self.state.signature), self.state.blobs[GLOBAL], 0.0
        for name, mean in self._means():
            if name not in names:
                yield name, {GLOBAL: mean}
                continue
            fleet, own = self._control(name, mean)
            square += float(np.vdot(fleet, fleet))
            kept = wide(mean.dtype)
            controls = {_own(robot_id): array.astype(kept) for robot_id, array in own.items()}
            moved = moved_by(self.strategy.eta_g, model, name, mean)
            yield name, {GLOBAL: moved, CONTROL: fleet.astype(kept), **controls}
        log["control_norm"] = square**0.5

    def _means(self) -> Iterator[tuple[str, Array]]:
        """Yield the mean of every tensor: parameters by a_m, buffers by samples (feddwa spec 2.8)."""
        signature, names = self.state.signature, learned(self.state.signature)
        sources = {update.robot_id: update.weights for update in self.updates}
        samples = np.array([update.num_samples for update in self.updates], np.float64)
        shares = {True: self._shares(samples), False: samples / samples.sum()}
        rows = {
            trained: Mixer(
                replace(signature, tensors=tuple(s for s in signature.tensors if (s.name in names) is trained)),
                self.state.combine,
            ).rows(sources, {GLOBAL: share})
            for trained, share in shares.items()
        }
        for name in signature.names:
            _, row = next(rows[name in names])
            yield name, row[GLOBAL]

    def _shares(self, samples: Floats) -> Floats:
        uniform = np.full(len(samples), 1.0 / len(samples))
        if self.strategy.agg_weight == "size":
            return np.asarray(samples / samples.sum())
        if self.strategy.agg_weight == "w":
            weights = np.array([self.weights.get(update.robot_id, 0.0) for update in self.updates])
            return np.asarray(weights / weights.sum()) if weights.sum() > 0 else uniform
        return uniform

    def _control(self, name: str, like: Array) -> tuple[Array, dict[str, Array]]:
        """Return the fleet's control of a tensor, float64, and those that robots sent."""
        own = {update.robot_id: update.extras[name] for update in self.counting}
        blobs, fleet = self.state.blobs, np.zeros(like.shape)
        if self.strategy.cg_form == "absolute":
            known = {**{robot_id: blobs[key][name] for robot_id, key in self.absent.items()}, **own}
            for robot_id in sorted(known):
                fleet += self.weights.get(robot_id, 0.0) * known[robot_id].astype(np.float64)
            return fleet, own
        counted = Ledger.of(self.state).counted
        if counted and CONTROL in blobs:
            fleet += blobs[CONTROL][name]
        for robot_id, control in own.items():
            old = blobs[_own(robot_id)][name].astype(np.float64) if robot_id in counted else 0.0
            fleet += self.weights.get(robot_id, 0.0) * (control.astype(np.float64) - old)
        return fleet, own


class DynamicallyWeighted(Corrected):
    """SCAFFOLD's correction that sends the control itself, and the divergence of the trained model.

    Args:
        options: of the strategy.
    """

    def __init__(self, options: FedDWA) -> None:
        super().__init__(by_path=options.cv_update == "II")
        self._options = options
        self._rate_sum = 0.0
        self._running: Tensor | float = 0.0

    def begin(self, state: LocalState) -> None:
        """Take up both controls, and the optimiser's moments."""
        super().begin(state)
        self._rates = learning_rates(state)
        if self._options.opt_state == "persist":
            restore_optimizer(state)

    def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: "Tensor") -> "Tensor":
        """Measure the step's divergence for the running mean."""
        if self._options.kld_source == "running":
            state.add_share(DIVERGENCE, self._divergence(state).of_step(state, batch, outputs))
        return task_loss

    def correct_gradient(self, state: LocalState) -> None:
        """Write down the raw gradient; correct it, unless the weights are corrected after the step."""
        if self._options.cv_space == "grad":
            super().correct_gradient(state)
        else:
            self._note(self._gradients())

    def after_step(self, state: LocalState) -> None:
        """Add to the running means; correct the weights, where that is what the options say."""
        self._rate_sum += state.lr
        self._running = self._running + state.sums.get(DIVERGENCE, 0.0)
        if self._options.cv_space == "update":
            for name, parameter in self._parameters.items():
                if parameter.grad is not None:
                    parameter.data.sub_(self._shift[name], alpha=self._rates[name])

    def finish(self, state: LocalState) -> LocalResult:
        """Send the control and the divergence; remember the control and the optimiser's moments."""
        after = self._renewed(state)
        memory = remember(state, self._own, after)
        if self._options.opt_state == "persist":
            memory = with_optimizer(memory, state)
        scalars = {
            DIVERGENCE: self._measured(state),
            RATE_SUM: self._rate_sum,
            "own_control_norm": sum(float(np.vdot(array, array)) for array in after.values()) ** 0.5,
            "drift": drift(state),
        }
        return LocalResult(extras=after, scalars=scalars, memory=memory)

    def _divergence(self, state: LocalState) -> "Divergence":
        from fed_core.training.divergence import Measure, shared_divergence

        return shared_divergence(state, Measure(self._options.kld_softmax, self._options.kld_reduction))

    def _measured(self, state: LocalState) -> float:
        if self._options.kld_source == "running":
            return float(self._running) / max(state.step, 1)
        return self._divergence(state).after_training(state)

    def _path(self, state: LocalState) -> dict[str, Array]:
        """Return the control of option II; the rates are those of each parameter's group."""
        estimate = {}
        for name, parameter in state.model.named_parameters():
            walked = state.step * self._rates[name]
            if not walked > 0:
                raise TrainingError("feddwa: cv_update II divides by the learning rate, which is 0; set cv_update to I")
            gone = state.start[name].double() - parameter.detach().double()
            estimate[name] = to_array(gone / walked - self._shift[name].double())
        return estimate


def drift(state: LocalState) -> float:
    """Return how far training moved the parameters, the L2 norm of the walk."""
    import torch

    walks = (p.detach() - state.start[name] for name, p in state.model.named_parameters())
    return math.hypot(*(float(torch.linalg.vector_norm(walk, dtype=torch.float64)) for walk in walks))
