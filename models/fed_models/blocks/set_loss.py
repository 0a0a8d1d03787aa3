"""Matching of queries with true boxes, and the loss of a set of queries (fedcka spec 8.2)."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional

from fed_models.blocks.box_code import CODE_WEIGHTS, Truth
from fed_models.blocks.denoising import FARTHEST, Noise

CLASS_WEIGHT = 2.0
BOX_WEIGHT = 0.25
_ALPHA = 0.25
_GAMMA = 2.0
#: Weight of unmatched queries in the normaliser of the class loss.
_BACKGROUND = 0.1
#: Numbers of the code that the matching looks at: all but the velocity.
_MATCHED = 8
#: Cost in place of one that is not finite.
_HIGHEST = 1e6


def focal_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the focal loss (arXiv:1708.02002) of every logit, alpha 0.25 and gamma 2; same shape, float32.

    Args:
        logits: (...) float32.
        targets: (...) float32, 0 or 1.
    """
    each = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    wrong = (logits.sigmoid() - targets).abs()
    return (_ALPHA * targets + (1.0 - _ALPHA) * (1.0 - targets)) * wrong**_GAMMA * each


def matching_cost(logits: Tensor, codes: Tensor, truth: Truth) -> Tensor:
    """Return what it costs to match each query with each true box of a scan, (Q, M) float32.

    Args:
        logits: (Q, 10) float32.
        codes: (Q, 10) float32.
        truth: true boxes.
    """
    wanted = logits[:, truth.labels]
    yes, no = torch.ones_like(wanted), torch.zeros_like(wanted)
    classes = focal_loss(wanted, yes) - focal_loss(wanted, no)
    weights = codes.new_tensor(CODE_WEIGHTS)[:_MATCHED]
    boxes = torch.cdist(codes[:, :_MATCHED] * weights, truth.codes[:, :_MATCHED] * weights, p=1.0)
    return CLASS_WEIGHT * classes + BOX_WEIGHT * boxes


@torch.no_grad()
def match(logits: Tensor, codes: Tensor, truth: Truth) -> tuple[Tensor, Tensor]:
    """Return matched queries and their boxes, (min(Q, M),) int64 each; the sum of costs is the least."""
    cost = matching_cost(logits, codes, truth).cpu().numpy().astype(np.float64)
    queries, boxes = linear_sum_assignment(np.nan_to_num(cost, nan=_HIGHEST, posinf=_HIGHEST, neginf=-_HIGHEST))
    return torch.from_numpy(queries).to(logits.device), torch.from_numpy(boxes).to(logits.device)


def query_loss(logits: Tensor, codes: Tensor, truth: Sequence[Truth]) -> Tensor:
    """Return the loss of the normal queries of one layer, () float32.

    Args:
        logits: (B, Q, 10) float32.
        codes: (B, Q, 10) float32.
        truth: true boxes of each of the B scans.
    """
    targets, found, wanted = torch.zeros_like(logits), [], []
    for scan, each in enumerate(truth):
        queries, boxes = match(logits[scan], codes[scan], each)
        targets[scan, queries, each.labels[boxes]] = 1.0
        found.append(codes[scan, queries])
        wanted.append(each.codes[boxes])
    positive = sum(len(each) for each in wanted)
    negative = logits.shape[0] * logits.shape[1] - positive
    classes = focal_loss(logits, targets).sum() / max(1.0, positive + _BACKGROUND * negative)
    return CLASS_WEIGHT * classes + BOX_WEIGHT * box_loss(torch.cat(found), torch.cat(wanted)) / max(1, positive)


def noise_loss(logits: Tensor, codes: Tensor, noise: Noise) -> Tensor:
    """Return the loss of the denoising queries of one layer, () float32; boxes count also where the class does not.

    Args:
        logits: (B, P, 10) float32.
        codes: (B, P, 10) float32.
        noise: what they should find.
    """
    real = noise.real
    labels = noise.labels[real]
    targets = functional.one_hot(labels.clamp(min=0), logits.shape[-1]).float() * (labels >= 0).float()[:, None]
    count = len(labels)
    # Share of queries within a ball of radius 0.75 in the cube that they are drawn from.
    near = max(1.0, count * math.pi / 6.0 * FARTHEST**3)
    classes = focal_loss(logits[real], targets).sum() / near
    return CLASS_WEIGHT * classes + BOX_WEIGHT * box_loss(codes[real], noise.codes[real]) / max(1, count)


def box_loss(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the weighted sum of absolute differences of codes (N, 10); numbers that are not known (NaN) do not count.

    Args:
        found: (N, 10) float32.
        wanted: (N, 10) float32.
    """
    known = ~wanted.isnan()
    differences = (found - torch.where(known, wanted, found.detach())).abs()
    return (differences * found.new_tensor(CODE_WEIGHTS) * known).sum()
