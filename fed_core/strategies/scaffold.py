"""SCAFFOLD: control variates against the robots' drift (Karimireddy et al. 2020, arXiv:1910.06378).

A robot's control ``c_i`` estimates its own gradient, the fleet's ``c`` is the mean over all C robots. A robot trains
with the gradient ``g - c_i + c``, so that it walks as if it saw everybody's data, and then renews its control (fedepth
spec 9, feddwa spec 2.4 and 2.8):

- ``gradient``: ``c_i' = mean of the raw gradients g along the way``. Holds for any optimiser, since both the estimate
  and the correction are gradients; the correction comes before the optimiser (and before its clipping).
- ``path``: the paper's option II, ``c_i' = c_i - c + (w - y) / (K eta)`` from the K steps walked from w to y. Holds for
  plain SGD with one learning rate only, where it equals the above up to weight decay and clipping. An Adam step is not
  in units of gradients, so any other step is refused.

The aggregator moves ``w <- w + eta_g sum p_i (y_i - w)`` and ``c <- c + (1 / C) sum (c_i' - c_i)``. At rest ``c = 0``:
the robots' losses count equally, however many samples they have. With ``weights: samples`` c is the mean weighted by
samples, and the optimum that of FedAvg's objective. Controls belong to parameters; buffers are averaged as ever. A
newcomer's control is zero, a lost update counts nowhere, and all controls start anew when a robot leaves the fleet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.errors import ConfigError, TrainingError
from fed_core.strategies.averaging import Row
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
    mean_rows,
    strategies,
)
from fed_core.strategies.ledger import Ledger, learned, recall, remember, to_array, wide, widened
from fed_core.types import Array, Json, Memory, ModelSignature

if TYPE_CHECKING:
    from torch import Tensor

CONTROL = "control"
_TOTAL = "control_total"
#: Relative error of a weight in float32 after one step.
_ROUNDING = 2e-7


@strategies.register("scaffold")
@dataclass(frozen=True)
class Scaffold(Strategy):
    """Keys: "global" is the model, "control" the fleet's control variate; before the first round there is none."""

    paper: ClassVar[str] = "Karimireddy et al. 2020, arXiv:1910.06378"

    control: str = option(
        "gradient", help="estimate of a robot's gradient: mean of its raw gradients, or (plain SGD only) its path",
        choices=("gradient", "path"),
    )  # fmt: skip
    weights: str = option(
        "robots",
        help="what counts equally in the fleet's control: robots, or their samples",
        choices=("robots", "samples"),
    )
    eta_g: float = option(1.0, help="step of the model towards the mean of the robots' models", low=1e-3, high=10.0)

    def __post_init__(self) -> None:
        check(self)

    def check_training(self, train: Mapping[str, Json]) -> None:
        """Refuse a learning rate that changes within a round where the path is divided by it."""
        if self.control == "path" and train.get("schedule") == "cyclic":
            text = "scaffold: control path needs one learning rate in a round, but train.schedule is cyclic"
            raise ConfigError(f"{text}; set control to gradient or take another schedule")

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model, with zero controls."""
        return Aggregate(rows=(), plans=_plans(Ledger(), (), state), models=(GLOBAL,), kept=(GLOBAL,))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the moved model and the new control; an update without a fitting control moves the model only."""
        ordered, ledger = in_order(updates), Ledger.of(state)
        shapes = control_shapes(state.signature)
        fitting = [update for update in ordered if sends_control(update, shapes)]
        counting = [update for update in fitting if ledger.accepts(update.robot_id, state)]
        counted = [update.robot_id for update in counting]
        after = ledger.after(counted, state.round)
        log: dict[str, Json] = {"without_control": [u.robot_id for u in ordered if u.robot_id not in counted]}
        log["warnings"] = [*unfitting(ordered, fitting)]
        total = sum(self._weight(robot) for robot in state.robots.values())
        return Aggregate(
            rows=self._rows(ordered, counting, state, log),
            plans=_plans(after, (CONTROL,), state),
            models=(GLOBAL,),
            memory=Memory(values={**after.to_memory().values, _TOTAL: total}),
            log=log,
        )

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Start a newcomer from the model, with a zero control of its own."""
        extras = (CONTROL,) if CONTROL in state.blobs else ()
        return RobotPlan((GLOBAL,), extras, Ledger.of(state).values(robot.robot_id, state)), state.memory

    def local_rule(self) -> LocalRule:
        """Return the correction of the drift."""
        return Corrected(by_path=self.control == "path")

    def _weight(self, robot: RobotInfo) -> int:
        return robot.num_samples if self.weights == "samples" else 1

    def _rows(
        self, updates: Sequence[Update], counting: Sequence[Update], state: ServerState, log: dict[str, Json]
    ) -> Iterator[Row]:
        """Yield the model and the control of every tensor; ``log`` is filled at the end."""
        total = float(sum(self._weight(robot) for robot in state.robots.values()))
        before = float(state.memory.values.get(_TOTAL, 0))  # type: ignore[arg-type]  # the mean was over so many
        old = state.blobs[CONTROL] if Ledger.of(state).counted and CONTROL in state.blobs else {}
        names, model, square = learned(state.signature), state.blobs[GLOBAL], 0.0
        for name, row in mean_rows(updates, state):
            mean = row[GLOBAL]
            if name not in names:
                yield name, row
                continue
            summed = old[name].astype(np.float64) * before if name in old else np.zeros(mean.shape)
            for update in counting:
                summed += self._weight(state.robots[update.robot_id]) * update.extras[name].astype(np.float64)
            control = np.asarray(summed / total)
            square += float(np.vdot(control, control))
            yield name, {GLOBAL: moved_by(self.eta_g, model, name, mean), CONTROL: control.astype(wide(mean.dtype))}
        log["control_norm"] = square**0.5


def moved_by(eta_g: float, model: Mapping[str, Array], name: str, mean: Array) -> Array:
    """Return the tensor ``name`` of ``model`` after a step of ``eta_g`` towards the robots' mean."""
    if eta_g == 1.0:
        return mean  # bit by bit
    old = model[name].astype(np.float64)
    return np.asarray(old + eta_g * (mean - old), mean.dtype)


