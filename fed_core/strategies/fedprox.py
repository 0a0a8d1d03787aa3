"""FedProx: FedAvg whose robots are pulled back to where the round started (Li et al. 2020, arXiv:1812.06127).

A robot minimises ``L_c(w) + (mu / 2) ||w - w_start||^2``. The gradient of the second term, ``mu (w - w_start)``, is
added to that of the first: the same as adding the term to the loss, without a graph through all weights. ``w_start`` is
a copy that training cannot move; references to the live weights would make the term zero for ever (fedepth spec 9).
"""

from dataclasses import dataclass
from typing import ClassVar

from fed_core.config import check, option
from fed_core.strategies.base import LocalRule, LocalState, strategies
from fed_core.strategies.fedavg import FedAvg


@strategies.register("fedprox")
@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term on the robots; ``mu = 0`` is FedAvg."""

    paper: ClassVar[str] = "Li et al. 2020, arXiv:1812.06127"

    mu: float = option(1e-3, help="weight of the proximal term; 0 = FedAvg", low=0.0, high=1e3)

    def __post_init__(self) -> None:
        check(self)

    def local_rule(self) -> LocalRule:
        """Return the pull towards the start of the round."""
        return Proximal(self.mu)


class Proximal(LocalRule):
    """Adds ``mu (w - w_start)`` to the gradient of every trained parameter.

    Args:
        mu: weight of the proximal term [1].
    """

    def __init__(self, mu: float) -> None:
        self._mu = mu

    def correct_gradient(self, state: LocalState) -> None:
        """Pull every parameter towards its value at the start of the round."""
        for name, parameter in state.model.named_parameters():
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach() - state.start[name], alpha=self._mu)
