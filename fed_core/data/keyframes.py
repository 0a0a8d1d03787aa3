"""Which frames of a live stream are worth keeping: not too soon, not the same picture again, well exposed, sharp."""

from collections import Counter
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.config import check, option

#: Rows and columns of the small grey picture that pictures are compared by.
SMALL_SHAPE = (12, 16)
#: Grey levels from which a pixel counts as saturated, and up to which as black.
BRIGHT, DARK = 250, 5

TOO_SOON, UNCHANGED, TOO_BRIGHT, TOO_DARK, BLURRED = "too soon", "unchanged", "too bright", "too dark", "blurred"

Grey = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class KeyframeOptions:
    """What a recorded frame must have; each limit is off at 0 (``docs/recording.md``)."""

    keyframe_gap_s: float = option(
        0.0, help="smallest time between recorded frames; 0 = any", unit="s", low=0.0, high=3600.0
    )
    keyframe_change: float = option(
        0.0,
        help="smallest change of the picture since the last recorded frame, mean of 255 grey levels; 0 = any",
        unit="levels",
        low=0.0,
        high=255.0,
    )
    keyframe_bright_share: float = option(
        0.0, help="largest share of saturated pixels; 0 = any", unit="1", low=0.0, high=1.0
    )
    keyframe_dark_share: float = option(0.0, help="largest share of black pixels; 0 = any", unit="1", low=0.0, high=1.0)
    keyframe_sharpness: float = option(
        0.0, help="smallest variance of the Laplacian of the grey picture; 0 = any", low=0.0, high=65025.0
    )

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)

    @property
    def gap_ns(self) -> int:
        """Smallest time between recorded frames in nanoseconds."""
        return round(self.keyframe_gap_s * 1e9)

    @property
    def look_at_pixels(self) -> bool:
        """Whether any limit needs the full picture."""
        return bool(self.keyframe_bright_share or self.keyframe_dark_share or self.keyframe_sharpness)


def small_grey(rgb: npt.NDArray[np.uint8]) -> Grey:
    """Return a picture (H, W, 3) uint8 as a small grey one, (12, 16) uint8: each pixel the mean of its area."""
    rows, columns = SMALL_SHAPE
    # Reduced before it is made grey: that is the same up to rounding, and much less to compute.
    small = cv2.resize(rgb, (columns, rows), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.uint8)


def image_change(one: Grey, other: Grey) -> float:
    """Return the mean absolute difference of two small grey pictures in grey levels, 0 to 255."""
    return float(np.mean(np.abs(one.astype(np.int16) - other.astype(np.int16))))


def sharpness(grey: Grey) -> float:
    """Return the variance of the Laplacian of a grey picture (H, W) uint8; low = blurred, or without texture."""
    return float(cv2.Laplacian(grey, cv2.CV_64F).var())


class Keyframes:
    """Judges the frames of one robot in order.

    Args:
        options: the limits.

    Attributes:
        refused: how many frames were refused, by reason.
    """

    def __init__(self, options: KeyframeOptions) -> None:
        self._options = options
        self._last: tuple[int, Grey] | None = None
        self.refused: Counter[str] = Counter()

    def is_too_soon(self, stamp_ns: int) -> bool:
        """Tell whether a frame of this time comes too soon after the last one kept; a clock set back never does."""
        return self._last is not None and 0 <= stamp_ns - self._last[0] < self._options.gap_ns

    def judge(self, rgb: npt.NDArray[np.uint8] | None, grey: Grey, stamp_ns: int) -> str:
        """Return why a frame is refused, which is counted; "" = keep it, and tell :meth:`took` when that was done.

        Args:
            rgb: picture, (H, W, 3) uint8; None where a frame has none, then only its time counts.
            grey: the same by :func:`small_grey`.
            stamp_ns: time of the frame.
        """
        why = self._why_not(rgb, grey, stamp_ns)
        if why:
            self.refused[why] += 1
        return why

    def took(self, grey: Grey, stamp_ns: int) -> None:
        """Compare the next frames with this one, which was kept: one that the disk refused is none to compare with."""
        self._last = (stamp_ns, grey)

    def _why_not(self, rgb: npt.NDArray[np.uint8] | None, grey: Grey, stamp_ns: int) -> str:
        options = self._options
        if self.is_too_soon(stamp_ns):
            return TOO_SOON
        if rgb is None:
            return ""
        change = options.keyframe_change
        if change and self._last is not None and image_change(grey, self._last[1]) < change:
            return UNCHANGED
        if not options.look_at_pixels:
            return ""
        full = np.asarray(cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY), np.uint8)
        if options.keyframe_bright_share and np.mean(full >= BRIGHT) > options.keyframe_bright_share:
            return TOO_BRIGHT
        if options.keyframe_dark_share and np.mean(full <= DARK) > options.keyframe_dark_share:
            return TOO_DARK
        if options.keyframe_sharpness and sharpness(full) < options.keyframe_sharpness:
            return BLURRED
        return ""
