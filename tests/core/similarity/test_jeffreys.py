"""Conformance of fedepth spec 3.1 to 3.3, acceptance tests 1 and 2 of section 15."""

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fed_core.errors import DataError
from fed_core.similarity import jeffreys as jf
from fed_core.similarity.gaussian import Gaussians

means = hnp.arrays(np.float64, (5, 3), elements=st.floats(-100, 100))
variances = hnp.arrays(np.float64, (5, 3), elements=st.floats(1e-6, 1e4))


def kl(m1: np.ndarray, v1: np.ndarray, m2: np.ndarray, v2: np.ndarray) -> float:
    return float(0.5 * np.sum(np.log(v2 / v1) + (v1 + (m1 - m2) ** 2) / v2 - 1.0))


def gaussians(rng: np.random.Generator, num_robots: int, num_features: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(num_robots, num_features)), rng.uniform(0.2, 5.0, (num_robots, num_features))


def test_vector_of_the_spec() -> None:
    assert jf.jeffreys(np.array([0.0, 1.0]), np.array([1.0, 4.0]), np.array([2.0, 1.0]), np.array([1.0, 1.0])) == 5.125


def test_equals_the_sum_of_both_kl() -> None:
    mean, variance = gaussians(np.random.default_rng(1), 37, 19)  # more than two blocks, the last one short
    out = jf.pairwise(mean, variance)
    for i in range(37):
        for j in range(37):
            expected = 0.0 if i == j else kl(mean[i], variance[i], mean[j], variance[j])
            expected += 0.0 if i == j else kl(mean[j], variance[j], mean[i], variance[i])
            assert out[i, j] == pytest.approx(expected, rel=1e-9)


def test_near_equal_gaussians_keep_their_digits() -> None:
    step = 1e-9
    value = jf.jeffreys(np.array([1e6]), np.array([1.0]), np.array([1e6]), np.array([1.0 + step]))
    exact = 0.5 * ((1.0 + step) - 1.0) ** 2 / (1.0 + step)
    assert value == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("share", [1.0, 1e-2, 1e-4, 1e-8])
def test_large_groups_keep_their_digits_however_alike_they_are(share: float) -> None:
    rng = np.random.default_rng(7)
    mean = 50.0 + share * rng.normal(size=(300, 40))  # two blocks of rows; most of a mean is shared
    variance = 3.0 + share * rng.uniform(size=(300, 40))
    found, whole = jf.pairwise(mean, variance), jf.between(mean, variance, mean, variance)
    for i, j in [(0, 1), (3, 299), (255, 256), (280, 12)]:
        shift, spread = (mean[i] - mean[j]) ** 2, (variance[i] - variance[j]) ** 2
        top = spread + shift * (variance[i] + variance[j])
        expected = 0.5 * float(np.sum(top / (variance[i] * variance[j])))
        assert found[i, j] == pytest.approx(expected, rel=1e-10)
        assert whole[i, j] == pytest.approx(expected, rel=1e-10)


@given(means, variances)
def test_is_symmetric_and_not_negative_and_zero_on_itself(mean: np.ndarray, variance: np.ndarray) -> None:
    out = jf.pairwise(mean, variance)
    assert (out >= 0).all() and np.isfinite(out).all()
    np.testing.assert_array_equal(out, out.T)
    np.testing.assert_array_equal(np.diag(out), 0)
    np.testing.assert_allclose(jf.between(mean, variance, mean, variance), out, rtol=1e-12)


@given(means, variances, st.permutations(range(5)))
def test_robots_may_come_in_any_order(mean: np.ndarray, variance: np.ndarray, order: list[int]) -> None:
    moved = jf.pairwise(mean[order], variance[order])
    np.testing.assert_allclose(moved, jf.pairwise(mean, variance)[np.ix_(order, order)], rtol=1e-12)


def test_zero_variances_stay_finite_through_the_floor() -> None:
    variance = np.array([[0.0, 2.0], [0.0, 4.0], [1e-30, 6.0]])
    floor = jf.variance_floor(variance)
    # channel 0: median 0, so 1e-4 of the overall median (1) counts; channel 1: 1e-3 of its median 4
    np.testing.assert_allclose(floor, [1e-4, 4e-3])
    group = Gaussians(np.zeros((3, 2)), variance, np.array([10, 10, 10]))
    assert np.isfinite(jf.affinity(group, floor)).all()
    np.testing.assert_array_equal(jf.variance_floor(np.zeros((3, 2))), 1e-8)


