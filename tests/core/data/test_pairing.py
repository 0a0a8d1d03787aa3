from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.pairing import pair_by_key, pair_by_stamp
from fed_core.errors import DataError

STAMPS = st.lists(st.integers(0, 300), max_size=25)


def test_nearest_depth_within_slop() -> None:
    assert pair_by_stamp([0, 100, 200, 300], [8, 95, 250], 10) == [(0, 0), (1, 1)]


def test_depth_image_goes_to_the_nearest_colour_image_only() -> None:
    assert pair_by_stamp([0, 10, 20], [12], 15) == [(1, 0)]


def test_slop_is_inclusive_and_order_of_input_is_free() -> None:
    assert pair_by_stamp([200, 100], [110, 190], 10) == [(1, 0), (0, 1)]
    assert pair_by_stamp([100], [111], 10) == []
    assert pair_by_stamp([], [1], 10) == pair_by_stamp([1], [], 10) == []


@given(STAMPS, STAMPS, st.integers(0, 50))
def test_pairs_are_near_used_once_and_nothing_nearer_exists(colour: list[int], depth: list[int], slop: int) -> None:
    pairs = pair_by_stamp(colour, depth, slop)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    for i, j in pairs:
        gap = abs(colour[i] - depth[j])
        assert gap <= slop
        assert gap == min(abs(colour[i] - d) for d in depth)
    assert [colour[i] for i, _ in pairs] == sorted(colour[i] for i, _ in pairs)
    # The closest two images of all are always found.
    if colour and depth:
        closest = min(abs(c - d) for c in colour for d in depth)
        assert bool(pairs) == (closest <= slop)


def test_files_pair_by_key_in_order() -> None:
    colour = {2: Path("c2"), 1: Path("c1")}
    depth = {1: Path("d1"), 2: Path("d2")}
    assert pair_by_key(colour, depth, Path("x")) == [(Path("c1"), Path("d1")), (Path("c2"), Path("d2"))]


def test_file_without_partner_is_named() -> None:
    with pytest.raises(DataError) as caught:
        pair_by_key({1: Path("a/1.jpg"), 2: Path("a/2.jpg")}, {1: Path("b/1.png")}, Path("rec"))
    assert str(caught.value) == "rec: 2 colour and 1 depth images; 2.jpg has no depth image"
    with pytest.raises(DataError) as caught:
        pair_by_key({}, {1: Path("b/1.png")}, Path("rec"))
    assert str(caught.value) == "rec: 0 colour and 1 depth images; 1.png has no colour image"
