"""Conformance of fedepth spec 4.3 and 5.1, acceptance test 4 of section 15, and the life of a membership."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fed_core.clustering import hard, mixing, soft, threshold
from fed_core.errors import StrategyError

POSITIONS = np.array([0.0, 1.0, 2.0, 5.0, 6.0])
TOY = (POSITIONS[:, None] - POSITIONS) ** 2

affinities = st.integers(2, 8).flatmap(
    lambda n: hnp.arrays(np.float64, (n,), elements=st.floats(0, 10)).map(lambda x: (x[:, None] - x) ** 2)
)


def groups(members: np.ndarray) -> list[set[int]]:
    return [set(np.flatnonzero(row).tolist()) for row in members]


def of(*sets: str) -> list[set[int]]:
    return [{int(c) for c in text} for text in sets]


@pytest.mark.parametrize(
    ("tau", "identical", "contained", "cliques", "partition"),
    [
        (1.0, of("012", "01", "12", "34"), of("012", "34"), of("01", "12", "34"), of("01", "34", "2")),
        (4.0, of("012", "34"), of("012", "34"), of("012", "34"), of("012", "34")),
        (9.0, of("0123", "012", "234", "34"), of("0123", "234"), of("012", "23", "34"), of("012", "34")),
    ],
)
def test_vectors_of_the_spec(
    tau: float, identical: list[set[int]], contained: list[set[int]], cliques: list[set[int]], partition: list[set[int]]
) -> None:
    assert groups(soft.by_rows(TOY, tau, "identical")) == identical
    assert groups(soft.by_rows(TOY, tau)) == contained
    assert groups(soft.by_cliques(TOY, tau)) == cliques
    assert groups(hard.by_agglomeration(TOY, tau, "average")) == partition
    assert groups(hard.by_agglomeration(TOY, tau, "complete")) == partition


def test_extremes_are_fedavg_and_local() -> None:
    for members in (soft.by_rows(TOY, TOY.max()), soft.by_cliques(TOY, TOY.max()), hard.by_agglomeration(TOY, 36.0)):
        assert groups(members) == of("01234")
    for members in (soft.by_rows(TOY, 0.5), soft.by_cliques(TOY, 0.5), hard.by_agglomeration(TOY, 0.5)):
        assert groups(members) == of("0", "1", "2", "3", "4")


def test_separated_blocks_make_all_readings_equal() -> None:
    x = np.array([0.0, 10.0, 0.5, 10.2, 10.4, 1.0])
    blocks = (x[:, None] - x) ** 2
    expected = of("025", "134")
    assert groups(soft.by_rows(blocks, 2.0)) == groups(soft.by_rows(blocks, 2.0, "identical")) == expected
    assert groups(soft.by_cliques(blocks, 2.0)) == groups(hard.by_agglomeration(blocks, 2.0)) == expected


@given(affinities, st.floats(0, 100), st.randoms())
def test_order_of_robots_permutes_columns_only(affinity: np.ndarray, tau: float, random: object) -> None:
    order = list(range(len(affinity)))
    random.shuffle(order)  # type: ignore[attr-defined]
    moved = affinity[np.ix_(order, order)]
    for make in (soft.by_rows, lambda a, t: soft.by_rows(a, t, "identical"), soft.by_cliques):
        expected = {frozenset(order.index(i) for i in g) for g in groups(make(affinity, tau))}
        assert {frozenset(g) for g in groups(make(moved, tau))} == expected


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 30), st.permutations(range(7)))
def test_order_of_robots_permutes_columns_of_a_partition(seed: int, tau: float, order: list[int]) -> None:
    x = np.random.default_rng(seed).uniform(0, 10, 7)  # no ties, which agglomeration breaks by order
    affinity = (x[:, None] - x) ** 2
    for linkage in hard.LINKAGES:
        whole = {frozenset(g) for g in groups(hard.by_agglomeration(affinity, tau, linkage))}
        moved = groups(hard.by_agglomeration(affinity[np.ix_(order, order)], tau, linkage))
        assert {frozenset(order[i] for i in g) for g in moved} == whole


@given(affinities, st.floats(0, 100), st.data())
def test_every_robot_is_in_a_cluster_and_rows_of_b_sum_to_one(
    affinity: np.ndarray, tau: float, data: st.DataObject
) -> None:
    samples = np.array(data.draw(st.lists(st.integers(1, 1000), min_size=len(affinity), max_size=len(affinity))))
    for members in (soft.by_rows(affinity, tau), soft.by_cliques(affinity, tau), hard.by_agglomeration(affinity, tau)):
        soft.validate(members, len(affinity))
        mix = mixing.mixing_matrix(members, samples)
        assert (mix >= 0).all()
        np.testing.assert_allclose(mix.sum(axis=1), 1.0)
        pi = mixing.stationary_weights(members, samples)
        np.testing.assert_allclose(pi @ mix, pi, atol=1e-9)
        assert pi.sum() == pytest.approx(1.0)
        assert -1e-9 <= mixing.second_eigenvalue(members, samples) <= 1.0 + 1e-9


@given(affinities, st.floats(0, 100))
def test_contained_rows_cover_each_other_never(affinity: np.ndarray, tau: float) -> None:
    found = groups(soft.by_rows(affinity, tau))
    assert not any(a <= b for i, a in enumerate(found) for j, b in enumerate(found) if i != j)
    sizes = [len(g) for g in found]
    assert sizes == sorted(sizes, reverse=True)


@given(affinities, st.floats(0, 100))
def test_clique_members_are_all_near_each_other(affinity: np.ndarray, tau: float) -> None:
    for group in groups(soft.by_cliques(affinity, tau)):
        index = sorted(group)
        assert affinity[np.ix_(index, index)].max() <= tau


def test_mixing_matrix_of_the_spec() -> None:
    members = soft.by_rows(TOY, 9.0)
    even = np.full(5, 7)
    mix = mixing.mixing_matrix(members, even)
    expected = [
        [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0],
        [1 / 4, 1 / 4, 1 / 4, 1 / 4, 0],
        [1 / 8, 1 / 8, 7 / 24, 7 / 24, 1 / 6],
        [1 / 8, 1 / 8, 7 / 24, 7 / 24, 1 / 6],
        [0, 0, 1 / 3, 1 / 3, 1 / 3],
    ]
    np.testing.assert_allclose(mix, expected, atol=1e-15)
    np.testing.assert_allclose(mixing.stationary_weights(members, even), np.array([1, 1, 2, 2, 1]) / 7)
    assert mixing.second_eigenvalue(members, even) == pytest.approx(0.4167, abs=1e-4)
    np.testing.assert_allclose(np.sort(np.abs(np.linalg.eigvals(mix)))[-2], 5 / 12)


def test_separated_clusters_never_mix() -> None:
    members = soft.from_groups([[0, 1], [2]], 3)
    samples = np.array([1, 3, 4])
    assert mixing.second_eigenvalue(members, samples) == pytest.approx(1.0)
    np.testing.assert_allclose(mixing.stationary_weights(members, samples), [1 / 8, 3 / 8, 4 / 8])


def test_absent_robots_do_not_count() -> None:
    members = soft.by_rows(TOY, 9.0)  # {0,1,2,3}, {2,3,4}
    np.testing.assert_allclose(
        mixing.cluster_shares(members, np.array([0, 30, 10, 0, 0])), [[0, 0.75, 0.25, 0, 0], [0, 0, 1, 0, 0]]
    )
    np.testing.assert_array_equal(mixing.cluster_shares(members, np.array([1, 0, 0, 0, 0]))[1], 0)


def test_threshold_by_quantile() -> None:
    affinity = np.array([[0, 1, 2], [1, 0, 4], [2, 4, 0.0]])
    assert threshold.by_quantile(affinity, 0.0) == 1.0
    assert threshold.by_quantile(affinity, 0.5) == 2.0
    assert threshold.by_quantile(affinity, 0.75) == 3.0
    assert threshold.by_quantile(np.zeros((1, 1)), 0.2) == 0.0
    with pytest.raises(StrategyError, match="tau_quantile is 1.5; it must lie between 0 and 1"):
        threshold.by_quantile(affinity, 1.5)


def test_threshold_by_largest_gap_splits_two_domains() -> None:
    assert threshold.by_largest_gap(TOY) == 30.5  # between 25 and 36
    x = np.array([0.0, 1.0, 20.0, 21.0])
    tau = threshold.by_largest_gap((x[:, None] - x) ** 2)
    assert tau == pytest.approx((1 + 19**2) / 2)
    assert groups(soft.by_rows((x[:, None] - x) ** 2, tau)) == of("01", "23")
    assert threshold.by_largest_gap(np.array([[0, 3], [3, 0.0]])) == 3.0
    assert threshold.by_largest_gap(np.zeros((1, 1))) == 0.0


def test_too_many_cliques_stop_with_advice() -> None:
    pairs = np.full((12, 12), 1.0)  # every robot is far from one partner only: 2^6 maximal cliques
    for i in range(0, 12, 2):
        pairs[i, i + 1] = pairs[i + 1, i] = 9.0
    np.fill_diagonal(pairs, 0.0)
    assert len(soft.by_cliques(pairs, 1.0, max_clusters=64)) == 64
    with pytest.raises(StrategyError, match="more than 48 maximal cliques at tau = 1; raise max_clusters"):
        soft.by_cliques(pairs, 1.0)


def test_small_clusters_join_their_nearest() -> None:
    x = np.array([0.0, 1.0, 4.0, 20.0, 21.0])
    affinity = (x[:, None] - x) ** 2
    members = soft.by_rows(affinity, 2.0)
    assert groups(members) == of("01", "34", "2")
    assert groups(soft.attach_small(members, affinity, 2)) == of("012", "34")
    assert groups(soft.attach_small(members, affinity, 1)) == groups(members)
    assert groups(soft.attach_small(np.eye(5, dtype=bool), affinity, 2)) == of("012", "34")
    assert groups(soft.attach_small(np.eye(5, dtype=bool), affinity, 9)) == of("01234")


def test_a_robot_of_a_small_cluster_with_another_home_is_not_moved() -> None:
    affinity = TOY
    members = soft.from_groups([[0, 1, 2], [2], [3, 4]], 5)
    assert groups(soft.attach_small(members, affinity, 2)) == of("012", "34")


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (np.ones((2, 3), bool), r"memberships have shape \(2, 3\); expected \(clusters, 2\)"),
        (np.zeros((0, 2), bool), r"memberships have shape \(0, 2\)"),
        (np.array([[True, True], [False, False]]), "cluster 1 has no member; remove it"),
        (np.array([[True, False]]), "robot 1 is in no cluster; give it at least one"),
        (np.array([[True, True], [True, True]]), "two clusters have the same members"),
    ],
)
def test_broken_memberships_are_refused(members: np.ndarray, text: str) -> None:
    with pytest.raises(StrategyError, match=text):
        soft.validate(members, 2)


def test_survivors_drop_empty_equal_and_contained_rows() -> None:
    members = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 1, 0], [0, 1, 0]], bool)
    assert soft.survivors(members) == [0, 2]
    assert soft.survivors(members, "identical") == [0, 2, 4]


def test_sequence_chooses_all_near_clusters() -> None:
    """Spec 6: the sequence stands at 2.2."""
    away = (POSITIONS - 2.2) ** 2
    wide = soft.linkage(away, soft.by_rows(TOY, 9.0))
    np.testing.assert_allclose(wide, [3.54, 7.44])
    assert soft.nearest(wide, 9.0) == ((0, 1), False)
    tight = soft.linkage(away, soft.by_rows(TOY, 1.0))
    np.testing.assert_allclose(tight, [2.10667, 11.14], rtol=1e-4)
    assert soft.nearest(tight, 1.0) == ((0,), True)


def test_ties_go_to_the_first_cluster() -> None:
    assert soft.nearest(np.array([5.0, 2.0, 2.0]), 1.0) == ((1,), True)


def test_links() -> None:
    members = soft.from_groups([[0, 1, 2]], 3)
    away = np.array([1.0, 2.0, 6.0])
    assert [soft.linkage(away, members, link)[0] for link in ("mean", "min", "max")] == [3.0, 1.0, 6.0]
    with pytest.raises(StrategyError, match="link is 'median'; choose mean, min or max"):
        soft.linkage(away, members, "median")


def test_wrong_switches_are_named() -> None:
    with pytest.raises(StrategyError, match="dedup is 'none'; choose contained or identical"):
        soft.by_rows(TOY, 1.0, "none")
    with pytest.raises(StrategyError, match="linkage is 'ward'; choose one of average, complete"):
        hard.by_agglomeration(TOY, 1.0, "ward")
    assert groups(hard.by_agglomeration(np.zeros((1, 1)), 1.0)) == of("0")
