"""Backbone and neck of the map of columns: SECOND and its feature pyramid (fedcka spec 8.2, 8.3)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fed_models.blocks.pillars import BN_EPS


class ConvNorm(nn.Sequential):
    """Convolution without bias, batch normalisation, ReLU.

    Args:
        conv: the convolution.
        momentum: of the normalisation.
    """

    def __init__(self, conv: nn.Conv2d | nn.ConvTranspose2d, momentum: float) -> None:
        super().__init__(conv, nn.BatchNorm2d(conv.out_channels, eps=BN_EPS, momentum=momentum), nn.ReLU())


class Second(nn.Module):
    """Stages of 3x3 convolutions; each halves the map first.

    Args:
        channels_in: of the map.
        channels: of each stage.
        layers: convolutions of a stage after the first one.
        momentum: of the normalisations.
    """

    def __init__(self, channels_in: int, channels: Sequence[int], layers: int, momentum: float) -> None:
        super().__init__()
        stages, before = [], channels_in
        for width in channels:
            first = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
            rest = [nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(layers)]
            stages.append(nn.Sequential(*(ConvNorm(conv, momentum) for conv in (first, *rest))))
            before = width
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map (B, C, S, S) to one map per stage, (B, channels[i], S / 2^(i+1), S / 2^(i+1)) float32."""
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


class SecondFpn(nn.Module):
    """Brings the maps of all stages to one size and puts them together.

    Args:
        channels: of each map.
        width: channels that each one gets.
        level: number of the map whose size counts.
        momentum: of the normalisations.
    """

    def __init__(self, channels: Sequence[int], width: int, level: int, momentum: float) -> None:
        super().__init__()
        self.channels = width * len(channels)
        self.levels = nn.ModuleList(
            ConvNorm(_resizing(each, width, index - level), momentum) for index, each in enumerate(channels)
        )

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Return (B, width * stages, S, S) float32."""
        return torch.cat([level(each) for level, each in zip(self.levels, maps, strict=True)], 1)


def _resizing(channels: int, width: int, coarser: int) -> nn.Conv2d | nn.ConvTranspose2d:
    """Return a layer that makes a map ``2^coarser`` times as large."""
    if coarser > 0:
        return nn.ConvTranspose2d(channels, width, 2**coarser, stride=2**coarser, bias=False)
    return nn.Conv2d(channels, width, 2**-coarser, stride=2**-coarser, bias=False)
