"""Tiny frames and what became of them, for the tests of recordings."""

from pathlib import Path

import numpy as np

from fed_core.data.bag_writer import frame_messages
from fed_core.data.frame_files import RawFrame, typestore
from fed_core.data.keyframes import Grey, small_grey
from fed_core.data.open import open_sequence
from fed_core.types import DepthFrame

START_NS = 1_700_000_000_000_000_000


def make_frame(index: int, level: int | None = None, *, size: tuple[int, int] = (12, 16)) -> DepthFrame:
    """Return frame ``index`` of a stream at 10 Hz: of one grey level, with depth that tells its index."""
    level = 10 * index % 250 if level is None else level
    return DepthFrame(
        rgb=np.full((*size, 3), level, np.uint8),
        depth_m=np.full(size, 1.0 + index, np.float32),
        stamp_ns=START_NS + index * 100_000_000,
        intrinsics=np.array([[10.0, 0.0, 7.5], [0.0, 10.0, 5.5], [0.0, 0.0, 1.0]]),
    )


def raw_frame(frame: DepthFrame) -> RawFrame:
    """Return a frame as it is recorded."""
    return RawFrame(frame.stamp_ns, frame_messages(typestore(), frame))


def grey(frame: DepthFrame) -> Grey:
    """Return the small grey picture of a frame."""
    return small_grey(frame.rgb)


def indices(bag: Path) -> list[int]:
    """Return which frames a recording has, as the readers of the project open it; their depth must fit their time."""
    sequence = open_sequence(bag)
    found = []
    for index in range(len(sequence)):
        frame = sequence[index]
        number = (frame.stamp_ns - START_NS) // 100_000_000
        np.testing.assert_array_equal(frame.depth_m, make_frame(number).depth_m)
        found.append(number)
    return found
