"""Whether what is seen is still like what the models of the running sequence were chosen from."""

from collections.abc import Sequence

from fed_core.similarity.drift import drift
from fed_core.types import Array, Descriptor


class DriftWatch:
    """Compares the last frames with those of the choice, once in so many frames: so often a sequence can end at most.

    Args:
        every: frames between two comparisons; 0 = none is made.
        num_frames: of these so many are described, evenly spread.
        threshold: larger distances end the sequence; 0 = none does.

    Attributes:
        distance: of the last comparison; NaN = there was none in this sequence.
    """

    def __init__(self, every: int, num_frames: int, threshold: float) -> None:
        self._every, self._threshold = every, threshold
        self._stride = max(1, every // num_frames)
        self.restart()

    def restart(self) -> None:
        """A new sequence begins."""
        self._chosen: Descriptor | None = None
        self._pictures: list[Array] = []
        self._frames = 0
        self.distance = float("nan")

    def chosen_from(self, descriptor: Descriptor) -> None:
        """The models were chosen from this."""
        self._chosen = descriptor

    def add(self, pictures: Sequence[Array]) -> tuple[str, list[Array]] | None:
        """Take the pictures (H, W, 3) uint8 of a frame; return kind and pictures of a descriptor that is wanted."""
        if not self._every or self._chosen is None:
            return None
        if self._frames % self._stride == 0:
            self._pictures += pictures
        self._frames += 1
        if self._frames < self._every:
            return None
        recent, self._pictures, self._frames = self._pictures, [], 0
        return self._chosen.kind, recent

    def ends(self, recent: Descriptor) -> bool:
        """Compare the descriptor that was wanted; return whether the sequence ends."""
        chosen = self._chosen  # the executor's thread may begin a new sequence meanwhile
        if chosen is None:
            return False
        self.distance = drift(chosen, recent)
        return 0 < self._threshold < self.distance
