"""The small transformer of AdaBins (arXiv:2011.14141, section 3.3): patches of the decoded map to tokens."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class VitWidths:
    """Sizes of the transformer.

    Attributes:
        patch: side of a patch on the half-resolution map, in its pixels.
        num_layers: encoder layers.
        num_heads: attention heads.
        feed_forward: hidden width of a layer.
        dropout: share of dropped activations while training.
    """

    patch: int = 16
    num_layers: int = 4
    num_heads: int = 4
    feed_forward: int = 1024
    dropout: float = 0.1


class MiniVit(nn.Module):
    """Patch convolution, learned positions, post-norm encoder layers.

    Args:
        channels: channels of the map, and width of the tokens.
        num_positions: rows of the positional table: the most patches that an input may have.
        widths: sizes.
    """

    def __init__(self, channels: int, num_positions: int, widths: VitWidths) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, channels, widths.patch, stride=widths.patch)
        self.positions = nn.Parameter(torch.randn(num_positions, channels) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                channels, widths.num_heads, widths.feed_forward, dropout=widths.dropout, batch_first=True
            )
            for _ in range(widths.num_layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, h, w) to tokens (B, (h / patch) (w / patch), C), row by row."""
        tokens: Tensor = self.patches(x).flatten(2).transpose(1, 2)
        tokens = tokens + self.positions[: tokens.shape[1]]
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens
