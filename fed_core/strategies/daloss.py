"""DALoss: any strategy, its robots pulled to the global model the more their predictions differ (arXiv:2404.17147).

A robot minimises ``S + Q`` with ``Q = C D ||w_g - w||^2``: S is the task's loss, D the KL divergence of the batch's
predictions from those of the global model that the round started from, w_g its weights. That is FedProx with
``mu = 2 C D`` (feddwa spec 3). D is a coefficient without gradient, so Q's gradient is added by hand, as in FedProx:
``2 C D (w - w_g)``, exactly zero at the start of a round.

It wraps another strategy and hands it everything else: ``{name: daloss, options: {inner: feddwa}}``. The norm is over
the parameters that the inner strategy shares, since private layers have no global counterpart. With ``per_step`` Q
grows like the fourth power of a small drift, so that short training hardly feels it: see the figures ``q_over_s`` and
``q_gradient_share`` of every round.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fed_core.config import check, option
from fed_core.errors import ConfigError
from fed_core.strategies.base import LocalResult, LocalRule, LocalState, strategies
from fed_core.strategies.ledger import widened
from fed_core.strategies.wrapper import Wrapper
from fed_core.types import Memory

if TYPE_CHECKING:
    from torch import Tensor

    from fed_core.training.divergence import Divergence

    Pair = tuple[Tensor, Tensor]

#: Parameters whose distance is taken in one call [bytes].
_PART_BYTES = 2**22
#: Where the rule keeps the divergence of the last round, beside what the inner rule remembers.
_REMEMBERED = "daloss/divergence"
#: Sums over the parts of a step: the task's loss, and the divergence.
_LOSS, _MEASURED = "daloss/loss", "daloss/step_divergence"


@strategies.register("daloss")
@dataclass(frozen=True)
class DALoss(Wrapper):
    """Keys and memory are the inner strategy's."""

    paper: ClassVar[str] = "On the Federated Learning Framework for Cooperative Perception 2024, arXiv:2404.17147"

    C: float = option(0.1, help="weight of the pull; 0 = the inner strategy", low=0.0, high=1e6)
    norm_power: int = option(2, help="the squared norm, or the norm", low=1, high=2)
    kld_refresh: str = option(
        "per_step", help="divergence of each batch, or of the robot's samples after its last round",
        choices=("per_step", "per_round"),
    )  # fmt: skip
    kld_grad: bool = option(False, help="let gradient flow through the divergence, too")
    kld_eval_mode: bool = option(False, help="measure in eval mode, by a second forward of the trained model")
    kld_softmax: str = option(
        "class", help="softmax over the classes of a pixel, or all pixels of a class", choices=("class", "spatial")
    )
    kld_reduction: str = option("mean", help="of what the softmax leaves", choices=("mean", "sum"))
    cv_includes_q: bool = option(True, help="the inner strategy's control variates hold the gradient of Q")

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self)
        if self.kld_grad and self.kld_refresh == "per_round":
            raise ConfigError(
                "daloss: no gradient flows through the divergence of the last round; set kld_grad to false"
            )

    def local_rule(self) -> LocalRule:
        """Return the inner strategy's rule with the pull around it."""
        return DivergencePull(self, self._strategy.local_rule())

    def shared(self, state: LocalState) -> list[str]:
        """Return the parameters that the pull counts."""
        travels = self.travels(state.signature) if state.signature.tensors else frozenset(state.start)
        return [name for name, _ in state.model.named_parameters() if name in travels]