def test_zero_variance_without_a_floor_is_an_error() -> None:
    with pytest.raises(DataError, match="every variance must be above 0; apply the variance floor first"):
        jf.pairwise(np.zeros((2, 1)), np.array([[1.0], [0.0]]))


def test_scales_differ_by_the_number_of_features() -> None:
    mean, variance = gaussians(np.random.default_rng(2), 4, 6)
    group, floor = Gaussians(mean, variance, np.full(4, 20)), np.full(6, 1e-8)
    per_feature = jf.affinity(group, floor)
    np.testing.assert_allclose(jf.affinity(group, floor, scale="sum"), 6 * per_feature)
    corrected = jf.affinity(group, floor, noise_correction=True)
    np.testing.assert_allclose(jf.affinity(group, floor, scale="sum", noise_correction=True), 6 * corrected)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(corrected[off], np.maximum(per_feature - 0.2, 0)[off])
    with pytest.raises(DataError, match="affinity scale is 'median'; choose mean or sum"):
        jf.affinity(group, floor, scale="median")


@pytest.mark.parametrize(("n1", "n2"), [(64, 64), (100, 100), (256, 64), (256, 256)])
def test_noise_floor_of_equal_gaussians(n1: int, n2: int) -> None:
    rng = np.random.default_rng(3)
    num_features = 4000
    first, second = rng.normal(size=(n1, num_features)), rng.normal(size=(n2, num_features))
    sample = Gaussians(
        np.stack([first.mean(0), second.mean(0)]),
        np.stack([first.var(0, ddof=1), second.var(0, ddof=1)]),
        np.array([n1, n2]),
    )
    floor = jf.variance_floor(sample.variance)
    expected = 2 * (1 / n1 + 1 / n2)
    assert jf.noise_floor(sample.num_frames, sample.num_frames)[0, 1] == pytest.approx(expected)
    measured = jf.affinity(sample, floor)[0, 1]
    assert measured == pytest.approx(expected, rel=0.15)
    assert jf.affinity(sample, floor, noise_correction=True)[0, 1] <= 0.15 * expected


def test_distances_reuse_the_floor_and_match_the_affinity() -> None:
    mean, variance = gaussians(np.random.default_rng(4), 5, 3)
    variance[:, 1] = 0.0
    group = Gaussians(mean, variance, np.array([10, 20, 30, 40, 50]))
    floor = jf.variance_floor(variance)
    for correction in (False, True):
        whole = jf.affinity(group, floor, noise_correction=correction)
        row = jf.distances(group.take([2]), group, floor, noise_correction=correction)[0]
        np.testing.assert_allclose(np.delete(row, 2), np.delete(whole[2], 2), rtol=1e-12)


def test_top_share_of_one_strong_channel() -> None:
    mean, variance = np.zeros((3, 100)), np.ones((3, 100))
    mean[:, 7] = [0.0, 1.0, 2.0]  # J: 1 + 1 + 4 in channel 7
    mean[:, 8] = [0.0, 0.0, 1.0]  # J: 0 + 1 + 1 in channel 8
    group = Gaussians(mean, variance, np.full(3, 10))
    assert jf.top_share(group, np.full(100, 1e-8)) == pytest.approx(6 / 8)
    same = Gaussians(np.zeros((3, 100)), variance, np.full(3, 10))
    assert jf.top_share(same, np.full(100, 1e-8)) == 0.0


def test_top_share_agrees_with_the_pairs() -> None:
    mean, variance = gaussians(np.random.default_rng(5), 6, 150)
    group, floor = Gaussians(mean, variance, np.full(6, 10)), np.full(150, 1e-8)
    by_channel = np.array([jf.pairwise(mean[:, [d]], variance[:, [d]]).sum() for d in range(150)])
    expected = np.sort(by_channel)[-2:].sum() / by_channel.sum()
    assert jf.top_share(group, floor) == pytest.approx(expected)


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match=r"means \(2, 1\) and variances \(3, 1\) must both be \(R, D\)"):
        jf.pairwise(np.zeros((2, 1)), np.ones((3, 1)))


@pytest.mark.slow
def test_a_thousand_robots_take_seconds_and_little_memory() -> None:
    mean, variance = gaussians(np.random.default_rng(6), 1000, 2048)
    tracemalloc.start()
    begin = time.process_time()
    jf.pairwise(mean, variance)
    seconds = time.process_time() - begin
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert seconds < 15.0  # 3 s on an idle core
