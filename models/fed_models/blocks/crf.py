"""Conditional random fields inside windows, as attention (NeWCRFs, arXiv:2203.01502, section 3.2; fedepth spec 7.2)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_core.errors import ConfigError
from fed_models.blocks.windows import merge, partition, relative_index, shift_mask


def check_widths(dims: Sequence[int], num_heads: Sequence[int]) -> None:
    """Raise ConfigError where a field's channels cannot be split into its heads, or into a finer map of a quarter."""
    for dim, heads in zip(dims, num_heads, strict=True):
        if dim % 4 or dim % heads:
            raise ConfigError(
                f"a field of {dim} channels and {heads} heads cannot be; use a multiple of 4 and of the heads"
            )


class CrfAttention(nn.Module):
    """Pairwise potentials: features say how much each cell listens to the others, the prediction is what it hears.

    Unlike self-attention the values are taken as they are, without a projection.

    Args:
        dim: channels of features and prediction.
        num_heads: heads; must divide ``dim``.
        window: side of a window in cells.
    """

    bias_index: Tensor

    def __init__(self, dim: int, num_heads: int, window: int) -> None:
        super().__init__()
        self._num_heads = num_heads
        self.qk = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.empty((2 * window - 1) ** 2, num_heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        # Follows from the window alone, so it does not travel.
        self.register_buffer("bias_index", relative_index(window), persistent=False)

    def forward(self, x: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Return the message of each cell's neighbours.

        Args:
            x: (B n, S, C) float32, features of n windows per image, S = window^2.
            v: (B n, S, C) float32, prediction.
            mask: (n, S, S) float32 added to the scores; None hides nothing.

        Returns:
            (B n, S, C) float32.
        """
        count, cells, channels = x.shape
        q, k = self.qk(x).view(count, cells, 2, self._num_heads, -1).permute(2, 0, 3, 1, 4)
        values = v.view(count, cells, self._num_heads, -1).transpose(1, 2)
        bias = self.bias_table[self.bias_index].permute(2, 0, 1)
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + bias
        if mask is not None:
            scores = (scores.view(-1, len(mask), *scores.shape[1:]) + mask[:, None]).view(scores.shape)
        heard = torch.softmax(scores, dim=-1) @ values
        out: Tensor = self.proj(heard.transpose(1, 2).reshape(count, cells, channels))
        return out


class CrfBlock(nn.Module):
    """One pass of the field: attention in windows, then an MLP, each added to its input.

    Args:
        dim: channels.
        num_heads: heads.
        window: side of a window in cells.
        shifted: move the windows by half their side, so that cells across their borders meet.
    """

    def __init__(self, dim: int, num_heads: int, window: int, *, shifted: bool) -> None:
        super().__init__()
        self._window = window
        self._shift = window // 2 if shifted else 0
        self.norm1 = nn.LayerNorm(dim)
        self.attention = CrfAttention(dim, num_heads, window)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor, v: Tensor) -> Tensor:
        """Map features and prediction (B, H, W, C) float32 to features (B, H, W, C); any H and W fit."""
        height, width = x.shape[1:3]
        # Windows over the edge are filled with zeros, as in the published network.
        padding = (0, 0, 0, -width % self._window, 0, -height % self._window)
        keys, values = functional.pad(self.norm1(x), padding), functional.pad(v, padding)
        size = (int(keys.shape[1]), int(keys.shape[2]))
        mask = None
        if self._shift:
            keys, values = (t.roll((-self._shift, -self._shift), dims=(1, 2)) for t in (keys, values))
            mask = shift_mask(size, self._window, x.device)
        heard = self.attention(partition(keys, self._window), partition(values, self._window), mask)
        out = merge(heard, self._window, size)
        if self._shift:
            out = out.roll((self._shift, self._shift), dims=(1, 2))
        x = x + out[:, :height, :width]
        return torch.add(x, self.mlp(self.norm2(x)))


class CrfStage(nn.Module):
    """The field at one level: both maps brought to its width, two blocks with the same prediction, a norm.

    Args:
        features: channels of the encoder's map.
        prediction: channels of the prediction that comes from the coarser level.
        dim: channels of the field.
        num_heads: heads; must divide ``dim``.
        window: side of a window in cells.
    """

    def __init__(self, features: int, prediction: int, dim: int, *, num_heads: int, window: int) -> None:
        super().__init__()
        self.proj_x = nn.Conv2d(features, dim, 3, padding=1) if features != dim else nn.Identity()
        self.proj_v = nn.Conv2d(prediction, dim, 3, padding=1) if prediction != dim else nn.Identity()
        self.blocks = nn.ModuleList(CrfBlock(dim, num_heads, window, shifted=shifted) for shifted in (False, True))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, v: Tensor) -> Tensor:
        """Map (B, features, H, W) and (B, prediction, H, W) float32 to (B, dim, H, W) float32."""
        x, v = self.proj_x(x).permute(0, 2, 3, 1), self.proj_v(v).permute(0, 2, 3, 1)
        for block in self.blocks:
            x = block(x, v)
        out: Tensor = self.norm(x).permute(0, 3, 1, 2).contiguous()
        return out
