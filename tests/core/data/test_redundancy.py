"""Which frames a full recording loses: by hand, on pictures of one grey level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=9), min_size=1, max_size=4), st.data())
def test_half_goes_and_order_of_other_files_does_not_matter(levels: list[list[int]], data: st.DataObject) -> None:
    files = [pictures(*own) for own in levels]
    which = data.draw(st.integers(0, len(files) - 1))
    keep = frames_to_keep(files, which)
    assert keep.count(False) == len(files[which]) // 2
    turned = files[::-1]
    assert frames_to_keep(turned, len(files) - 1 - which) == keep
