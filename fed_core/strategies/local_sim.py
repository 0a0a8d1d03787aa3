"""LocalSim: training damps what a robot shares (Pillutla et al. 2022, arXiv:2204.03809; fedcka spec 6, G8).

Each step of a shared element is ``damping`` of what the optimiser made of it. It is the step that is scaled, not the
gradient, whose scale Adam takes out again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


class LocalSim:
    """Scales the steps of shared elements.

    Args:
        damping: share of a step that a shared element takes; 1 = all of it.
    """

    def __init__(self, damping: float) -> None:
        self._damping = damping
        self._own: Mapping[str, Tensor] = {}
        self._before: list[Tensor] = []
        self._on = False

    def begin(self, own: Mapping[str, "Tensor"] | None) -> None:
        """Take up what is the robot's own.

        Args:
            own: bool masks by parameter, on its device and of its shape, or of one element for all of it; None = steps
                stay as they are in this round.
        """
        self._own, self._before = own or {}, []
        self._on = own is not None and self._damping < 1.0

    def before_step(self, model: "nn.Module") -> None:
        """Write down where the step begins."""
        if self._on:
            self._before = [parameter.detach().clone() for parameter in model.parameters()]

    def after_step(self, model: "nn.Module") -> None:
        """Take back what is too much of the step of shared elements."""
        if not self._before:  # nothing is damped, or there was no step
            return
        for (name, parameter), before in zip(model.named_parameters(), self._before, strict=True):
            damped = before.lerp(parameter.data, self._damping)
            own = self._own.get(name)
            parameter.data.copy_(damped if own is None else parameter.data.where(own, damped))
        self._before = []
