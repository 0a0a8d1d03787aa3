"""Diagonal Gaussians of the logarithm of pooled features (fedepth spec 14.1).

Pooled features are positive and skewed; their logarithm is nearer to a Gaussian, so that a few strong frames of one
channel do not decide the divergence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fed_core.similarity import gaussian
from fed_core.similarity.gaussian import Gaussians
from fed_core.similarity.group import check_head, rows_of
from fed_core.types import Array, Descriptor

KIND = "log_gaussian"
#: What GeM pooling gives a dead channel; smaller values count as it.
LOWEST = 1e-6


@dataclass(frozen=True)
class LogGaussians(Gaussians):
    """Descriptors of R robots side by side; mean and variance are of logarithms."""

    kind: ClassVar[str] = KIND

    @classmethod
    def stack(cls, descriptors: Sequence[Descriptor]) -> "LogGaussians":
        """Return the descriptors in the order given; all must have passed :func:`check`."""
        plain = Gaussians.stack(descriptors)
        return cls(plain.mean, plain.variance, plain.num_frames)


def describe(pooled: Array, encoder: str) -> Descriptor:
    """Return the descriptor of pooled features.

    Args:
        pooled: (N, D) real, one row per frame, N >= 2; values below 1e-6 count as 1e-6.
        encoder: digest of encoder weights, layer, pre-processing and pooling.
    """
    rows = np.log(np.maximum(rows_of(pooled), LOWEST))
    return replace(gaussian.describe(rows, encoder), kind=KIND)


def check(descriptor: Descriptor, *, encoder: str = "", num_features: int = 0, who: str = "a robot") -> None:
    """Refuse a descriptor from outside that cannot be compared with the fleet's; see :func:`gaussian.check`."""
    check_head(descriptor, kind=KIND, encoder=encoder, who=who)
    gaussian.check(replace(descriptor, kind=gaussian.KIND), encoder=encoder, num_features=num_features, who=who)
