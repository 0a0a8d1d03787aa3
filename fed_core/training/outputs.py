"""Outputs of modules as rows of samples (fedcka spec 3): what is a feature, sparse tensors, copies."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from fed_core.similarity.cka import SparseRows

_CHANNELS_FIRST = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
)
_NUMPY = (torch.float16, torch.float32, torch.float64)
_CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.MultiheadAttention, nn.Embedding)


def size_bytes(value: Any) -> int:
    """Return the bytes of rows; 0 of None."""
    if value is None:
        return 0
    return int((value.features if isinstance(value, SparseRows) else value).nbytes)


def copied(value: Any) -> Any:
    """Return a copy of rows, in memory as they lie."""
    if isinstance(value, SparseRows):
        return replace(value, features=copied(value.features))
    return value.clone() if isinstance(value, Tensor) else None if value is None else value.copy(order="K")


def plain(output: Tensor) -> Any:
    """Return a view as a NumPy array where that is possible: its calls cost half of PyTorch's."""
    return output.detach().numpy() if output.device.type == "cpu" and output.dtype in _NUMPY else output


def rows(output: Any, module: nn.Module | None = None) -> Any:
    """Return an output as (n, p) rows of samples, or as parts (m, n / m, p) of them; a view where that is possible.

    Args:
        output: tensor or array (B, C, H, W), (a, b, d) with features last, (n, p), (n,), or more axes, of which the
            first are rows.
        module: what made it, if its kind shall tell where the features are; None = by the number of axes only.
    """
    if output.ndim == 2:
        return output
    if output.ndim < 2:
        return output.reshape(-1, 1)
    last = output.ndim == 3
    if isinstance(module, _CHANNELS_LAST):
        last = True
    elif isinstance(module, _CHANNELS_FIRST):
        last = False
    elif output.ndim > 4:
        return output.reshape(len(output), -1)
    if last:
        return output.reshape(-1, output.shape[-1])
    maps = output.reshape(output.shape[0], output.shape[1], -1)
    return maps[0].T if len(maps) == 1 else maps.swapaxes(1, 2)


def sparse_rows(tensor: Any, features: Tensor | None = None) -> SparseRows:
    """Return the active cells of a sparse tensor as spconv has it.

    Args:
        tensor: with ``features`` (N, C), ``indices`` (N, 1 + axes), the first of which is the place in the batch,
            ``spatial_shape`` and ``batch_size``.
        features: other values of the same cells.
    """
    shape = [int(tensor.batch_size), *(int(size) for size in tensor.spatial_shape)]
    cells = torch.zeros(len(tensor.indices), dtype=torch.int64, device=tensor.indices.device)
    for axis, size in enumerate(shape):
        cells = cells * size + tensor.indices[:, axis].long()
    volume = 1
    for size in shape:
        volume *= size
    return SparseRows(tensor.features if features is None else features, cells, volume)


def is_sparse(value: Any) -> bool:
    """Tell whether this is a sparse tensor as spconv has it."""
    names = ("features", "indices", "spatial_shape", "batch_size")
    return not isinstance(value, Tensor) and all(hasattr(value, name) for name in names)


def first_output(output: Any) -> Any:
    """Return the first floating tensor or sparse tensor of an output, None where there is none."""
    if isinstance(output, Tensor):
        return output if output.is_floating_point() else None
    if is_sparse(output):
        return output
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, (tuple, list)) else ()
    return next((found for found in map(first_output, parts) if found is not None), None)
