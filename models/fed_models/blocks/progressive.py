"""Depth from frequency coefficients, predicted step by step from coarse to fine (DCDepth, arXiv:2410.14980).

One cell of the hidden state is one 8x8 block of the image (fedepth spec 7.3).
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_models.blocks.conv_gru import SeparableConvGru
from fed_models.blocks.dct import block_matrix, diagonals, from_coefficients
from fed_models.blocks.fusion import ChannelAttention, separable_conv
from fed_models.blocks.pyramid import SCALES

BLOCK = 8
#: Coefficients that each step predicts: new ones, by diagonals, and a correction of all before.
COUNTS = (1, 3, 6, 10, 15, 21, 36, 64, 64)
_HEAD_WIDTH = 16
#: Largest magnitude of a log depth: far outside of any scene, and its exponential is finite.
_LARGEST_LOG = 20.0


class DepthEncoder(nn.Sequential):
    """Three convolutions of stride 2 on the log depth (B, 1, 8 h, 8 w), to (B, channels, h, w) float32."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            _conv(1, channels // 2, 7, stride=2),
            nn.Hardswish(),
            _conv(channels // 2, channels, 3, stride=2),
            nn.Hardswish(),
            _conv(channels, channels, 3, stride=2),
        )


class CoefficientEncoder(nn.Module):
    """Each coefficient of a cell is a token; a class token asks all of them.

    Args:
        channels: width of the tokens, a multiple of 16.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self._num_heads = channels // _HEAD_WIDTH
        self.tokens = nn.Sequential(
            _conv(1, channels // 2, 7),
            nn.Hardswish(),
            _conv(channels // 2, channels, 3),
            nn.Hardswish(),
            _conv(channels, channels, 3),
        )
        self.class_token = nn.Parameter(torch.empty(1, 1, channels))
        self.positions = nn.Parameter(torch.empty(1, BLOCK**2, channels))
        self.norm = nn.LayerNorm(channels)
        self.q = nn.Linear(channels, channels)
        self.kv = nn.Linear(channels, 2 * channels)
        self.proj = nn.Linear(channels, channels)
        nn.init.normal_(self.class_token, std=1e-4)
        nn.init.trunc_normal_(self.positions, std=0.02)
        for layer in (self.q, self.kv, self.proj):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the class token learns of each cell.

        Args:
            x: (B, L, h, w) float32, the first L coefficients in the order of prediction.

        Returns:
            (B, C, h, w) float32.
        """
        batch, count, height, width = x.shape
        tokens = self.tokens(x.reshape(batch * count, 1, height, width)).view(batch, count, -1, height, width)
        tokens = tokens.permute(0, 3, 4, 1, 2).reshape(batch * height * width, count, -1)
        tokens = self.norm(tokens + self.positions[:, :count])
        own = self.norm(self.class_token)
        both = self.kv(torch.cat([own.expand(len(tokens), 1, -1), tokens], dim=1))
        k, v = both.view(len(both), count + 1, 2, self._num_heads, _HEAD_WIDTH).unbind(2)
        q = self.q(own).view(self._num_heads, _HEAD_WIDTH) * _HEAD_WIDTH**-0.5
        shares = torch.softmax(torch.einsum("hd,nlhd->nlh", q, k), dim=1)
        heard = torch.einsum("nlh,nlhd->nhd", shares, v).flatten(1)
        out: Tensor = self.class_token[0] + self.proj(heard)
        return out.view(batch, height, width, -1).permute(0, 3, 1, 2).contiguous()


