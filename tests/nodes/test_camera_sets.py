"""Which images of several cameras belong together, and what happens to the others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from fed_nodes.convert.images import stamp_ns, to_stamp
from fed_nodes.sensing import waiting
from fed_nodes.sensing.camera_sets import WAITING, CameraSets


def image(time_ns: int) -> Image:
    return Image(header=Header(stamp=to_stamp(time_ns)))


def stamps(found: tuple[Image, ...] | None) -> tuple[int, ...] | None:
    return None if found is None else tuple(stamp_ns(member.header.stamp) for member in found)


def play(sets: CameraSets, *images: tuple[str, int]) -> list[tuple[int, ...]]:
    """Return the sets that a row of (camera, time) completes."""
    return [found for name, time in images if (found := stamps(sets.add(name, image(time)))) is not None]


def test_a_set_is_complete_with_its_last_image_in_the_order_of_the_names() -> None:
    sets = CameraSets(["front", "left", "back"], 20)

    assert play(sets, ("back", 103), ("front", 100)) == []
    assert play(sets, ("left", 110)) == [(100, 110, 103)]
    assert sets.dropped == 0


def test_one_camera_makes_a_set_of_each_image() -> None:
    assert play(CameraSets(["front"], 0), ("front", 1), ("front", 2)) == [(1,), (2,)]


def test_images_further_apart_than_the_slop_are_no_set() -> None:
    sets = CameraSets(["a", "b"], 20)

    assert play(sets, ("a", 100), ("b", 121)) == []
    assert play(sets, ("a", 130)) == [(130, 121)]
    assert sets.dropped == 1  # the first of a


def test_the_spread_of_all_counts_not_only_that_to_the_last_image() -> None:
    """a and c are 30 apart, each within 20 of b."""
    sets = CameraSets(["a", "b", "c"], 20)

    assert play(sets, ("a", 100), ("c", 130), ("b", 115)) == []
    assert play(sets, ("a", 125)) == [(125, 115, 130)]


def test_the_closest_images_are_taken() -> None:
    sets = CameraSets(["a", "b"], 20)

    assert play(sets, ("a", 100), ("a", 108), ("a", 118), ("b", 109)) == [(108, 109)]
    assert sets.dropped == 1  # 100 came before; 118 may still find a partner
    assert play(sets, ("b", 119)) == [(118, 119)]


def test_a_missing_image_costs_its_set_only() -> None:
    sets = CameraSets(["a", "b"], 5)

    assert play(sets, ("a", 0), ("b", 0), ("a", 100), ("a", 200), ("b", 200)) == [(0, 0), (200, 200)]
    assert sets.dropped == 1


def test_a_camera_that_never_comes_lets_nothing_pile_up() -> None:
    sets = CameraSets(["a", "b"], 5)

    assert play(sets, *[("a", 10 * number) for number in range(WAITING + 3)]) == []
    assert sets.dropped == 3
    assert sets.since_last == {"a": WAITING + 3, "b": 0}
    assert play(sets, ("b", 10 * (WAITING + 2))) == [(10 * (WAITING + 2),) * 2]
    assert sets.since_last == {"a": 0, "b": 0}


def test_fewer_wait_where_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_BYTES", 60)
    sets = CameraSets(["a", "b"], 5)
    for number in range(20):
        msg = Image(data=bytes(10))
        msg.header.stamp = to_stamp(10 * number)
        sets.add("a", msg)
    assert sets.dropped == 20 - 6


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    sets = CameraSets(["a", "b"], 5)

    assert play(sets, ("a", 900), ("b", 900), ("a", 950), ("a", 10), ("b", 10)) == [(900, 900), (10, 10)]
    assert sets.dropped == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=40))
def test_every_image_is_in_one_set_or_dropped_or_waits(images: list[tuple[str, int]]) -> None:
    sets, used = CameraSets("abc", 7), []
    for name, time in images:
        found = sets.add(name, image(time))
        if found is not None:
            used += found
            times = stamps(found)
            assert times is not None and max(times) - min(times) <= 7
    waiting = sum(len(row) for row in sets._waiting.values())
    assert len(used) + sets.dropped + waiting == len(images)
