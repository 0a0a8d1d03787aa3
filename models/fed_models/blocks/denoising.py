"""Denoising queries: true boxes, moved, that only training sees (fedcka spec 8.2)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fed_models.blocks.box_code import Truth
from fed_models.blocks.coordinates import PointRange

MOST_GROUPS = 10
#: Queries moved farther than this (in half sizes of the box) have to say background.
FARTHEST = 0.75


class Noise(NamedTuple):
    """Denoising queries of a batch; they stand before the normal ones.

    Attributes:
        references: (B, P, 3) float32 shares of the range.
        labels: (B, P) int64 class to be found, -1 for background.
        codes: (B, P, 10) float32 box to be found.
        real: (B, P) bool; scans with fewer boxes than others are filled up.
        mask: (B, P + Q, P + Q) bool, True where one query may look at another.
    """

    references: Tensor
    labels: Tensor
    codes: Tensor
    real: Tensor
    mask: Tensor


def make_noise(truth: Sequence[Truth], space: PointRange, num_queries: int, budget: int) -> Noise | None:
    """Draw denoising queries from PyTorch's global generator; None where no scan has a box, or one has too many.

    Args:
        truth: true boxes of every scan.
        space: range of the network.
        num_queries: normal queries Q.
        budget: denoising queries of a scan at most; there are at most 10 copies of each box.
    """
    most = max((len(each.labels) for each in truth), default=0)
    groups = min(MOST_GROUPS, budget // most) if most else 0
    if not groups:
        return None
    labels = torch.stack([_filled(each.labels, most, -1) for each in truth]).repeat(1, groups)
    codes = torch.stack([_filled(each.codes, most, 0.0) for each in truth]).repeat(1, groups, 1)
    counts = torch.tensor([len(each.labels) for each in truth])[:, None]
    real = (torch.arange(most)[None] < counts).repeat(1, groups).to(labels.device)
    # Drawn on the CPU, so that every device trains on the same.
    moves = (2.0 * torch.rand(*codes.shape[:2], 3) - 1.0).to(codes.device)
    references = space.shares(codes[..., :3] + moves * codes[..., 3:6].exp() / 2.0).clamp(0.0, 1.0)
    labels = labels.masked_fill(moves.norm(dim=-1) > FARTHEST, -1)
    return Noise(references, labels, codes, real, noise_mask(real, groups, num_queries))


def noise_mask(real: Tensor, groups: int, num_queries: int) -> Tensor:
    """Return who may look at whom, (B, P + Q, P + Q) bool: normal queries at normal ones, groups at themselves, too.

    Args:
        real: (B, P) bool, queries that stand for a box; nobody looks at the others.
        groups: number of groups, of P / groups queries each.
        num_queries: normal queries Q.
    """
    batch, noisy = real.shape
    mask = real.new_zeros(batch, noisy + num_queries, noisy + num_queries)
    mask[:, :, noisy:] = True
    group = torch.arange(noisy, device=real.device) // (noisy // groups)
    mask[:, :noisy, :noisy] = (group[:, None] == group[None]) & real[:, None]
    return mask


def _filled(rows: Tensor, count: int, value: float) -> Tensor:
    missing = rows.new_full((count - len(rows), *rows.shape[1:]), value)
    return torch.cat((rows, missing))
