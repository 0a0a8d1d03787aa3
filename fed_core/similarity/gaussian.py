"""Diagonal-Gaussian descriptors: mean and variance of pooled features (fedepth spec 2.4, 2.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError, Refusal, RefusedError
from fed_core.types import Array, Descriptor

KIND = "gaussian"


@dataclass(frozen=True)
class Gaussians:
    """Descriptors of R robots side by side.

    Attributes:
        mean: (R, D) float64.
        variance: (R, D) float64, as measured (no floor yet).
        num_frames: (R,) int64.
    """

    mean: npt.NDArray[np.float64]
    variance: npt.NDArray[np.float64]
    num_frames: npt.NDArray[np.int64]

    @classmethod
    def stack(cls, descriptors: Sequence[Descriptor]) -> "Gaussians":
        """Return the descriptors in the order given; all must have passed :func:`check`."""
        mean = np.stack([d.tensors["mean"] for d in descriptors]).astype(np.float64)
        variance = np.stack([d.tensors["variance"] for d in descriptors]).astype(np.float64)
        return cls(mean, variance, np.array([d.num_frames for d in descriptors], np.int64))

    def append(self, other: "Gaussians") -> "Gaussians":
        """Return both, ``other`` last."""
        return Gaussians(
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.variance, other.variance]),
            np.concatenate([self.num_frames, other.num_frames]),
        )

    def take(self, columns: Sequence[int]) -> "Gaussians":
        """Return the robots ``columns``, in that order."""
        index = np.asarray(columns, np.int64)
        return Gaussians(self.mean[index], self.variance[index], self.num_frames[index])

    def to_tensors(self) -> dict[str, Array]:
        """Return float32 tensors for a memory; :meth:`from_tensors` reads them."""
        return {
            "mean": self.mean.astype(np.float32),
            "variance": self.variance.astype(np.float32),
            "num_frames": self.num_frames,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array]) -> "Gaussians":
        """Read what :meth:`to_tensors` wrote."""
        mean, variance = (tensors[name].astype(np.float64) for name in ("mean", "variance"))
        return cls(mean, variance, tensors["num_frames"].astype(np.int64))


def describe(pooled: Array, encoder: str) -> Descriptor:
    """Return the descriptor of pooled features.

    Args:
        pooled: (N, D) real, one row per frame, N >= 2.
        encoder: digest of encoder weights, layer, pre-processing and pooling.
    """
    if pooled.ndim != 2 or len(pooled) < 2:
        raise DataError(f"a descriptor needs at least 2 frames of pooled features (N, D), got shape {pooled.shape}")
    rows = pooled.astype(np.float64)
    if not np.isfinite(rows).all():
        raise DataError("pooled features hold NaN or Inf; check the images and the encoder's weights")
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
    if descriptor.kind != KIND:
        text = f"descriptor of {who} is of kind {descriptor.kind!r}, this run needs {KIND!r}"
        raise RefusedError(text, Refusal.WRONG_ENCODER)
    if encoder and descriptor.encoder != encoder:
        text = f"descriptor of {who} is of encoder {descriptor.encoder[:12]!r}, the fleet uses {encoder[:12]!r}"
        raise RefusedError(f"{text}; give all robots the same encoder, layer and pre-processing", Refusal.WRONG_ENCODER)
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
    if descriptor.num_frames < 2:
        text = f"descriptor of {who} comes from {descriptor.num_frames} frame(s); at least 2 are needed"
        raise RefusedError(text, Refusal.WRONG_TENSORS)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all()):
        raise RefusedError(f"descriptor of {who} holds NaN, Inf or a negative variance", Refusal.NOT_FINITE)