class StepPooling(nn.Module):
    """Pyramid pooling that keeps the channels and follows the map's shape: parts are about square.

    Args:
        channels: channels of the map.
        kernel: size of the convolution that joins the parts.
    """

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in SCALES)
        self.join = nn.Sequential(separable_conv(channels * (len(SCALES) + 1), channels, kernel), nn.Hardswish())
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(_bias(layer))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, h, w) to the same shape."""
        height, width = map(int, x.shape[-2:])  # a tracer would make tensors of them
        pooled = []
        for scale, branch in zip(SCALES, self.branches, strict=True):
            longer = round(max(height, width) / min(height, width) * scale)
            parts = (longer, scale) if height >= width else (scale, longer)
            small = branch(functional.adaptive_avg_pool2d(x, parts))
            pooled.append(functional.interpolate(small, size=(height, width), mode="bilinear", align_corners=True))
        out: Tensor = self.join(torch.cat([x, *pooled], dim=1))
        return out


class StepHeads(nn.Module):
    """From the hidden state to the increments of a step: an embedding and a convolution per step, shared pooling.

    Args:
        hidden: channels of the state.
        kernel: size of the convolution that joins the pooled parts.
    """

    def __init__(self, hidden: int, kernel: int) -> None:
        super().__init__()
        self.embeddings = nn.ParameterList(torch.empty(1, hidden, 1, 1) for _ in COUNTS)
        self.pooling = StepPooling(hidden, kernel)
        convs = [_conv(hidden, count, 3) for count in COUNTS]
        for embedding in self.embeddings:
            nn.init.trunc_normal_(embedding, std=1e-4)
        for i, conv in enumerate(convs[:-1]):
            nn.init.trunc_normal_(conv.weight, std=0.02 * 0.8**i)
            nn.init.zeros_(_bias(conv))
        # The last step starts as no change at all.
        nn.init.zeros_(convs[-1].weight)
        nn.init.zeros_(_bias(convs[-1]))
        self.convs = nn.ModuleList(convs)

    def forward(self, h: Tensor, step: int) -> Tensor:
        """Map the state (B, hidden, h, w) to the increments (B, L, h, w) of a step, 0..8, float32."""
        out: Tensor = self.convs[step](self.pooling(h + self.embeddings[step]))
        return out


class ProgressiveDepth(nn.Module):
    """Nine steps from a hidden state to depth.

    Args:
        hidden: channels of the state.
        channels: width of what is fed back, a multiple of 16.
        log_scale: log depth of a block whose coefficients would make it 1 (spec: 4 ln d_max).
        keep_state: share of the samples whose state is kept at a step while training.
        kernel: size of the convolutions that join feedback and pooled parts.
    """

    order: Tensor
    matrix: Tensor

    def __init__(self, hidden: int, channels: int, *, log_scale: float, keep_state: float, kernel: int) -> None:
        super().__init__()
        self._log_scale = log_scale
        self._keep_state = keep_state
        order = torch.tensor([index for diagonal in diagonals(BLOCK) for index in diagonal])
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("matrix", block_matrix(BLOCK), persistent=False)
        self.depth_encoder = DepthEncoder(channels)
        self.coefficient_encoder = CoefficientEncoder(channels)
        self.fuse = nn.Sequential(ChannelAttention(2 * channels, 8), separable_conv(2 * channels, hidden, kernel))
        self.gru = SeparableConvGru(hidden, hidden)
        self.heads = StepHeads(hidden, kernel)

    def forward(self, h: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return log depths (B, 1, 8 h, 8 w) and coefficients (B, 64, h, w) float32 of the nine steps.

        Args:
            h: (B, hidden, h, w) float32, first state.
        """
        coefficients = h.new_zeros(h.shape[0], BLOCK**2, *h.shape[-2:])
        logs: list[Tensor] = []
        found: list[Tensor] = []
        for step in range(len(COUNTS)):
            before = coefficients.detach()
            if step > 0:
                h = self._next(h, logs[-1].detach(), before[:, self.order[: COUNTS[step - 1]]])
            coefficients = self._added(before, self.heads(h, step).float(), step)
            log_depth = from_coefficients(coefficients, self.matrix) * self._log_scale
            logs.append(log_depth.clamp(-_LARGEST_LOG, _LARGEST_LOG))
            found.append(coefficients)
        return tuple(logs), tuple(found)

    def _added(self, coefficients: Tensor, increments: Tensor, step: int) -> Tensor:
        # As in the published network the last step's increments come row by row, those before by diagonals.
        if step == len(COUNTS) - 1:
            return coefficients + increments
        return coefficients.index_add(1, self.order[: COUNTS[step]], increments)

    def _next(self, h: Tensor, log_depth: Tensor, known: Tensor) -> Tensor:
        fed = torch.cat([self.depth_encoder(log_depth), self.coefficient_encoder(known)], dim=1)
        fresh: Tensor = self.gru(h, self.fuse(fed))
        if not self.training:
            return fresh
        kept = torch.rand(h.shape[0], 1, 1, 1, device=h.device) < self._keep_state
        return torch.where(kept, h, fresh)


def _conv(channels_in: int, channels_out: int, kernel: int, *, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel, stride=stride, padding=kernel // 2, padding_mode="replicate")


def _bias(conv: nn.Conv2d) -> Tensor:
    # PyTorch's types do not tell that it is there unless it was asked away.
    return cast(Tensor, conv.bias)
