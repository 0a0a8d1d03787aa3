"""Square windows over a feature map, for attention inside each of them (Swin Transformer, arXiv:2103.14030)."""

import torch
from torch import Tensor

#: Added to the attention scores of two cells that must not see each other.
HIDDEN = -100.0


def partition(x: Tensor, window: int) -> Tensor:
    """Cut a map into windows, row by row.

    Args:
        x: (B, H, W, C) float, H and W multiples of the window.
        window: side of a window in cells.

    Returns:
        (B n, window^2, C) float, where n = H W / window^2.
    """
    batch, height, width, channels = x.shape
    x = x.view(batch, height // window, window, width // window, window, channels)
    return x.transpose(2, 3).reshape(-1, window * window, channels)


def merge(windows: Tensor, window: int, size: tuple[int, int]) -> Tensor:
    """Undo :func:`partition`: (B n, window^2, C) to (B, H, W, C) of ``size`` (H, W)."""
    rows, columns, channels = size[0] // window, size[1] // window, windows.shape[-1]
    x = windows.view(-1, rows, columns, window, window, channels)
    return x.transpose(2, 3).reshape(-1, size[0], size[1], channels)


def shift_mask(size: tuple[int, int], window: int, device: torch.device) -> Tensor:
    """Return what hides cells from each other that are neighbours only because the shifted map wraps around.

    Args:
        size: (H, W) of the map, multiples of the window; it was rolled up and left by half a window.
        window: side of a window in cells.
        device: where the mask is needed.

    Returns:
        (n, window^2, window^2) float32, 0 or -100.
    """
    shift = window // 2
    rows, columns = (_regions(n, window, shift, device) for n in size)
    regions = 3 * rows[:, None] + columns[None, :]
    flat = partition(regions.view(1, *size, 1), window).squeeze(-1)
    return torch.where(flat[:, :, None] == flat[:, None, :], 0.0, HIDDEN)


def relative_index(window: int) -> Tensor:
    """Return the row of the position table for each pair of cells, (window^2, window^2) int64, 0..(2 window - 1)^2."""
    cells = torch.cartesian_prod(torch.arange(window), torch.arange(window))
    offsets = cells[:, None, :] - cells[None, :, :] + window - 1
    return offsets[..., 0] * (2 * window - 1) + offsets[..., 1]


def _regions(length: int, window: int, shift: int, device: torch.device) -> Tensor:
    places = torch.arange(length, device=device)
    return (places >= length - window).int() + (places >= length - shift).int()
