from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.nuscenes.resampling import class_balanced
from fed_core.types import DETECTION_CLASSES

FRAMES = st.lists(st.frozensets(st.integers(0, len(DETECTION_CLASSES) - 1)), max_size=40)


def test_every_class_gives_a_tenth_of_all_mentions() -> None:
    """30 frames with cars, 8 of them also with a bus, 2 others with cones only: S = 40, so 4 draws per class."""
    frames = [frozenset({0, 3})] * 8 + [frozenset({0})] * 22 + [frozenset({9})] * 2
    drawn = class_balanced(frames, np.random.default_rng(0))
    assert len(drawn) == 3 * 4
    assert all(0 in frames[index] for index in drawn[:4])
    assert all(3 in frames[index] for index in drawn[4:8])
    assert all(frames[index] == {9} for index in drawn[8:])


def test_ratio_of_a_rare_class_is_exact() -> None:
    """n_c (0.1 / (n_c / S)) is 2.9999... in floating point for some n_c; S / 10 = 3 is what is meant."""
    for rare in range(1, 15):
        frames = [frozenset({0})] * (30 - rare) + [frozenset({1})] * rare
        assert len(class_balanced(frames, np.random.default_rng(0))) == 6, rare


def test_rare_frames_come_as_often_as_frequent_ones() -> None:
    frames = [frozenset({0})] * 990 + [frozenset({6})] * 10
    count = Counter(6 in frames[index] for index in class_balanced(frames, np.random.default_rng(1)))
    assert count == {True: 100, False: 100}


def test_few_frames_give_at_least_one_of_each_class() -> None:
    assert class_balanced([frozenset({4}), frozenset({2})], np.random.default_rng(0)) == [1, 0]


def test_without_any_class_every_frame_comes_once() -> None:
    assert class_balanced([frozenset(), frozenset()], np.random.default_rng(0)) == [0, 1]
    assert class_balanced([], np.random.default_rng(0)) == []


def test_draw_hangs_on_run_robot_and_round() -> None:
    frames = [frozenset({index % 10}) for index in range(200)]
    draws = [class_balanced(frames, np.random.default_rng(words)) for words in ([0, 1, 1], [0, 1, 1], [0, 1, 2])]
    assert draws[0] == draws[1] != draws[2]


@given(frames=FRAMES, seed=st.integers(0, 99))
def test_draws(frames: list[frozenset[int]], seed: int) -> None:
    drawn = class_balanced(frames, np.random.default_rng(seed))
    present = frozenset().union(*frames)
    total = sum(map(len, frames))
    if not present:
        assert drawn == list(range(len(frames)))
        return
    assert len(drawn) == len(present) * max(1, total // 10)
    assert all(0 <= index < len(frames) and frames[index] for index in drawn)
    assert present <= frozenset().union(*(frames[index] for index in drawn))
