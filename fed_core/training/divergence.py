"""How far a trained network has come from the round's global model, in its predictions (feddwa spec 2.2).

``D_i = mean over pixels of sum over classes P_g (log P_g - log P_m)`` of a sample i, with the softmax over the classes
of a pixel: KL(P_g || P_m), at least 0. FedDWA weighs robots by it and DALoss the pull towards the global model; where a
robot does both, :func:`shared_divergence` hands out one pass for the two.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fed_core.errors import TrainingError
from fed_core.strategies.base import GLOBAL, LocalState

SOFTMAX, REDUCTIONS = ("class", "spatial"), ("mean", "sum")
#: Most training samples that the pass after training looks at (feddwa spec 2.3).
MOST_SAMPLES = 256


def class_logits(outputs: Any) -> Tensor:
    """Return the class logits (B, K, H, W) float32 of a network's outputs, which must name them ``logits``."""
    logits = getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor) or logits.ndim != 4:
        text = f"the KL divergence needs class logits (B, K, H, W), but {type(outputs).__name__} has no such 'logits'"
        raise TrainingError(f"{text}; take a network that tells classes apart (task bev), or another strategy")
    return logits.float()


def kl_divergence(reference: Tensor, local: Tensor, *, softmax: str = "class", reduction: str = "mean") -> Tensor:
    """Return KL(reference || local) of every sample, (B,) float32 nats.

    Args:
        reference: (B, K, H, W) float32 logits of the global model.
        local: (B, K, H, W) float32 logits of the trained model.
        softmax: "class" = over the K classes of each pixel; "spatial" = over all pixels of each class.
        reduction: "mean" or "sum" over what the softmax left: pixels, or classes.
    """
    if softmax == "spatial":
        reference, local, axis = reference.flatten(2), local.flatten(2), 2
    else:
        axis = 1
    wanted, got = (torch.log_softmax(logits.float(), dim=axis) for logits in (reference, local))
    each = (wanted.exp() * (wanted - got)).sum(dim=axis).flatten(1)
    total = each.mean(dim=1) if reduction == "mean" else each.sum(dim=1)
    return total.clamp(min=0.0)  # below 0 by rounding only


def frozen_copy(model: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """Return ``model`` in eval mode with other weights, which it shares and never changes; no gradient reaches it."""
    memo: dict[int, Any] = {}  # what deepcopy takes in place of a tensor
    for name, tensor in model.state_dict(keep_vars=True).items():
        fixed = weights[name].detach()
        memo[id(tensor)] = nn.Parameter(fixed, requires_grad=False) if isinstance(tensor, nn.Parameter) else fixed
    return copy.deepcopy(model, memo).eval()


@dataclass(frozen=True)
class Measure:
    """How the divergence is measured.

    Attributes:
        softmax: see :func:`kl_divergence`.
        reduction: see :func:`kl_divergence`.
        eval_mode: a second forward in eval mode, so that dropout and batch statistics count for nothing.
        with_grad: gradients flow into the trained model.
    """

    softmax: str = "class"
    reduction: str = "mean"
    eval_mode: bool = False
    with_grad: bool = False


class Divergence:
    """The divergence of the running round, each value computed once.

    Attributes:
        reference: the global model, in eval mode; nothing changes it.

    Args:
        state: the round; its global model is in ``extras`` under "global", or else what training started from.
        measure: how it is measured.
    """

    def __init__(self, state: LocalState, measure: Measure) -> None:
        self._measure, self._key = measure, _key(measure)
        given = state.extras.get(GLOBAL)
        weights = state.start if given is None else _on_device_of(state.start, given)
        self.reference = frozen_copy(state.model, weights)
        self._after: float | None = None

    def of_step(self, state: LocalState, batch: Any, outputs: Any) -> Tensor:
        """Return the mean over the batch that is trained on, () float32; detached unless measured ``with_grad``."""
        step, measured, value = state.of_batch.get(self._key, (-1, None, None))
        if step != state.step or measured is not batch:
            wanted = self._wanted(state, batch)
            if self._measure.eval_mode:
                with _evaluating(state.model), torch.set_grad_enabled(self._measure.with_grad):
                    outputs = state.forward(state.model, batch)
            local = class_logits(outputs)
            value = self._between(wanted, local if self._measure.with_grad else local.detach()).mean()
            state.of_batch[self._key] = (state.step, batch, value)
        found: Tensor = value
        return found

    def after_training(self, state: LocalState) -> float:
        """Return T_m, the mean over (at most 256 of) the robot's training samples in eval mode (feddwa spec 2.3)."""
        if self._after is None:
            total, count = 0.0, 0
            with _evaluating(state.model):
                for batch in state.batches(min(state.num_samples, MOST_SAMPLES)):
                    with torch.no_grad():
                        got = class_logits(state.forward(state.model, batch))
                    each = self._between(self._wanted(state, batch), got)
                    total, count = total + float(each.double().sum()), count + len(each)
            self._after = total / max(count, 1)
        return self._after

    def _between(self, wanted: Tensor, got: Tensor) -> Tensor:
        return kl_divergence(wanted, got, softmax=self._measure.softmax, reduction=self._measure.reduction)

    def _wanted(self, state: LocalState, batch: Any) -> Tensor:
        """Return the logits of the global model; a copy, since what inference mode makes cannot go into a graph."""
        with torch.inference_mode():
            logits = class_logits(state.forward(self.reference, batch))
        return logits.clone()


def shared_divergence(state: LocalState, measure: Measure) -> Divergence:
    """Return the round's divergence by ``measure``, made at the first call."""
    key = _key(measure)
    if key not in state.shared:
        state.shared[key] = Divergence(state, measure)
    found: Divergence = state.shared[key]
    return found


def _key(measure: Measure) -> str:
    return f"divergence {measure}"


def _on_device_of(start: Mapping[str, Tensor], arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of ``arrays`` beside those of ``start``; one that is not there stays as it started."""
    fresh = {name: start[name].new_tensor(arrays[name].copy()) for name in arrays if name in start}
    return {**start, **fresh}


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode; afterwards every module is as it was (frozen norm layers stay frozen)."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
