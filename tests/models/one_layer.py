"""A depth network of one layer, for what writes and runs networks."""

import torch
from torch import nn

from fed_models.depth import DepthOutput


class Tiny(nn.Module):
    """A depth network of one layer."""

    input_size, d_min, d_max = (32, 48), 0.1, 80.0

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layer = nn.Conv2d(3, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> DepthOutput:
        return DepthOutput(self.layer(x).exp())
