"""Losses of depth networks (fedepth spec 8): what is unknown is masked, and no lack of data makes a NaN."""

import torch
from torch import Tensor

from fed_core.errors import DataError

#: Images with fewer known pixels do not count: the variance in the loss would be noise.
MIN_PIXELS = 64
#: Depth at or below this, in metres, is a hole in the recording.
MIN_DEPTH_M = 1e-3
#: Smallest predicted depth that is told apart from zero, in metres; keeps the logarithm finite.
_FLOOR_M = 1e-6


def silog(pred: Tensor, target: Tensor, mask: Tensor, *, min_pixels: int = MIN_PIXELS) -> Tensor:
    """Scale-invariant log loss per image, averaged over the images that count.

    ``10 sqrt(mean(e^2) - 0.85 mean(e)^2 + 1e-6)`` with ``e = ln(pred) - ln(target)`` on known pixels. Per image, not
    per batch: otherwise densely measured frames would outweigh the others.

    Args:
        pred: (B, 1, H, W) float metres, above 0.
        target: (B, 1, H, W) float metres; NaN, Inf and values up to 1 mm count as unknown.
        mask: (B, 1, H, W) bool, True where the target is known.
        min_pixels: images with fewer known pixels do not count.

    Returns:
        () float32; 0 with zero gradients when no image counts.
    """
    _check_same(pred, target, mask)
    valid = _known(target, mask)
    reference = torch.where(valid, target.flatten(1), 1.0).float()
    # The unknown pixels must leave the graph before the logarithm, or a 0 * Inf there would poison the gradient.
    safe = torch.where(valid, pred.flatten(1).float(), 1.0).clamp(min=_FLOOR_M)
    error = torch.log(safe) - torch.log(reference)
    count = valid.sum(dim=1).clamp(min=1)
    square, mean = error.square().sum(dim=1) / count, error.sum(dim=1) / count
    # In exact numbers mean^2 <= mean of squares; rounding may break that by less than the 1e-6 here.
    each = 10.0 * torch.sqrt(square - 0.85 * mean.square() + 1e-6)
    return _mean_counted(each, valid, min_pixels)


def chamfer_1d(centres: Tensor, target: Tensor, mask: Tensor, *, min_pixels: int = MIN_PIXELS) -> Tensor:
    """Squared distance between bin centres and known depths, both ways, averaged over the images that count.

    Mean over the centres of the squared distance to the nearest depth, plus mean over the depths of the squared
    distance to the nearest centre (AdaBins, arXiv:2011.14141, eq. 5). On a line the nearest neighbour comes from
    sorting and bisection, so no N x pixels matrix is made. Gradients flow to the centres only.

    Args:
        centres: (B, N) float metres, any order.
        target: (B, 1, H, W) float metres.
        mask: (B, 1, H, W) bool, True where the target is known.
        min_pixels: images with fewer known pixels do not count.

    Returns:
        () float32 square metres; 0 with zero gradients when no image counts.
    """
    _check_same(target, target, mask)
    if centres.ndim != 2 or centres.shape[0] != target.shape[0] or centres.shape[1] == 0:
        raise DataError(f"bin centres have shape {tuple(centres.shape)}; expected ({target.shape[0]}, N)")
    valid = _known(target, mask)
    count = valid.sum(dim=1)
    depths = target.detach().flatten(1).float()
    ordered = torch.sort(centres.float(), dim=1).values
    to_centre = depths - _nearest(ordered, torch.where(valid, depths, 0.0))
    forth = torch.where(valid, to_centre, 0.0).square().sum(dim=1) / count.clamp(min=1)
    # Unknown pixels go to the end of the sorted row; an image without known pixels compares with itself.
    pool = torch.sort(torch.where(valid, depths, torch.inf), dim=1).values
    neighbour = _nearest(pool, ordered.detach())
    neighbour = torch.where(torch.isfinite(neighbour), neighbour, ordered.detach())
    back = (ordered - neighbour).square().mean(dim=1)
    return _mean_counted(forth + back, valid, min_pixels)


def _nearest(ordered: Tensor, queries: Tensor) -> Tensor:
    """Return the value of each sorted row (B, N) that is nearest to each query (B, M), as (B, M)."""
    above = torch.searchsorted(ordered.detach(), queries.contiguous()).clamp(max=ordered.shape[1] - 1)
    below = (above - 1).clamp(min=0)
    high, low = ordered.gather(1, above), ordered.gather(1, below)
    return torch.where((high - queries).abs() < (queries - low).abs(), high, low)


def _known(target: Tensor, mask: Tensor) -> Tensor:
    """Return (B, pixels) bool: in the mask, finite and above a millimetre."""
    return (mask & torch.isfinite(target) & (target > MIN_DEPTH_M)).flatten(1)


def _mean_counted(each: Tensor, valid: Tensor, min_pixels: int) -> Tensor:
    """Return the mean of (B,) losses over images with at least ``min_pixels`` (and one) known pixels."""
    counted = valid.sum(dim=1) >= max(min_pixels, 1)
    return torch.where(counted, each, 0.0).sum() / counted.sum().clamp(min=1)


def _check_same(pred: Tensor, target: Tensor, mask: Tensor) -> None:
    if not (pred.ndim == 4 and pred.shape[1] == 1 and pred.shape == target.shape == mask.shape):
        shapes = ", ".join(str(tuple(t.shape)) for t in (pred, target, mask))
        raise DataError(f"prediction, depth and mask have shapes {shapes}; expected (B, 1, H, W) for each")
    if mask.dtype != torch.bool:
        raise DataError(f"the depth mask is {str(mask.dtype).removeprefix('torch.')}; expected bool")
