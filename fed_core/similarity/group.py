"""Descriptors of a fleet side by side, and what all kinds of descriptors have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError, Refusal, RefusedError
from fed_core.types import Array, Descriptor

G = TypeVar("G", bound="Group")

#: Fewer images say nothing about how a robot's images spread.
MIN_FRAMES = 2


class Group(ABC):
    """Descriptors of R robots; a frozen dataclass of arrays whose first axis is R.

    Attributes:
        kind: of the descriptors.
        num_frames: (R,) int64.
    """

    kind: ClassVar[str]
    num_frames: npt.NDArray[np.int64]

    @classmethod
    @abstractmethod
    def stack(cls: type[G], descriptors: Sequence[Descriptor]) -> G:
        """Return the descriptors in the order given; all must have passed the check of their kind."""

    @property
    @abstractmethod
    def num_features(self) -> int:
        """D, the features of one descriptor."""

    def append(self: G, other: G) -> G:
        """Return both, ``other`` last."""
        return type(self)(*(np.concatenate(pair) for pair in zip(_columns(self), _columns(other), strict=True)))

    def take(self: G, columns: Sequence[int]) -> G:
        """Return the robots ``columns``, in that order."""
        index = np.asarray(columns, np.int64)
        return type(self)(*(column[index] for column in _columns(self)))

    def to_tensors(self) -> dict[str, Array]:
        """Return tensors for a memory, float32 for float64; :meth:`from_tensors` reads them."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: a.astype(np.float32) if a.dtype == np.float64 else a for name, a in named.items()}

    @classmethod
    def from_tensors(cls: type[G], tensors: Mapping[str, Array]) -> G:
        """Read what :meth:`to_tensors` wrote."""
        named = (tensors[field.name] for field in fields(cls))  # type: ignore[arg-type]
        return cls(*(a.astype(np.float64) if a.dtype == np.float32 else a for a in named))


def rows_of(pooled: Array) -> npt.NDArray[np.float64]:
    """Return pooled features (N, D), N >= 2, as float64; anything else raises :class:`DataError`."""
    if pooled.ndim != 2 or len(pooled) < MIN_FRAMES:
        text = f"a descriptor needs at least {MIN_FRAMES} frames of pooled features (N, D), got shape {pooled.shape}"
        raise DataError(text)
    rows = pooled.astype(np.float64)
    if not np.isfinite(rows).all():
        raise DataError("pooled features hold NaN or Inf; check the images and the encoder's weights")
    return rows


def check_head(descriptor: Descriptor, *, kind: str, encoder: str, who: str) -> None:
    """Refuse a descriptor of another kind or encoder (WRONG_ENCODER), or of too few frames (WRONG_TENSORS)."""
    if descriptor.kind != kind:
        text = f"descriptor of {who} is of kind {descriptor.kind!r}, this run needs {kind!r}"
        raise RefusedError(text, Refusal.WRONG_ENCODER)
    if encoder and descriptor.encoder != encoder:
        text = f"descriptor of {who} is of encoder {descriptor.encoder[:12]!r}, the fleet uses {encoder[:12]!r}"
        raise RefusedError(f"{text}; give all robots the same encoder, layer and pre-processing", Refusal.WRONG_ENCODER)
    if descriptor.num_frames < MIN_FRAMES:
        text = f"descriptor of {who} comes from {descriptor.num_frames} frame(s); at least {MIN_FRAMES} are needed"
        raise RefusedError(f"{text}; record more, or leave this robot out", Refusal.WRONG_TENSORS)


def _columns(group: Group) -> list[Any]:
    return [getattr(group, field.name) for field in fields(group)]  # type: ignore[arg-type]
