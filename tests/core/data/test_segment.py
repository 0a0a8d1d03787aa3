from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fed_core.data.segment import Segment, sift, usable
from fed_core.errors import DataError

Make = Callable[..., Any]


def test_segment_is_a_view(make_sequence: Make) -> None:
    part = Segment(make_sequence(10), 2, 9, 3)
    assert len(part) == 3
    assert [f.rgb[0, 0, 0] for f in part] == [2, 5, 8]
    assert part.name == "listed_2-8" and part.source == "test"
    assert part[-1].rgb[0, 0, 0] == 8
    with pytest.raises(IndexError):
        part[3]


def test_negative_start_and_own_name(make_sequence: Make) -> None:
    part = Segment(make_sequence(10), -2, name="tail")
    assert len(part) == 2 and part.name == "tail" and part[0].rgb[0, 0, 0] == 8


def test_segments_nest(make_sequence: Make) -> None:
    part = Segment(Segment(make_sequence(10), 4), 1, 4)
    assert [f.rgb[0, 0, 0] for f in part] == [5, 6, 7]


def test_empty_segment_tells_how_many_frames_there_are(make_sequence: Make) -> None:
    with pytest.raises(DataError) as caught:
        Segment(make_sequence(3), 5)
    assert str(caught.value) == "segment [5::1] of 'listed' is empty; the sequence has 3 frames"
    with pytest.raises(DataError, match="step is 0; it must be at least 1"):
        Segment(make_sequence(3), step=0)


def test_frames_with_too_little_depth_are_left_out(make_sequence: Make) -> None:
    sequence = make_sequence(3, height=10, width=20)
    sequence.frames[1].depth_m[...] = np.nan
    sequence.frames[1].depth_m[0, 0] = 1.0  # 0.5 %
    assert usable(sequence) == [0, 2]
    assert usable(sequence, min_valid=0.005) == [0, 1, 2]
    assert sift(sequence).skipped == ((1, "0.50% of the pixels have a depth, 1.00% are needed"),)


def test_broken_frames_are_left_out_with_their_reason(make_sequence: Make) -> None:
    sequence = make_sequence(2)

    class Broken(type(sequence)):  # type: ignore[misc]
        def __getitem__(self, index: int) -> Any:
            if index == 1:
                raise DataError("frame 1 is broken")
            return super().__getitem__(index)

    found = sift(Broken(sequence.frames))
    assert found.usable == (0,) and found.skipped == ((1, "frame 1 is broken"),)
