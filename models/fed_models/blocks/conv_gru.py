"""Gated recurrent unit on maps, with a row and a column pass (RAFT, arXiv:2003.12039, supplement)."""

import torch
from torch import Tensor, nn


class _Pass(nn.Module):
    def __init__(self, hidden: int, inputs: int, kernel: tuple[int, int]) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.update, self.reset, self.candidate = (
            nn.Conv2d(hidden + inputs, hidden, kernel, padding=padding) for _ in range(3)
        )

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        both = torch.cat([h, x], dim=1)
        update, reset = torch.sigmoid(self.update(both)), torch.sigmoid(self.reset(both))
        candidate = torch.tanh(self.candidate(torch.cat([reset * h, x], dim=1)))
        return torch.lerp(h, candidate, update)


class SeparableConvGru(nn.Module):
    """A pass with kernel 1x5, then one with 5x1.

    Args:
        hidden: channels of the state.
        inputs: channels of the input.
    """

    def __init__(self, hidden: int, inputs: int) -> None:
        super().__init__()
        self.rows = _Pass(hidden, inputs, (1, 5))
        self.columns = _Pass(hidden, inputs, (5, 1))

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        """Map state (B, hidden, H, W) and input (B, inputs, H, W) to the new state, float32."""
        out: Tensor = self.columns(self.rows(h, x), x)
        return out
