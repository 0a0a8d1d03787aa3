"""Generalised-mean (GeM) pooling of a feature map (Radenovic et al. 2018, arXiv:1711.02512; fedepth spec 2.3)."""

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError
from fed_core.types import Array


def gem(features: Array, p: float = 3.0, eps: float = 1e-6) -> npt.NDArray[np.float32]:
    """Pool each channel over its pixels: ``mean(max(x, eps) ** p) ** (1 / p)``.

    ``p = 1`` is the mean of the clamped map, a large ``p`` its maximum. Sums are in float64 and relative to the
    channel's maximum, so that no power overflows (x^3 does above 40 in half precision).

    Args:
        features: (..., C, H, W) real.
        p: exponent, above 0.
        eps: lower clamp, above 0.

    Returns:
        (..., C) float32.
    """
    if features.ndim < 3 or 0 in features.shape[-2:]:
        raise DataError(f"GeM pooling needs features of shape (..., C, H, W), got {features.shape}")
    if not (p > 0.0 and eps > 0.0):
        raise DataError(f"GeM pooling needs p > 0 and eps > 0, got p = {p} and eps = {eps}")
    flat = features.reshape(*features.shape[:-2], -1).astype(np.float64)
    flat = np.maximum(flat, eps)
    peak = flat.max(axis=-1, keepdims=True)
    pooled = np.mean((flat / peak) ** p, axis=-1) ** (1.0 / p)
    return np.asarray(pooled * peak[..., 0], np.float32)
