"""FedSelect: every robot keeps the weights that training moves most (Tamirisa et al. 2024, arXiv:2404.02478).

The form that FedCKA compares with (fedcka spec 6): single elements over the whole model, chosen after each round by the
distance ``|w_i - w|`` that training took them, among the elements still shared. With ``entries: all`` BatchNorm
statistics count as elements; their large raw changes then win early, which ``entries: params`` avoids (G12).

Once the warm-up is over, training damps what is shared (LocalSim, Pillutla et al. 2022, arXiv:2204.03809): each step of
a shared element is ``damping`` of what the optimiser made of it. It is the step that is scaled, not the gradient, whose
scale Adam takes out again (G8). In the first round after the warm-up all elements are shared, and so all are damped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fed_core.config import option
from fed_core.strategies.base import LocalRule, LocalState, strategies
from fed_core.strategies.element_masks import ElementMasked, ElementRule, distance
from fed_core.strategies.local_sim import LocalSim
from fed_core.types import Array, ModelSignature, TensorSpec

if TYPE_CHECKING:
    from torch import Tensor


@strategies.register("fedselect")
@dataclass(frozen=True)
class FedSelect(ElementMasked):
    """Key "global" is the model, whole in every round."""

    paper: ClassVar[str] = "Tamirisa et al. 2024, arXiv:2404.02478"

    entries: str = option(
        "all", help="what counts as an element: parameters and statistics, or parameters", choices=("all", "params")
    )
    damping: float = option(0.01, help="share of a step that a shared element takes; 1 = all of it", low=0.0, high=1.0)

    def counted(self, signature: ModelSignature) -> tuple[TensorSpec, ...]:
        """Return the tensors whose elements count."""
        found = super().counted(signature)
        return found if self.entries == "all" else tuple(spec for spec in found if spec.trainable)

    def local_rule(self) -> LocalRule:
        """Return the robot half."""
        return Selecting(self)


class Selecting(ElementRule):
    """Damps shared elements and keeps those that moved most.

    Args:
        options: of the strategy.
    """

    def __init__(self, options: FedSelect) -> None:
        super().__init__(options)
        self._local_sim = LocalSim(options.damping)

    def begin(self, state: LocalState) -> None:
        """Take up the masks, on the model's device where they are needed there."""
        super().begin(state)
        self._local_sim.begin(self._own(state) if self.masked else None)

    def _own(self, state: LocalState) -> "dict[str, Tensor]":
        import torch

        own = {}
        for name, parameter in state.model.named_parameters():
            if name in self.personal and self.personal[name].any():
                own[name] = torch.tensor(self.personal[name], device=parameter.device)
        return own

    def correct_gradient(self, state: LocalState) -> None:
        """Write down where the step begins."""
        self._local_sim.before_step(state.model)

    def after_step(self, state: LocalState) -> None:
        """Take back what is too much of the step of shared elements."""
        self._local_sim.after_step(state.model)

    def importance(self, state: LocalState) -> Mapping[str, Array]:
        """Return how far training moved the elements."""
        return distance(state, list(self.personal))
