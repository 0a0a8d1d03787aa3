"""PlainUnet: a small encoder and decoder with skips, a depth network in one file."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_core.config import option
from fed_core.errors import ConfigError, DataError
from fed_core.training.losses import silog
from fed_models.base import networks
from fed_models.depth import DepthNetwork, DepthOptions, DepthOutput, check_cells, check_range

STRIDE = 8


def _block(channels_in: int, channels_out: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.ReLU(inplace=True))


class PlainUnet(DepthNetwork):
    """Three maps down, three up, and the logarithm of the depth between its limits.

    Args:
        input_size: (H, W) that training and prediction feed, multiples of 8.
        d_range_m: smallest and largest depth in metres.
        channels: of the finest map.
    """

    def __init__(self, input_size: tuple[int, int], d_range_m: tuple[float, float], channels: int) -> None:
        super().__init__()
        check_cells("PlainUnet", input_size, STRIDE, ConfigError)
        self.input_size = input_size
        self.d_min, self.d_max = check_range("PlainUnet", d_range_m)
        widths = (channels, 2 * channels, 4 * channels)
        self.down = nn.ModuleList(_block(a, b, stride=2) for a, b in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(_block(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.head = nn.Conv2d(channels, 1, 3, padding=1)

    def encode(self, x: Tensor) -> Tensor:
        """Return the map at stride 8, (B, D, H / 8, W / 8) float32."""
        return self._maps(x)[-1]

    def forward(self, x: Tensor) -> DepthOutput:
        """Predict depth of normalised images (B, 3, H, W) float32."""
        check_cells("PlainUnet", (int(x.shape[-2]), int(x.shape[-1])), STRIDE, DataError)
        *finer, y = self._maps(x)
        for block, skip in zip(self.up, reversed(finer), strict=True):
            y = functional.interpolate(y, size=skip.shape[-2:], mode="bilinear", align_corners=False)
            y = block(torch.cat([y, skip], dim=1))
        y = functional.interpolate(self.head(y), size=x.shape[-2:], mode="bilinear", align_corners=False)
        # The logarithm of the depth goes from one limit to the other: errors count in proportion.
        depth = self.d_min * (self.d_max / self.d_min) ** torch.sigmoid(y.float())
        return DepthOutput(depth)

    def loss(self, output: DepthOutput, depth: Tensor, mask: Tensor) -> Tensor:
        """Return the scale-invariant loss, () float32."""
        return silog(output.depth, depth, mask)

    def final_layer(self) -> tuple[str, ...]:
        """Return the names of the last convolution."""
        return ("head.weight", "head.bias")

    def head_modules(self) -> tuple[str, ...]:
        """Return the modules that methods such as FedRep keep on the robot."""
        return ("up", "head")

    def _maps(self, x: Tensor) -> list[Tensor]:
        maps = []
        for block in self.down:
            x = block(x)
            maps.append(x)
        return maps


@networks.register("plain_unet")
@dataclass(frozen=True)
class PlainUnetOptions(DepthOptions):
    """Options of plain_unet."""

    channels: int = option(16, help="channels of the finest map", unit="count", low=4, high=256)

    def build(self) -> PlainUnet:
        """Return the network."""
        return PlainUnet((self.height, self.width), (self.d_min, self.d_max), self.channels)
