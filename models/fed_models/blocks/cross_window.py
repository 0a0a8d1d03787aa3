"""Attention of a map to several cameras, window by window, and of a map to itself (feddwa spec 4.3)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_models.blocks.windows import partition, relative_index


def camera_windows(x: Tensor, window: int, *, dilated: bool) -> Tensor:
    """Gather the tokens of all cameras that belong to the same window.

    Args:
        x: (B, N, C, h, w) float, N cameras.
        window: side of a window in cells.
        dilated: a window takes every n-th cell of the whole map instead of neighbours, n windows per side.

    Returns:
        (B n^2, N, window^2, C) float.
    """
    batch, cameras, channels, height, width = x.shape
    flat = x.flatten(0, 1).permute(0, 2, 3, 1).contiguous()
    if dilated:
        rows, columns = height // window, width // window
        grid = flat.view(-1, window, rows, window, columns, channels).permute(0, 2, 4, 1, 3, 5)
        parts = grid.reshape(-1, window * window, channels)
    else:
        parts = partition(flat, window)
    parts = parts.view(batch, cameras, -1, window * window, channels).transpose(1, 2)
    return parts.reshape(-1, cameras, window * window, channels)


class CrossWindowAttention(nn.Module):
    """Multi-head attention of a window of the map to the same window of all cameras.

    Args:
        dim: channels of queries, keys and values.
        heads: number of heads.
        dim_head: channels of a head.
    """

    def __init__(self, dim: int, heads: int, dim_head: int) -> None:
        super().__init__()
        self._heads = heads
        self.query_norm, self.query = nn.LayerNorm(dim), nn.Linear(dim, heads * dim_head)
        self.key_norm, self.key = nn.LayerNorm(dim), nn.Linear(dim, heads * dim_head)
        self.value_norm, self.value = nn.LayerNorm(dim), nn.Linear(dim, heads * dim_head)
        self.output = nn.Linear(heads * dim_head, dim)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return (W, Q, C) float: what the map's tokens take from the cameras.

        Args:
            query: (W, M, Q, C) float, M copies of a window's Q tokens; the answers of the copies are averaged.
            key: (W, N, K, C) float, K tokens of each of N cameras; all together are one set.
            value: as ``key``.
        """
        windows, copies, tokens = query.shape[:3]
        q = self._split(self.query(self.query_norm(query)))
        k = self._split(self.key(self.key_norm(key)))
        v = self._split(self.value(self.value_norm(value)))
        found = functional.scaled_dot_product_attention(q, k, v)
        found = found.transpose(1, 2).reshape(windows, copies, tokens, -1)
        # The mean goes before the output layer: that one is linear, so the result is the same for less work.
        answer: Tensor = self.output(found.mean(dim=1))
        return answer

    def _split(self, x: Tensor) -> Tensor:
        """Return (W, heads, M Q, dim_head) of (W, M, Q, heads dim_head)."""
        return x.reshape(x.shape[0], x.shape[1] * x.shape[2], self._heads, -1).transpose(1, 2)


class MapAttention(nn.Module):
    """Full self-attention over a square map, with a learned bias per relative position and no residual.

    Args:
        dim: channels of the map.
        heads: number of heads.
        side: cells per side.
        dropout: share of dropped attention weights and outputs while training.
    """

    index: Tensor

    def __init__(self, dim: int, heads: int, side: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self._heads, self._dropout = heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.output = nn.Linear(dim, dim, bias=False)
        # N(0, 1), not the small values of Swin: without a residual, this table alone tells one cell from another at
        # first, and a flat one would make the map the same everywhere.
        self.positions = nn.Parameter(torch.randn((2 * side - 1) ** 2, heads))
        self.register_buffer("index", relative_index(side), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, S, S) to the same shape, float."""
        tokens = x.flatten(2).transpose(1, 2)
        q, k, v = self.qkv(tokens).view(*tokens.shape[:2], 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        bias = self.positions[self.index].permute(2, 0, 1).to(q.dtype)
        rate = self._dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias[None], dropout_p=rate)
        mixed = self.output(found.transpose(1, 2).flatten(2))
        mixed = functional.dropout(mixed, self._dropout, self.training)
        return mixed.transpose(1, 2).reshape(x.shape)
