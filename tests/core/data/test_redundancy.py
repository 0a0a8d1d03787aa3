"""Which frames a full recording loses: by hand, on pictures of one grey level."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.data import redundancy
from fed_core.data.redundancy import frames_to_keep, most_redundant, nearest_distances


def pictures(*levels: int) -> np.ndarray:
    return np.array([np.full((12, 16), level) for level in levels], np.uint8).reshape(-1, 12, 16)


def test_distance_to_the_nearest_other_picture() -> None:
    assert nearest_distances(pictures(0, 10, 13, 200)).tolist() == pytest.approx([10.0, 3.0, 3.0, 187.0], abs=1e-3)
    assert nearest_distances(pictures(7)).tolist() == [np.inf]


def test_the_file_with_the_most_alike_half_is_thinned() -> None:
    varied, still, pair = pictures(0, 40, 80, 120), pictures(200, 201, 202, 203), pictures(230, 250)
    assert most_redundant([varied, still, pair]) == 1
    # A file counts as redundant, too, when another one shows the same.
    assert most_redundant([varied, pictures(200, 220), pictures(239, 250), varied]) == 0


def test_of_two_alike_one_stays() -> None:
    assert frames_to_keep([pictures(10, 10, 95, 170)], 0) == [False, True, False, True]
    assert frames_to_keep([pictures(10, 60, 90, 170), pictures(171, 60)], 0) == [True, False, True, False]
    assert frames_to_keep([pictures(1), pictures(1)], 0) == [True]


def test_many_frames_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [pictures(10, 60, 10, 90, 10, 170, 95), pictures(171, 61)]
    expected = nearest_distances(np.concatenate(files)), most_redundant(files), frames_to_keep(files, 0)
    # Two of the 10, then 60, which is 1 from 61; 170 is as near to 171, but later.
    assert expected[2] == [False, False, False, True, True, True, True]
    monkeypatch.setattr(redundancy, "_MOST_DISTANCES", 5)
    np.testing.assert_array_equal(nearest_distances(np.concatenate(files)), expected[0])
    assert (most_redundant(files), frames_to_keep(files, 0)) == expected[1:]


def test_memory_of_a_file_of_many_frames_is_bounded() -> None:
    """All pairs of 1500 pictures at once would take 1.7 GB."""
    own = np.random.default_rng(0).integers(0, 256, (1500, 12, 16), np.uint8)
    tracemalloc.start()
    try:
        keep = frames_to_keep([own, own[:3]], 0)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    assert keep.count(True) == 750 and keep[:3] == [False] * 3


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=9), min_size=1, max_size=4), st.data())
def test_half_goes_and_order_of_other_files_does_not_matter(levels: list[list[int]], data: st.DataObject) -> None:
    files = [pictures(*own) for own in levels]
    which = data.draw(st.integers(0, len(files) - 1))
    keep = frames_to_keep(files, which)
    assert keep.count(False) == len(files[which]) // 2
    turned = files[::-1]
    assert frames_to_keep(turned, len(files) - 1 - which) == keep
