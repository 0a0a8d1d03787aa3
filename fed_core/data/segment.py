"""Parts of a sequence, and which of its frames are worth training on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from fed_core.data.sequence import DepthSequence
from fed_core.data.units import valid_share
from fed_core.errors import DataError
from fed_core.types import DepthFrame

S = TypeVar("S")


class Segment:
    """A view on the frames ``start:stop:step`` of a sequence; nothing is copied or read.

    Args:
        sequence: the whole.
        start: first frame; negative counts from the end.
        stop: frame after the last; None = to the end.
        step: take every step-th frame.
        name: default: name of the whole with the range behind it.
    """

    def __init__(
        self, sequence: DepthSequence, start: int = 0, stop: int | None = None, step: int = 1, name: str = ""
    ) -> None:
        if step < 1:
            raise DataError(f"segment of {sequence.name!r}: step is {step}; it must be at least 1")
        self._sequence = sequence
        self._indices = range(len(sequence))[start:stop:step]
        if not self._indices:
            raise DataError(
                f"segment [{start}:{'' if stop is None else stop}:{step}] of {sequence.name!r} is empty; "
                f"the sequence has {len(sequence)} frames"
            )
        self.name = name or f"{sequence.name}_{self._indices[0]}-{self._indices[-1]}"
        self.source = sequence.source

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._indices)

    def __getitem__(self, index: int) -> DepthFrame:
        """Return frame ``index`` of the segment."""
        return self._sequence[self._indices[index]]

    @property
    def whole(self) -> DepthSequence:
        """The sequence that this is a part of."""
        return self._sequence

    def place(self, index: int) -> int:
        """Return the index that frame ``index`` has in the whole."""
        return self._indices[index]


def whole_of(sequence: DepthSequence, kind: type[S]) -> tuple[S, Callable[[int], int]] | None:
    """Return the recording of a kind that a sequence is, or is a part of, and where its frames are in that; or None."""
    if isinstance(sequence, Segment) and isinstance(sequence.whole, kind):
        return sequence.whole, sequence.place
    return (sequence, lambda index: index) if isinstance(sequence, kind) else None


@dataclass(frozen=True)
class Sifted:
    """Frames of a sequence, sorted by use.

    Attributes:
        usable: indexes of frames with enough depth.
        skipped: (index, why) of the others.
    """

    usable: tuple[int, ...]
    skipped: tuple[tuple[int, str], ...]


def sift(sequence: DepthSequence, min_valid: float = 0.01) -> Sifted:
    """Read every frame once and keep those that load and have at least ``min_valid`` (share) pixels with depth."""
    usable: list[int] = []
    skipped: list[tuple[int, str]] = []
    for index in range(len(sequence)):
        try:
            share = valid_share(sequence[index].depth_m)
        except DataError as err:
            skipped.append((index, str(err)))
            continue
        if share >= min_valid:
            usable.append(index)
        else:
            skipped.append((index, f"{share:.2%} of the pixels have a depth, {min_valid:.2%} are needed"))
    return Sifted(tuple(usable), tuple(skipped))


def usable(sequence: DepthSequence, min_valid: float = 0.01) -> list[int]:
    """Return the indexes of frames that load and have at least ``min_valid`` (share) pixels with depth."""
    return list(sift(sequence, min_valid).usable)