class DivergencePull(LocalRule):
    """Adds the gradient of Q and leaves everything else to another rule.

    Args:
        options: of the strategy.
        inner: the rule that is wrapped.
    """

    def __init__(self, options: DALoss, inner: LocalRule) -> None:
        self._options, self._inner = options, inner

    def begin(self, state: LocalState) -> None:
        """Freeze the global model; take up the divergence of the last round (0 in the first)."""
        import torch

        from fed_core.training.divergence import Measure, shared_divergence

        options = self._options
        measure = Measure(options.kld_softmax, options.kld_reduction, options.kld_eval_mode, options.kld_grad)
        self._divergence: Divergence = shared_divergence(state, measure)
        reference = dict(self._divergence.reference.named_parameters())
        parameters = dict(state.model.named_parameters())
        self._parts = _parts([(parameters[name], reference[name]) for name in options.shared(state)])
        zero = torch.zeros((), device=next(state.model.parameters()).device)
        self._now: Tensor = zero + float(state.memory.values.get(_REMEMBERED, 0.0))  # type: ignore[arg-type]
        self._sums = dict.fromkeys(("loss", "q", "divergence", "gradient", "q_gradient"), zero)
        self._first: Tensor | None = None
        self._inner.begin(state)

    def begin_epoch(self, state: LocalState) -> None:
        """Ask the inner rule."""
        self._inner.begin_epoch(state)

    def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: "Tensor") -> "Tensor":
        """Measure the batch; with ``kld_grad`` the loss holds Q as a function of the divergence."""
        loss = self._inner.loss(state, batch, outputs, task_loss)
        if self._options.kld_refresh == "per_step" and self._options.C > 0:
            measured = self._divergence.of_step(state, batch, outputs)
            self._now = measured.detach()
            self._first = self._now if self._first is None else self._first
            if self._options.kld_grad:
                loss = loss + self._options.C * self._distance() * measured
        state.add_share(_LOSS, task_loss)
        state.add_share(_MEASURED, self._now)
        return loss

    def correct_gradient(self, state: LocalState) -> None:
        """Pull, before or after the inner rule looks at the gradient."""
        self._now = state.sums[_MEASURED]  # of the whole batch, where it came in parts
        if self._options.cv_includes_q:
            self._pull()
        self._inner.correct_gradient(state)
        if not self._options.cv_includes_q:
            self._pull()

    def after_step(self, state: LocalState) -> None:
        """Add to the figures, ask the inner rule."""
        self._add(loss=state.sums[_LOSS], divergence=state.sums[_MEASURED])
        self._inner.after_step(state)

    def finish(self, state: LocalState) -> LocalResult:
        """Add the figures, and what the next round needs, to the inner rule's result."""
        result, values = self._inner.finish(state), {}
        sums = {name: float(total) for name, total in self._sums.items()}
        scalars = {
            "q": sums["q"] / max(state.step, 1),
            "q_over_s": sums["q"] / sums["loss"] if sums["loss"] else 0.0,
            "q_gradient_share": sums["q_gradient"] / sums["gradient"] if sums["gradient"] else 0.0,
            "step_divergence": sums["divergence"] / max(state.step, 1),
        }
        if self._first is not None:
            scalars["divergence_floor"] = float(self._first)  # of equal weights: dropout and batch statistics
        if self._options.kld_refresh == "per_round":
            found = self._after_training(state)
            scalars["divergence"] = found
            values[_REMEMBERED] = found if math.isfinite(found) else 0.0
        memory = Memory(result.memory.tensors, {**result.memory.values, **values})
        return replace(result, scalars={**scalars, **result.scalars}, memory=memory)

    def _after_training(self, state: LocalState) -> float:
        from fed_core.training.divergence import Measure, shared_divergence

        plain = Measure(self._options.kld_softmax, self._options.kld_reduction)  # as FedDWA measures
        return shared_divergence(state, plain).after_training(state)

    def _distance(self) -> "Tensor":
        """Return ``||w_g - w||`` to the power that counts, () float32, without gradient."""
        import torch

        norms = [norm for part in self._parts for norm in _norms(_walks(part))]
        square = torch.stack(norms).square().sum()
        return square if self._options.norm_power == 2 else square.sqrt()

    def _pull(self) -> None:
        """Add ``C D`` times the gradient of the norm's power to every gradient that there is."""
        if self._options.C == 0 or not self._parts:
            return
        import torch

        weight = self._options.C * self._now
        distance = self._distance() if self._options.norm_power == 1 else None
        # At zero distance the walk is zero, and so is the pull: any divisor but 0 will do.
        factor = 2.0 * weight if distance is None else weight / distance.clamp(min=1e-30)
        walked_by, gradients = [], [factor.new_zeros(())]
        for part in self._parts:
            walks = _walks(part)
            walked_by += _norms(walks)
            pulled = [(p.grad, walk) for (p, _), walk in zip(part, walks, strict=True) if p.grad is not None]
            if pulled:
                slopes, pulls = [slope for slope, _ in pulled], [walk for _, walk in pulled]
                gradients += _norms(slopes)
                torch._foreach_mul_(pulls, factor)
                torch._foreach_add_(slopes, pulls)
        walked = torch.linalg.vector_norm(torch.stack(walked_by))
        reached = walked.square() if distance is None else distance
        gradient = torch.linalg.vector_norm(torch.stack(gradients))
        self._add(q=weight * reached, gradient=gradient, q_gradient=factor * walked)

    def _add(self, **values: "Tensor") -> None:
        for name, value in values.items():
            self._sums[name] = self._sums[name] + value


def _parts(pairs: "Sequence[Pair]") -> "list[list[Pair]]":
    """Return the pairs in parts of about :data:`_PART_BYTES`: one call for many tensors, never a copy of the model."""
    parts: list[list[Pair]] = []
    room = 0
    for pair in pairs:
        size_bytes = pair[0].numel() * pair[0].element_size()
        if size_bytes > room or not parts:
            parts.append([])
            room = _PART_BYTES
        parts[-1].append(pair)
        room -= size_bytes
    return parts


def _walks(part: "Sequence[Pair]") -> "list[Tensor]":
    """Return ``w - w_g`` of every pair, new tensors."""
    import torch

    return list(torch._foreach_sub([parameter.detach() for parameter, _ in part], [start for _, start in part]))


def _norms(tensors: "Sequence[Tensor]") -> "list[Tensor]":
    """Return the norm of each tensor, () float32 at least."""
    import torch

    return list(torch._foreach_norm([widened(tensor) for tensor in tensors]))