def _plans(ledger: Ledger, extras: tuple[str, ...], state: ServerState) -> dict[str, RobotPlan]:
    return {robot_id: RobotPlan((GLOBAL,), extras, ledger.values(robot_id, state)) for robot_id in state.robots}


def control_shapes(signature: ModelSignature) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a control: one tensor for every parameter."""
    names = learned(signature)
    return {spec.name: spec.shape for spec in signature.tensors if spec.name in names}


def sends_control(update: Update, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Tell whether a robot sent its control (or the change of it) for every parameter, in the right shape."""
    if set(shapes) != set(update.extras):
        return False
    sent = {name: update.extras[name] for name in shapes}
    return all(a.shape == shapes[name] and np.issubdtype(a.dtype, np.floating) for name, a in sent.items())


def unfitting(updates: Sequence[Update], fitting: Sequence[Update]) -> list[str]:
    """Return what people are told of the robots whose control does not fit."""
    text = "its control variate does not have the parameters and shapes of the model, so it moves the model only"
    fine = {update.robot_id for update in fitting}
    return [f"robot {update.robot_id!r}: {text}" for update in updates if update.robot_id not in fine]


class Corrected(LocalRule):
    """Adds ``c - c_i`` to every gradient and renews ``c_i``.

    Args:
        by_path: estimate the gradient by the path walked (option II), not by the mean of gradients.
    """

    def __init__(self, *, by_path: bool) -> None:
        self._by_path = by_path
        self._sums: dict[str, Tensor] = {}

    def begin(self, state: LocalState) -> None:
        """Take up the fleet's control and the own one of the last round that counted; both are zero at first."""
        import torch

        own, fleet = recall(state), state.extras.get(CONTROL, {})
        self._parameters = dict(state.model.named_parameters())
        self._own, self._shift = {}, {}
        for name in self._parameters:
            start = state.start[name]
            zero = np.zeros(start.shape, np.float64 if start.element_size() == 8 else np.float32)
            self._own[name] = own.get(name, zero)
            shift = np.asarray((fleet[name] if name in fleet else zero) - self._own[name])
            self._shift[name] = torch.as_tensor(shift, dtype=start.dtype, device=start.device)

    def correct_gradient(self, state: LocalState) -> None:
        """Write down the raw gradient, then add the correction."""
        import torch

        gradients = self._gradients()
        self._note(gradients)
        if gradients:
            torch._foreach_add_(list(gradients.values()), [self._shift[name] for name in gradients])

    def _gradients(self) -> "dict[str, Tensor]":
        """Return the gradients that there are."""
        return {name: p.grad for name, p in self._parameters.items() if p.grad is not None}

    def _note(self, gradients: "Mapping[str, Tensor]") -> None:
        """Add the raw gradients to their sums, all in one call: there are hundreds, most of them small."""
        import torch

        if self._by_path:
            return
        seen = [name for name in gradients if name in self._sums]
        if seen:
            torch._foreach_add_([self._sums[name] for name in seen], [gradients[name] for name in seen])
        for name in gradients:
            if name not in self._sums:
                self._sums[name] = widened(gradients[name]).clone()

    def after_step(self, state: LocalState) -> None:
        """Refuse optimisers whose path says nothing about gradients, at the first step."""
        if self._by_path and state.step == 0:
            _check_plain(state)

    def finish(self, state: LocalState) -> LocalResult:
        """Send the change of the control; remember the new one."""
        after = self._renewed(state)
        change = {name: after[name] - self._own[name] for name in after}
        return LocalResult(extras=change, memory=remember(state, self._own, after))

    def _renewed(self, state: LocalState) -> dict[str, Array]:
        estimate = self._path(state) if self._by_path else self._mean(state)
        return {name: array.astype(self._own[name].dtype, copy=False) for name, array in estimate.items()}

    def _mean(self, state: LocalState) -> dict[str, Array]:
        """Return the mean of the raw gradients, in the memory of their sums."""
        self._shift.clear()  # a copy of the model that nothing needs any more
        means = {}
        for name, own in self._own.items():
            total = self._sums.pop(name, None)
            # Without a sum no gradient reached it.
            means[name] = np.zeros_like(own) if total is None else total.div_(state.step).cpu().numpy()
        return means

    def _path(self, state: LocalState) -> dict[str, Array]:
        walked = state.step * state.lr
        estimate = {}
        for name, parameter in state.model.named_parameters():
            gone = state.start[name].double() - parameter.detach().double()
            estimate[name] = to_array(gone / walked - self._shift[name].double())
        return estimate


def _check_plain(state: LocalState) -> None:
    """Compare the first step with ``lr (gradient + decay w)``: up to rounding, that is what plain SGD does."""
    if not state.lr > 0:
        raise TrainingError(
            "scaffold: 'control: path' divides by the learning rate, which is 0; set control to gradient"
        )
    left = walked = size = 0.0
    for name, parameter in state.model.named_parameters():
        if parameter.grad is None:
            continue
        start = state.start[name].double()
        step = (start - parameter.detach().double()) / state.lr
        rest = step - parameter.grad.double()
        square = float((start**2).sum())
        decay = float((rest * start).sum()) / max(square, 1e-300)
        left += float(((rest - decay * start) ** 2).sum())
        walked += float((step**2).sum())
        size += square
    rounding = _ROUNDING * size**0.5 / state.lr
    if left**0.5 > 0.1 * walked**0.5 + rounding:
        text = (
            "scaffold: 'control: path' holds for plain SGD with one learning rate, but the optimiser did another step"
        )
        raise TrainingError(f"{text}; set train.optimizer to sgd and encoder_lr_scale to 1, or control to gradient")
