"""Frames of several open sequences as one."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

Frame_co = TypeVar("Frame_co", covariant=True)


class _Frames(Protocol[Frame_co]):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Frame_co: ...


class Pooled(Generic[Frame_co]):
    """Frames of several sequences of one kind, one after the other; a sequence of that kind itself.

    Args:
        parts: the sequences.
        name: of the whole; default tells how many parts there are.
        part: frames to take, as ``slice`` does.
    """

    source = "several"

    def __init__(self, parts: Sequence[_Frames[Frame_co]], name: str = "", part: slice = slice(None)) -> None:
        self.name = name or f"pooled_{len(parts)}"
        self._places = [(sequence, index) for sequence in parts for index in range(len(sequence))][part]

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._places)

    def __getitem__(self, index: int) -> Frame_co:
        """Return frame ``index``; a broken one raises ``DataError``."""
        sequence, place = self._places[index]
        return sequence[place]
