"""U-shaped decoder of AdaBins: from the deepest map back to half resolution."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class UpBlock(nn.Module):
    """Resize to the finer map, join it, two 3x3 convolutions with batch normalisation and LeakyReLU(0.01)."""

    def __init__(self, channels_in: int, channels_skip: int, channels_out: int) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(channels_in + channels_skip, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.LeakyReLU(0.01, inplace=True),
            nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.LeakyReLU(0.01, inplace=True),
        )

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Map (B, channels_in, h, w) and (B, channels_skip, H, W) to (B, channels_out, H, W)."""
        x = functional.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=True)
        out: Tensor = self.convs(torch.cat([x, skip], dim=1))
        return out


class Decoder(nn.Module):
    """Turns five encoder maps into one map at half resolution.

    Args:
        encoder: channels of the five maps, finest first.
        widths: channels after the 1x1 convolution on the deepest map and after each of the four up-blocks.
        channels_out: channels of the decoded map.
        border: padding of the 1x1 convolution; 1 in the paper-size network, so that published weights fit.
    """

    def __init__(self, encoder: Sequence[int], widths: Sequence[int], channels_out: int, *, border: int = 0) -> None:
        super().__init__()
        self.bottleneck = nn.Conv2d(encoder[-1], widths[0], 1, padding=border)
        skips = encoder[-2::-1]
        self.ups = nn.ModuleList(UpBlock(a, skip, b) for a, skip, b in zip(widths[:-1], skips, widths[1:], strict=True))
        self.out = nn.Conv2d(widths[-1], channels_out, 3, padding=1)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Map five maps, finest first, to (B, channels_out, H / 2, W / 2) float32."""
        x = self.bottleneck(maps[-1])
        for up, skip in zip(self.ups, maps[-2::-1], strict=True):
            x = up(x, skip)
        out: Tensor = self.out(x)
        return out
