"""Adaptive bins: where the depth range of an image is cut (AdaBins, arXiv:2011.14141, eq. 2 and 3)."""

import torch
from torch import Tensor
from torch.nn import functional


def bin_edges(logits: Tensor, d_min: float, d_max: float) -> Tensor:
    """Return edges of bins whose widths follow ``relu(logits) + 0.1``, normalised to the range.

    Args:
        logits: (B, N) float32.
        d_min: first edge in metres.
        d_max: last edge in metres.

    Returns:
        (B, N + 1) float32 metres, rising.
    """
    ends = torch.cumsum(functional.relu(logits) + 0.1, dim=1)
    # Dividing by the last sum itself, not by a separate one, makes the last edge d_max to the last bit or so.
    shares = functional.pad(ends / ends[:, -1:], (1, 0))
    return d_min + (d_max - d_min) * shares


def bin_centres(edges: Tensor) -> Tensor:
    """Return the middles (B, N) of edges (B, N + 1), metres."""
    return 0.5 * (edges[:, 1:] + edges[:, :-1])
