"""Median, trimmed mean, Krum and Bulyan by hand, and what must hold for any values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fed_core.strategies.averaging import Combine, Floats
from fed_core.strategies.robust_rules import NearTheMedian, TrimmedMean, bulyan, krum, krum_scores, median

ONE_ATTACKER: list[Combine] = [median, TrimmedMean(1), NearTheMedian(1)]
VALUES = st.floats(-1e300, 1e300)
HONEST = arrays(np.float64, st.tuples(st.integers(3, 6), st.integers(1, 4)), elements=st.floats(-1e6, 1e6))


def column(*values: float) -> Floats:
    """Return (R, 1) values of one entry."""
    return np.array(values, np.float64)[:, None]


def everyone(block: Floats) -> Floats:
    return np.ones((1, len(block)))


def apart(*points: float) -> Floats:
    """Return the squared distances of points on a line."""
    return np.asarray(np.square(np.subtract.outer(points, points)))


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (median, (5.0, 1.0, 9.0), 5.0),
        (median, (5.0, 1.0, 9.0, 7.0), 6.0),
        (median, (4.0,), 4.0),
        (TrimmedMean(1), (5.0, 1.0, 9.0, 7.0), 6.0),
        (TrimmedMean(1), (2.0, 100.0, 4.0, -100.0, 9.0), 5.0),
        (TrimmedMean(2), (2.0, 100.0, 4.0, -100.0, 9.0), 4.0),
        (TrimmedMean(0), (1.0, 2.0, 6.0), 3.0),
        (NearTheMedian(1), (0.0, 10.0, 11.0, 12.0, 100.0), 11.0),  # 10, 11 and 12 are nearest to 11
        (NearTheMedian(1), (0.0, 1.0, 5.0, 6.0, 9.0), 4.0),  # 5, 6 and of the two as near, 1 and 9, the smaller one
    ],
)  # fmt: skip
def test_by_hand(rule: Combine, values: tuple[float, ...], expected: float) -> None:
    block = column(*values)
    assert rule(block, everyone(block))[0, 0] == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("rule", [median, TrimmedMean(1), NearTheMedian(1)])
def test_only_members_of_a_row_count_and_all_of_them_once(rule: Combine) -> None:
    block = column(1.0, 2.0, 3.0, 1e9, -1e9)
    shares = np.array([[0.1, 0.2, 0.7, 0.0, 0.0], [0.98, 0.005, 0.005, 0.005, 0.005]])
    assert rule(block, shares)[:, 0].tolist() == [2.0, 2.0]


def test_krum_by_hand() -> None:
    """Five updates against one attacker: each score is the sum of the two smallest distances."""
    distances = apart(0.0, 1.0, 2.0, 4.0, 100.0)
    assert krum_scores(distances, 1).tolist() == [1.0 + 4.0, 1.0 + 1.0, 1.0 + 4.0, 4.0 + 9.0, 96.0**2 + 98.0**2]
    assert krum(distances, 1).tolist() == [1]
    assert krum(distances, 1, 2).tolist() == [0, 1]  # 0 and 2 score alike: the first


def test_bulyan_picks_all_but_two_for_each_attacker() -> None:
    points = apart(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1000.0)
    assert bulyan(points, 1).tolist() == [0, 1, 2, 3, 4]


def test_bulyan_picks_again_among_those_that_are_left() -> None:
    """After the middle of a tight group is gone, its neighbours still are the nearest to each other."""
    assert 6 not in bulyan(apart(-50.0, 0.0, 0.1, 0.2, 0.3, 0.4, 80.0), 1)


@given(arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 5)), elements=VALUES), st.randoms())
@settings(max_examples=200, deadline=None)
def test_no_rule_leaves_the_range_of_its_members_or_looks_at_their_order(block: Floats, draw: object) -> None:
    order = np.array(sorted(range(len(block)), key=lambda _: draw.random()))  # type: ignore[attr-defined]
    rules = ONE_ATTACKER if len(block) > 2 else [median]
    for rule in rules:
        found = rule(block, everyone(block))[0]
        assert (block.min(axis=0) <= found).all() and (found <= block.max(axis=0)).all()
        assert np.array_equal(found, rule(block[order], everyone(block))[0])


@given(HONEST, st.data())
@settings(max_examples=200, deadline=None)
def test_outliers_cannot_move_a_median_or_trimmed_mean_out_of_the_honest_range(
    honest: Floats, data: st.DataObject
) -> None:
    """With f attackers among more than 2 f."""
    attackers = data.draw(st.integers(0, len(honest) - 1))
    sent = data.draw(arrays(np.float64, (attackers, honest.shape[1]), elements=VALUES))
    block = np.concatenate([sent, honest])
    for rule in (median, TrimmedMean(attackers)):
        found = rule(block, everyone(block))[0]
        assert (honest.min(axis=0) <= found).all() and (found <= honest.max(axis=0)).all()


@given(st.integers(0, 2), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_krum_and_bulyan_choose_honest_ones_where_they_are_close(attackers: int, seed: int) -> None:
    """Attackers stand together, too, but they are fewer."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(0.0, 1.0, (3 * attackers + 3, 5))
    block = np.concatenate([rng.normal(1e3, 1e-3, (attackers, 5)), honest])
    distances = np.square(block[:, None] - block[None]).sum(axis=-1)
    assert krum(distances, attackers)[0] >= attackers
    assert (krum(distances, attackers, len(block) - attackers - 2) >= attackers).all()
    means = NearTheMedian(attackers)(block[bulyan(distances, attackers)], np.ones((1, len(block) - 2 * attackers)))
    assert (honest.min(axis=0) <= means[0]).all() and (means[0] <= honest.max(axis=0)).all()


@pytest.mark.parametrize("rule", ONE_ATTACKER)
def test_equal_values_come_back_bit_by_bit(rule: Combine) -> None:
    block = np.full((7, 3), 0.1)
    assert np.array_equal(rule(block, everyone(block))[0], block[0])


def test_updates_beyond_all_numbers_are_never_chosen() -> None:
    distances = apart(0.0, 1.0, 2.0, 3.0, 4.0)
    distances[4, :4] = distances[:4, 4] = np.inf
    assert krum(distances, 1).tolist() == [1]
