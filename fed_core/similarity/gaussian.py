"""Diagonal-Gaussian descriptors: mean and variance of pooled features (fedepth spec 2.4, 2.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fed_core.errors import Refusal, RefusedError
from fed_core.similarity.group import Group, check_head, rows_of
from fed_core.types import Array, Descriptor

KIND = "gaussian"


@dataclass(frozen=True)
class Gaussians(Group):
    """Descriptors of R robots side by side.

    Attributes:
        mean: (R, D) float64.
        variance: (R, D) float64, as measured (no floor yet).
        num_frames: (R,) int64.
    """

    kind: ClassVar[str] = KIND

    mean: npt.NDArray[np.float64]
    variance: npt.NDArray[np.float64]
    num_frames: npt.NDArray[np.int64]

    @classmethod
    def stack(cls, descriptors: Sequence[Descriptor]) -> "Gaussians":
        """Return the descriptors in the order given; all must have passed :func:`check`."""
        mean = np.stack([d.tensors["mean"] for d in descriptors]).astype(np.float64)
        variance = np.stack([d.tensors["variance"] for d in descriptors]).astype(np.float64)
        return cls(mean, variance, np.array([d.num_frames for d in descriptors], np.int64))

    @property
    def num_features(self) -> int:
        """D."""
        return int(self.mean.shape[1])


def describe(pooled: Array, encoder: str) -> Descriptor:
    """Return the descriptor of pooled features.

    Args:
        pooled: (N, D) real, one row per frame, N >= 2.
        encoder: digest of encoder weights, layer, pre-processing and pooling.
    """
    rows = rows_of(pooled)
    tensors = {"mean": rows.mean(axis=0), "variance": rows.var(axis=0, ddof=1)}
    return Descriptor(KIND, {k: v.astype(np.float32) for k, v in tensors.items()}, len(rows), encoder)


def check(descriptor: Descriptor, *, encoder: str = "", num_features: int = 0, who: str = "a robot") -> None:
    """Refuse a descriptor from outside that cannot be compared with the fleet's.

    Args:
        descriptor: what arrived.
        encoder: the fleet's encoder digest; empty = not known yet.
        num_features: the fleet's D; 0 = not known yet.
        who: sender, for the message.

    Raises:
        RefusedError: WRONG_ENCODER (kind, encoder), WRONG_TENSORS (names, shapes, dtype, frames) or NOT_FINITE.
    """
    check_head(descriptor, kind=KIND, encoder=encoder, who=who)
    _check_tensors(descriptor, num_features, who)


def _check_tensors(descriptor: Descriptor, num_features: int, who: str) -> None:
    if set(descriptor.tensors) != {"mean", "variance"}:
        text = f"descriptor of {who} holds {sorted(descriptor.tensors)}; expected mean and variance"
        raise RefusedError(text, Refusal.WRONG_TENSORS)
    mean, variance = descriptor.tensors["mean"], descriptor.tensors["variance"]
    size = num_features or mean.size
    for name, array in (("mean", mean), ("variance", variance)):
        if array.shape != (size,) or size == 0 or array.dtype != np.float32:
            text = f"descriptor of {who}: {name} is {array.dtype} {array.shape}; expected float32 ({size},)"
            raise RefusedError(text, Refusal.WRONG_TENSORS)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all()):
        raise RefusedError(f"descriptor of {who} holds NaN, Inf or a negative variance", Refusal.NOT_FINITE)
