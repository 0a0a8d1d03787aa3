"""Cuts a stream of samples into sequences and keeps the first pictures of the running one."""

from collections.abc import Sequence

from std_msgs.msg import Header

from fed_core.roles import events as ev
from fed_core.similarity.group import MIN_FRAMES
from fed_core.types import Array
from fed_nodes.convert.images import stamp_ns


class SequenceCutter:
    """Names sequences ("sequence_1", ...); a jump of image time, or a person, starts the next one.

    Args:
        gap_s: a jump of image time by more than this starts a new sequence.
        num_frames: first samples whose pictures are kept; models are chosen from them.

    Attributes:
        gap_s: as given; may change.
        images: pictures of the first samples, until they are taken.
    """

    def __init__(self, gap_s: float, num_frames: int) -> None:
        self.gap_s, self._num_frames = gap_s, num_frames
        self._count, self._last_ns = 0, 0
        self._boundary = True
        self._announced = False
        self._frames = 0
        self.name = ""
        self.images: list[Array] = []
        #: Header of the running sequence's first sample.
        self.first = Header()

    def cut(self) -> None:
        """Let the next sample start a new sequence."""
        self._boundary = True

    def add(self, header: Header, pictures: Sequence[Array]) -> list[ev.Event]:
        """Take the pictures (H, W, 3) uint8 RGB of the next sample; return what happened.

        That is a new sequence, or enough samples of it.
        """
        now_ns = stamp_ns(header.stamp)
        events: list[ev.Event] = []
        if self._boundary or abs(now_ns - self._last_ns) > round(self.gap_s * 1e9):
            self._boundary = self._announced = False
            self._count += 1
            self.name, self.images, self.first = f"sequence_{self._count}", [], header
            self._frames = 0
            events.append(ev.SequenceStarted(self.name))
        self._last_ns = now_ns
        if not self._announced:
            self.images += pictures
            self._frames += 1
            if self._frames >= self._num_frames:
                events += self._announce()
        return events

    def take(self) -> list[Array]:
        """Return the pictures and keep none: they are of full size, and described once."""
        images, self.images = self.images, []
        return images

    @property
    def is_announced(self) -> bool:
        """Whether the running sequence has enough samples, as was told."""
        return self._announced

    def silent(self) -> list[ev.Event]:
        """No image came for a while: what there is of the sequence must do, if it can be described at all."""
        return [] if self._announced or len(self.images) < MIN_FRAMES else self._announce()

    def _announce(self) -> list[ev.Event]:
        self._announced = True
        return [ev.FramesReady(self.name)]
