"""Pyramid pooling: the map joined with its averages over ever smaller parts (PSPNet, arXiv:1612.01105)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

SCALES = (1, 2, 3, 6)


class PyramidPooling(nn.Module):
    """Averages over 1, 4, 9 and 36 parts, convolved, resized back and joined with the map (fedepth spec 7.2).

    Args:
        channels_in: channels of the map.
        channels_out: channels of each branch and of the result.
        num_groups: groups of the branches' normalisation; must divide ``channels_out``.
    """

    def __init__(self, channels_in: int, channels_out: int, num_groups: int) -> None:
        super().__init__()
        # One average per channel is too little for batch normalisation; groups of channels always are enough.
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(scale),
                nn.Conv2d(channels_in, channels_out, 1, bias=False),
                nn.GroupNorm(num_groups, channels_out),
                nn.ReLU(inplace=True),
            )
            for scale in SCALES
        )
        self.join = nn.Sequential(
            nn.Conv2d(channels_in + len(SCALES) * channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels_in, H, W) to (B, channels_out, H, W) float32."""
        pooled = [
            functional.interpolate(branch(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
            for branch in self.branches
        ]
        out: Tensor = self.join(torch.cat([x, *pooled], dim=1))
        return out
