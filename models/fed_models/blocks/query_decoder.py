"""The decoder of CMT: queries attend to each other and to the memory, post-norm (fedcka spec 8.2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class QueryAttention(nn.Module):
    """Attention of several heads; names of the parameters as in ``torch.nn.MultiheadAttention``.

    Args:
        dim: features of queries, keys and values.
        heads: heads, of dim / heads features each.
        dropout: of the attention weights while training.
    """

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self._heads, self._dropout = heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim))
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return (B, Q, D) float32.

        Args:
            query: (B, Q, D) float32.
            key: (B, T, D) float32.
            value: (B, T, D) float32.
            mask: (B or 1, Q, T) bool, True where a query may look; None = everywhere.
        """
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        parts = zip((query, key, value), weights, biases, strict=True)
        q, k, v = (self._split(functional.linear(x, w, b)) for x, w, b in parts)
        dropout = self._dropout if self.training else 0.0
        # (B, Q, T) masks count for all heads.
        seen = None if mask is None else mask.unsqueeze(1)
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=dropout)
        out: Tensor = self.out_proj(found.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self._heads, -1).transpose(1, 2)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, two linear layers; each with a shortcut and LayerNorm after it.

    Args:
        dim: features.
        heads: attention heads.
        hidden: features between the linear layers.
        dropout: on shortcuts' branches and self-attention weights; cross-attention weights get none, as in the paper.
    """

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = QueryAttention(dim, heads, dropout)
        self.norm1 = nn.LayerNorm(dim)
        self.cross_attention = QueryAttention(dim, heads, 0.0)
        self.norm2 = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, dim))
        self.norm3 = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, place: Tensor, memory: Tensor, memory_place: Tensor, mask: Tensor | None) -> Tensor:
        """Return the new queries (B, Q, D) float32.

        Args:
            x: (B, Q, D) float32 queries.
            place: (B, Q, D) float32, where they look.
            memory: (B, T, D) float32.
            memory_place: (B, T, D) float32, where it is from; for keys only.
            mask: (B, Q, Q) bool, True where one query may look at another; None = everywhere.
        """
        placed = x + place
        x = self.norm1(x + self.dropout(self.self_attention(placed, placed, x, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x + place, memory + memory_place, memory)))
        found: Tensor = self.norm3(x + self.dropout(self.ffn(x)))
        return found


class QueryDecoder(nn.Module):
    """Layers one after another; one more LayerNorm, shared, on the output of each.

    Args:
        layers: their number.
        dim: features.
        heads: attention heads.
        hidden: features between the linear layers.
        dropout: share.
    """

    def __init__(self, layers: int, dim: int, heads: int, *, hidden: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, hidden, dropout) for _ in range(layers))
        self.post_norm = nn.LayerNorm(dim)

    def cross_weights(self) -> list[Tensor]:
        """Return the matrices (3 D, D) of queries, keys and values of all cross-attentions."""
        return [layer.cross_attention.in_proj_weight for layer in self.layers if isinstance(layer, DecoderLayer)]

    def forward(
        self, place: Tensor, memory: Tensor, memory_place: Tensor, mask: Tensor | None, start: Tensor | None = None
    ) -> list[Tensor]:
        """Return what each layer found, (B, Q, D) float32 each.

        Args:
            place: (B, Q, D) float32, where the queries look.
            memory: (B, T, D) float32.
            memory_place: (B, T, D) float32, where it is from.
            mask: (B, Q, Q) bool, True where one query may look at another; None = everywhere.
            start: (B, Q, D) float32 queries; None = zeros.
        """
        x, found = torch.zeros_like(place) if start is None else start, []
        for layer in self.layers:
            x = layer(x, place, memory, memory_place, mask)
            found.append(self.post_norm(x))
        return found


class Transformer(nn.Module):
    """The decoder, under the name that it has in published weights.

    Args:
        decoder: the decoder.
    """

    def __init__(self, decoder: QueryDecoder) -> None:
        super().__init__()
        self.decoder = decoder
        for parameter in decoder.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(
        self, place: Tensor, memory: Tensor, memory_place: Tensor, mask: Tensor | None, start: Tensor | None = None
    ) -> list[Tensor]:
        """Return what each layer of the decoder found."""
        found: list[Tensor] = self.decoder(place, memory, memory_place, mask, start)
        return found
