"""What a depth network offers to training, scoring and inference."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn


class DepthOutput(NamedTuple):
    """Result of a depth network.

    Attributes:
        depth: (B, 1, H, W) float32 metres.
        centres: (B, N) float32 metres, bin centres in rising order; None where the network has no bins.
    """

    depth: Tensor
    centres: Tensor | None = None


class DepthNetwork(nn.Module, ABC):
    """Base of the depth networks.

    Attributes:
        input_size: (H, W) of the images that training and prediction feed.
        d_min: smallest depth in metres.
        d_max: largest depth in metres.
    """

    input_size: tuple[int, int]
    d_min: float
    d_max: float

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Return the deepest feature map (B, D, h, w) of normalised images (B, 3, H, W) float32."""

    @abstractmethod
    def forward(self, x: Tensor) -> DepthOutput:
        """Predict depth of normalised images (B, 3, H, W) float32."""

    @abstractmethod
    def loss(self, output: DepthOutput, depth: Tensor, mask: Tensor) -> Tensor:
        """Return the training loss, () float32.

        Args:
            output: what :meth:`forward` returned.
            depth: (B, 1, H, W) float32 metres.
            mask: (B, 1, H, W) bool, True where depth is known.
        """

    @abstractmethod
    def final_layer(self) -> tuple[str, ...]:
        """Return the state-dict names of the last layer (methods such as FedClust compare these weights)."""
