"""FedMC: every robot keeps the weights that its loss depends on most (Gao, He, Chen, CAMMIC 2025, pp. 834-838).

The paper could not be found; this is what the code does that FedCKA compares with (fedcka spec 6). It is FedSelect with
another measure and without damping: an element's importance is the diagonal of the empirical Fisher information, the
mean of the squared gradients of the loss. Only parameters have it, so BatchNorm statistics are always shared, though
they count to the size of the model.

Gradients are those of small batches in single precision, after training, with BatchNorm in eval mode; they are computed
only in rounds in which the robot's own part grows (G11).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fed_core.config import option
from fed_core.errors import TrainingError
from fed_core.strategies.averaging import NORMS
from fed_core.strategies.base import LocalRule, LocalState, strategies
from fed_core.strategies.element_masks import ElementMasked, ElementRule
from fed_core.types import Array

if TYPE_CHECKING:
    from torch import Tensor, nn


@strategies.register("fedmc")
@dataclass(frozen=True)
class FedMC(ElementMasked):
    """Key "global" is the model, whole in every round."""

    paper: ClassVar[str] = "Gao, He, Chen 2025, CAMMIC pp. 834-838"

    batches: int = option(100, help="most batches that the importance is measured on", unit="count", low=1)
    batch_size: int = option(1, help="samples whose gradient is squared as one", unit="count", low=1)

    def local_rule(self) -> LocalRule:
        """Return the robot half."""
        return Informed(self)


class Informed(ElementRule):
    """Keeps the elements of largest Fisher information.

    Args:
        options: of the strategy.
    """

    def __init__(self, options: FedMC) -> None:
        super().__init__(options)
        self._batches, self._batch_size = options.batches, options.batch_size

    def importance(self, state: LocalState) -> Mapping[str, Array]:
        """Return the Fisher information of the parameters that are trained."""
        batches = state.batches(self._batches * self._batch_size, self._batch_size)
        squares, count = _sums(state, _with_frozen_norms(state.model), batches)
        if not count:
            raise TrainingError("fedmc: no batch has a finite loss and gradient, so no element is important")
        return {name: (total / count).cpu().numpy() for name, total in squares.items() if name in self.personal}


def _with_frozen_norms(model: "nn.Module") -> "nn.Module":
    """Return the model in train mode, its BatchNorm in eval mode."""
    model.train()
    for module in model.modules():
        if type(module).__name__ in NORMS:
            module.eval()
    return model


def _sums(state: LocalState, model: "nn.Module", batches: Iterable[Any]) -> "tuple[dict[str, Tensor], int]":
    """Return the summed squares of the batches' gradients by parameter, and the number of batches."""
    import torch

    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    totals = {name: torch.zeros_like(p, dtype=torch.float32) for name, p in named.items()}
    count = 0
    for batch in batches:
        loss = state.task_loss(batch, state.forward(model, batch))
        if not loss.requires_grad:
            continue
        gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        found = {name: g for name, g in zip(named, gradients, strict=True) if g is not None}
        if not all(bool(torch.isfinite(g).all()) for g in found.values()):
            continue
        for name, gradient in found.items():
            totals[name].addcmul_(gradient.float(), gradient.float())
        count += 1
    model.eval()
    return totals, count
