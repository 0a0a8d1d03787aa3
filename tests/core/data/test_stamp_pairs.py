"""Which messages of two streams belong together, and what happens to the others."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.stamp_pairs import FIRST, SECOND, StampPairs

#: The streams of the tests, by the first letter of a message's name.
STREAMS = {"c": FIRST, "d": SECOND}


def play(pairs: StampPairs, *messages: tuple[str, int], most: int = 30) -> list[tuple[int, int]]:
    """Return the pairs that a row of messages gives, by their times."""
    found: list[tuple[Any, Any]] = []
    for stream, time_ns in messages:
        pairs.add(STREAMS[stream], time_ns, time_ns, most)
        found += pairs.take()
    return found


def test_equal_times_are_a_pair_at_once() -> None:
    pairs = StampPairs(0)
    assert play(pairs, ("d", 5), ("c", 5), ("c", 6), ("d", 6)) == [(5, 5), (6, 6)]
    assert len(pairs) == 0 and pairs.unpaired == [0, 0]


def test_a_pair_waits_until_nothing_nearer_can_come() -> None:
    """A camera of 30 Hz and a LiDAR of 10 Hz: the image of 66 is within the slop, that of 99 is nearer."""
    pairs = StampPairs(50)
    assert play(pairs, ("c", 0), ("c", 33), ("c", 66), ("d", 100)) == []
    assert play(pairs, ("c", 99)) == []  # one of 101 might come
    assert play(pairs, ("c", 132)) == [(99, 100)]
    assert pairs.unpaired == [3, 0]
    assert len(pairs) == 1  # 132 waits for a cloud


def test_the_later_one_of_a_pair_waits_for_nobody() -> None:
    """The depth of 12 came after 10, and the next depth is later still."""
    pairs = StampPairs(5)
    assert play(pairs, ("c", 10), ("d", 12), ("d", 22)) == []
    assert play(pairs, ("c", 20)) == [(10, 12)]


def test_further_apart_than_the_slop_is_no_pair() -> None:
    pairs = StampPairs(5)
    assert play(pairs, ("c", 10), ("d", 16), ("c", 30), ("d", 36), ("c", 51), ("d", 56)) == []
    assert play(pairs, ("c", 70)) == [(51, 56)]  # just inside
    assert pairs.unpaired == [2, 2]


def test_what_is_past_does_not_wait() -> None:
    pairs = StampPairs(5)
    assert play(pairs, ("c", 10), ("c", 20), ("c", 30), ("d", 36)) == []
    assert (len(pairs), pairs.unpaired) == (1, [3, 0])


def test_a_stream_that_never_comes_lets_nothing_pile_up() -> None:
    pairs = StampPairs(5)
    assert play(pairs, *[("c", 10 * number) for number in range(7)], most=4) == []
    assert (len(pairs), pairs.unpaired) == (4, [3, 0])
    assert play(pairs, ("d", 60)) == [(60, 60)]


def test_the_same_time_again_replaces_what_waits() -> None:
    pairs = StampPairs(5)
    pairs.add(FIRST, 7, "old")
    pairs.add(FIRST, 7, "new")
    pairs.add(SECOND, 7, "depth")
    assert pairs.take() == [("new", "depth")]
    assert pairs.unpaired == [1, 0]


def test_a_replay_that_begins_again_gives_the_same_pairs() -> None:
    pairs = StampPairs(5)
    lap = [("c", 100), ("d", 101), ("c", 110), ("d", 111), ("c", 120)]
    assert play(pairs, *lap) == [(100, 101), (110, 111)]
    # The image of 120 waits for a depth of the end of the lap, which never comes.
    assert play(pairs, *lap) == [(100, 101), (110, 111)]
    assert pairs.unpaired == [1, 0]


def test_the_stream_that_steps_back_first_loses_nothing() -> None:
    pairs = StampPairs(5)
    assert play(pairs, ("c", 900), ("d", 900), ("d", 950), ("c", 10)) == [(900, 900)]
    assert pairs.unpaired == [0, 1]
    assert play(pairs, ("d", 10)) == [(10, 10)]


def test_two_cameras_on_one_topic_cost_no_pair() -> None:
    """Their times step back and forth by 5."""
    pairs = StampPairs(20)
    messages = [("c", 100), ("d", 100), ("c", 95), ("c", 133), ("d", 133), ("c", 128), ("c", 166), ("d", 166)]
    assert play(pairs, *messages) == [(100, 100), (133, 133), (166, 166)]
    assert pairs.unpaired == [2, 0]


def streams(slop: int) -> Any:
    """Return rows of messages whose times grow within each stream."""
    message = st.tuples(st.sampled_from("cd"), st.integers(1, 2 * slop))
    return st.lists(message, max_size=40).map(grown)


def grown(steps: list[tuple[str, int]]) -> list[tuple[str, int]]:
    times = {"c": 0, "d": 0}
    found = []
    for stream, step in steps:
        times[stream] += step
        found.append((stream, times[stream]))
    return found


@given(st.lists(st.tuples(st.sampled_from("cd"), st.integers(0, 60)), max_size=40))
def test_every_message_is_used_once_or_counted_or_waits(messages: list[tuple[str, int]]) -> None:
    pairs = StampPairs(7)
    found = play(pairs, *messages, most=5)
    assert all(abs(one - other) <= 7 for one, other in found)
    assert 2 * len(found) + sum(pairs.unpaired) + len(pairs) == len(messages)
    assert len(pairs) <= 10


@given(streams(8))
def test_messages_that_are_nearest_to_each_other_are_a_pair_however_the_streams_lag(
    messages: list[tuple[str, int]],
) -> None:
    pairs = StampPairs(8)
    colour = [time for stream, time in messages if stream == "c"]
    depth = [time for stream, time in messages if stream == "d"]
    end = max(colour + depth, default=0) + 1000
    found = play(pairs, *messages, ("c", end), ("d", end), most=100)

    for one in colour:
        for other in depth:
            gap = abs(one - other)
            rivals = [abs(one - time) for time in depth if time != other]
            rivals += [abs(other - time) for time in colour if time != one]
            if gap <= 8 and all(gap < rival for rival in rivals):
                assert (one, other) in found
    assert found == sorted(found)
