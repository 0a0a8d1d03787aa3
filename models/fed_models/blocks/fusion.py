"""Joining feature maps by channel attention (DCDepth, arXiv:2410.14980; fedepth spec 7.3)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fed_models.blocks.dct import DctDownsample

_SMALLEST = 16


class ChannelAttention(nn.Module):
    """Weighs each channel by what the means of all channels say.

    Args:
        channels: channels of the map.
        reduction: how much narrower the layer between is, but at least 16 wide.
    """

    def __init__(self, channels: int, reduction: int) -> None:
        super().__init__()
        between = max(channels // reduction, _SMALLEST)
        narrow, widen = nn.Linear(channels, between), nn.Linear(between, channels)
        for layer in (narrow, widen):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        self.weigh = nn.Sequential(narrow, nn.Hardswish(), widen, nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to the same shape."""
        weights: Tensor = self.weigh(x.mean(dim=(2, 3)))
        return x * weights[..., None, None]


def separable_conv(channels_in: int, channels_out: int, kernel: int) -> nn.Sequential:
    """Return a convolution per channel, its edges repeated outwards, and a 1x1 convolution; the size stays."""
    each = nn.Conv2d(
        channels_in, channels_in, kernel, padding=kernel // 2, padding_mode="replicate", groups=channels_in
    )
    return nn.Sequential(each, nn.Conv2d(channels_in, channels_out, 1))


class PyramidFusion(nn.Module):
    """Brings the finer three maps to the size of the deepest by their frequencies and joins the four.

    Args:
        features: channels of the four maps, finest first.
        channels_out: channels of each shrunk map and of the result.
    """

    def __init__(self, features: Sequence[int], channels_out: int) -> None:
        super().__init__()
        self.downs = nn.ModuleList(
            DctDownsample(channels, channels_out, factor=factor, reduction=4)
            for channels, factor in zip(features[:-1], (8, 4, 2), strict=True)
        )
        joined = len(self.downs) * channels_out + features[-1]
        self.fuse = nn.Sequential(
            ChannelAttention(joined, 16),
            nn.Conv2d(joined, channels_out, 1),
            nn.Conv2d(channels_out, channels_out, 7, padding=3, groups=channels_out, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.Hardswish(),
        )

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Map four maps (B, features[i], H / 2^i, W / 2^i) to (B, channels_out, H / 8, W / 8) float32."""
        shrunk = [down(features) for down, features in zip(self.downs, maps[:-1], strict=True)]
        out: Tensor = self.fuse(torch.cat([*shrunk, maps[-1]], dim=1))
        return out
