"""FedBN: FedAvg in which every robot keeps its batch normalisation (Li et al. 2021, arXiv:2102.07623).

Weight, bias and running statistics of every BatchNorm module stay on the robot, in training and in inference; all else
is averaged by samples, LayerNorm and GroupNorm included (fedcka spec 6). Layers are picked by the type of their module.
A BatchNorm that the network holds in eval mode (a pre-trained backbone) still keeps its affine terms, but its
statistics never change and so tell nothing of the robot (G16).
"""

from dataclasses import dataclass
from typing import ClassVar

from fed_core.errors import StrategyError
from fed_core.strategies.averaging import NORMS
from fed_core.strategies.base import strategies
from fed_core.strategies.personal import Personal
from fed_core.types import ModelSignature


@strategies.register("fedbn")
@dataclass(frozen=True)
class FedBN(Personal):
    """Key "global" holds everything but batch normalisation after the first round."""

    paper: ClassVar[str] = "Li et al. 2021, arXiv:2102.07623"

    def private(self, signature: ModelSignature) -> frozenset[str]:
        """Return the tensors of BatchNorm modules; a network without any is a :class:`StrategyError`."""
        found = frozenset(spec.name for spec in signature.tensors if spec.module in NORMS)
        if not found:
            text = f"fedbn keeps BatchNorm layers on the robots, but the network {signature.architecture!r} has none"
            raise StrategyError(f"{text}; take fedavg")
        return found
