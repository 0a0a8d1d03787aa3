"""Several sequences, one after the other, as one."""

from collections.abc import Callable, Sequence

from fed_core.data.sequence import DepthSequence
from fed_core.errors import DataError
from fed_core.types import DepthFrame


class Concatenated:
    """The frames of all parts, in the order of the parts; every frame keeps the time it was taken at.

    A part is opened when one of its frames is asked for, or when frames are counted.
    Follows :class:`fed_core.data.sequence.DepthSequence`.

    Args:
        parts: functions that open a part.
        name: of the whole; default tells how many parts there are.
    """

    source = "several"

    def __init__(self, parts: Sequence[Callable[[], DepthSequence]], name: str = "") -> None:
        if not parts:
            raise DataError("a concatenation of no parts holds no frame; name at least one")
        self._open = tuple(parts)
        self._opened: dict[int, DepthSequence] = {}
        self.name = name or f"pooled_{len(parts)}"

    def __len__(self) -> int:
        """Return the number of frames of all parts."""
        return sum(len(self._part(number)) for number in range(len(self._open)))

    def __getitem__(self, index: int) -> DepthFrame:
        """Return frame ``index``; negative ones count from the end."""
        left = index if index >= 0 else range(len(self))[index]
        for number in range(len(self._open)):
            part = self._part(number)
            if left < len(part):
                return part[left]
            left -= len(part)
        raise IndexError(f"frame {index} of {self.name}, which has {len(self)}")

    def _part(self, number: int) -> DepthSequence:
        if number not in self._opened:
            self._opened[number] = self._open[number]()
        return self._opened[number]
