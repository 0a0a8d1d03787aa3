"""What a depth network offers to training, scoring and inference."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from fed_core.config import check, option
from fed_core.errors import ConfigError, FedError
from fed_models.base import NetworkConfig


class StepOutputs(NamedTuple):
    """What a network that refines its depth step by step needs for its loss, first step first.

    Attributes:
        log_depths: (B, 1, H, W) float32 each, natural logarithm of metres.
        coefficients: (B, F, h, w) float32 each, frequency coefficients of the cells.
        edges: how much the image changes to the right (B, 1, H, W - 1) and down (B, 1, H - 1, W), float32.
    """

    log_depths: tuple[Tensor, ...]
    coefficients: tuple[Tensor, ...]
    edges: tuple[Tensor, Tensor]


class DepthOutput(NamedTuple):
    """Result of a depth network.

    Attributes:
        depth: (B, 1, H, W) float32 metres.
        centres: (B, N) float32 metres, bin centres in rising order; None where the network has no bins.
        steps: what came before; None where the network has no steps.
    """

    depth: Tensor
    centres: Tensor | None = None
    steps: StepOutputs | None = None


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


@dataclass(frozen=True)
class DepthOptions(NetworkConfig):
    """Options of every depth network."""

    height: int = option(96, help="height of the input", unit="px", low=32)
    width: int = option(160, help="width of the input", unit="px", low=32)
    d_min: float = option(0.1, help="smallest depth", unit="m")
    d_max: float = option(80.0, help="largest depth", unit="m")

    def __post_init__(self) -> None:
        check(self)


def check_multiple(name: str, size: tuple[int, int], stride: int, error: type[FedError]) -> None:
    """Raise ``error`` where height or width of an image is no multiple of the network's stride.

    Args:
        name: the network, for the message.
        size: (H, W) in pixels.
        stride: what both must be multiples of.
        error: class of the error.
    """
    height, width = size
    if height < stride or width < stride or height % stride or width % stride:
        raise error(f"{name} got images of {height}x{width}; height and width must be multiples of {stride}")


def check_cells(name: str, size: tuple[int, int], stride: int, error: type[FedError]) -> None:
    """Raise ``error`` where an image is no multiple of the stride, or gives a single cell, too few for a batch norm."""
    check_multiple(name, size, stride, error)
    if size[0] * size[1] < 2 * stride**2:
        raise error(f"images of {size[0]}x{size[1]} give {name} 1 cell at stride {stride}, it needs at least 2")


def check_range(name: str, d_range_m: tuple[float, float]) -> tuple[float, float]:
    """Return (d_min, d_max) in metres; a range that is empty or not positive raises ConfigError."""
    low, high = d_range_m
    if not 0.0 < low < high < float("inf"):
        raise ConfigError(f"{name} needs 0 < d_min < d_max, got d_min = {low} m and d_max = {high} m")
    return low, high
