"""Subspace descriptors and principal angles (PACFL, Vahidian et al. 2022, arXiv:2209.10526; fedepth spec 9).

A robot is described by the leading left singular vectors of its D x n matrix of pooled features, columns scaled to
length 1 and not centred. Two robots are as far apart as the angle between their subspaces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError, Refusal, RefusedError
from fed_core.similarity.group import Group, check_head, rows_of
from fed_core.types import Descriptor

Floats: TypeAlias = npt.NDArray[np.float64]

KIND = "subspace"
#: p of the paper: most directions of a subspace.
NUM_DIRECTIONS = 3
#: Directions with a smaller share of the largest singular value are rounding, not images (constant images have one).
_RANK_TOLERANCE = 1e-4
#: How far a direction from outside may be from length 1.
_LENGTH_TOLERANCE = 1e-3
_BLOCK = 64
ANGLES = ("principal", "entrywise", "sum")


@dataclass(frozen=True)
class Subspaces(Group):
    """Subspaces of R robots side by side.

    Attributes:
        directions: (R, 3, D) float64, rows of length 1; rows of 0 where a robot has fewer directions.
        num_frames: (R,) int64.
    """

    kind: ClassVar[str] = KIND

    directions: Floats
    num_frames: npt.NDArray[np.int64]

    @classmethod
    def stack(cls, descriptors: Sequence[Descriptor]) -> "Subspaces":
        """Return the descriptors in the order given; all must have passed :func:`check`."""
        size = descriptors[0].tensors["direction0"].size
        directions = np.zeros((len(descriptors), NUM_DIRECTIONS, size))
        for out, descriptor in zip(directions, descriptors, strict=True):
            for index in range(len(descriptor.tensors)):
                row = descriptor.tensors[f"direction{index}"].astype(np.float64)
                out[index] = row / np.linalg.norm(row)  # single precision alone would show up as an angle
        return cls(directions, np.array([d.num_frames for d in descriptors], np.int64))

    @property
    def num_features(self) -> int:
        """D."""
        return int(self.directions.shape[2])


def describe(pooled: npt.NDArray[np.float32] | Floats, encoder: str) -> Descriptor:
    """Return the descriptor of pooled features: "direction0" to "direction2" at most, (D,) float32 each.

    Args:
        pooled: (N, D) real, one row per frame, N >= 2, no row of zeros.
        encoder: digest of encoder weights, layer, pre-processing and pooling.
    """
    rows = rows_of(pooled)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (lengths > 0.0).all():
        raise DataError("a frame's pooled features are all 0; its direction is not defined")
    _, values, directions = np.linalg.svd(rows / lengths, full_matrices=False)
    rank = int((values > _RANK_TOLERANCE * values[0]).sum())
    kept = directions[: min(rank, NUM_DIRECTIONS)].astype(np.float32)
    return Descriptor(KIND, {f"direction{i}": row for i, row in enumerate(kept)}, len(rows), encoder)


def check(descriptor: Descriptor, *, encoder: str = "", num_features: int = 0, who: str = "a robot") -> None:
    """Refuse a descriptor from outside that cannot be compared with the fleet's.

    Args:
        descriptor: what arrived.
        encoder: the fleet's encoder digest; empty = not known yet.
        num_features: the fleet's D; 0 = not known yet.
        who: sender, for the message.

    Raises:
        RefusedError: WRONG_ENCODER (kind, encoder), WRONG_TENSORS (names, shapes, dtype, frames, length) or
            NOT_FINITE.
    """
    check_head(descriptor, kind=KIND, encoder=encoder, who=who)
    count = len(descriptor.tensors)
    if not 1 <= count <= NUM_DIRECTIONS or set(descriptor.tensors) != {f"direction{i}" for i in range(count)}:
        text = f"descriptor of {who} holds {sorted(descriptor.tensors)}; expected direction0 to direction2 at most"
        raise RefusedError(text, Refusal.WRONG_TENSORS)
    size = num_features or descriptor.tensors["direction0"].size
    for name, row in descriptor.tensors.items():
        if row.shape != (size,) or size == 0 or row.dtype != np.float32:
            text = f"descriptor of {who}: {name} is {row.dtype} {row.shape}; expected float32 ({size},)"
            raise RefusedError(text, Refusal.WRONG_TENSORS)
        if not np.isfinite(row).all():
            raise RefusedError(f"descriptor of {who} holds NaN or Inf", Refusal.NOT_FINITE)
        length = float(np.linalg.norm(row.astype(np.float64)))
        if abs(length - 1.0) > _LENGTH_TOLERANCE:
            text = f"descriptor of {who}: {name} has length {length:.4g}; expected 1"
            raise RefusedError(text, Refusal.WRONG_TENSORS)


def affinity(group: Subspaces, angle: str = "principal") -> Floats:
    """Return the (R, R) angles of a group in degrees: symmetric, zero diagonal; ``angle`` as in :func:`angles`."""
    out = np.triu(angles(group, group, angle), 1)  # mirrored: exact symmetry
    return np.asarray(out + out.T)


def angles(first: Subspaces, second: Subspaces, angle: str = "principal") -> Floats:
    """Return the angle of every pair of two groups in degrees.

    Directions have no sign, so cosines count by their size.

    Args:
        first: (N) subspaces.
        second: (R) subspaces.
        angle: "principal", the smallest principal angle: from the largest singular value of U1^T U2; "entrywise",
            the smallest angle between a direction of one and a direction of the other (never below the principal
            one); "sum", over the pairs of directions of equal rank, a direction that only one of them has counts 90.

    Returns:
        (N, R) float64.
    """
    if angle not in ANGLES:
        raise DataError(f"angle is {angle!r}; choose one of {', '.join(ANGLES)}")
    out = np.empty((len(first.directions), len(second.directions)))
    for low in range(0, len(out), _BLOCK):
        block = first.directions[low : low + _BLOCK]
        cosines = np.tensordot(block, second.directions, axes=(2, 2)).transpose(0, 2, 1, 3)  # (n, R, 3, 3)
        if angle == "principal":
            found = _degrees(np.linalg.svd(cosines, compute_uv=False)[..., 0])
        elif angle == "entrywise":
            found = _degrees(np.abs(cosines).max(axis=(2, 3)))
        else:
            found = _summed(np.abs(cosines), _present(block), _present(second.directions))
        out[low : low + _BLOCK] = found
    return out


def _summed(cosines: Floats, first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_]) -> Floats:
    counted = first[:, None] | second[None]
    return np.asarray((_degrees(np.diagonal(cosines, axis1=2, axis2=3)) * counted).sum(axis=2))


def _present(directions: Floats) -> npt.NDArray[np.bool_]:
    return np.asarray(directions.any(axis=2))


def _degrees(cosines: Floats) -> Floats:
    return np.asarray(np.degrees(np.arccos(np.clip(cosines, 0.0, 1.0))))
