"""Variances drawn towards the fleet's: by hand, limits, and the sampling noise that is left."""

import numpy as np
import pytest

from fed_core.similarity import jeffreys, moderation
from fed_core.similarity.gaussian import Gaussians


def group(variance: list[list[float]], num_frames: list[int]) -> Gaussians:
    rows = np.array(variance, np.float64)
    return Gaussians(np.zeros_like(rows), rows, np.array(num_frames, np.int64))


def test_the_common_variance_weighs_robots_by_frames_less_one() -> None:
    common = moderation.mean_variance(group([[1.0, 2.0], [4.0, 2.0]], [2, 3]))

    np.testing.assert_allclose(common, [(1.0 + 2 * 4.0) / 3, 2.0])


def test_a_dead_channel_gets_a_small_variance() -> None:
    common = moderation.mean_variance(group([[0.0, 3.0, 3.0]], [5]))

    np.testing.assert_allclose(common, [3e-4, 3.0, 3.0])


def test_a_variance_is_drawn_by_the_weight_of_the_fleet() -> None:
    out = moderation.moderate(group([[0.0], [6.0]], [5, 5]), np.array([3.0]), weight=4.0)

    # Four frames' worth of 3 and four degrees of freedom of its own.
    np.testing.assert_allclose(out.variance, [[1.5], [4.5]])


def test_many_frames_keep_their_own_variance_and_a_large_weight_gives_all_the_same() -> None:
    own = group([[0.5], [6.0]], [100_001, 3])

    np.testing.assert_allclose(moderation.moderate(own, np.array([3.0]), 1.0).variance[0], [0.5], rtol=1e-3)
    np.testing.assert_allclose(moderation.moderate(own, np.array([3.0]), 1e12).variance, [[3.0], [3.0]], rtol=1e-5)


@pytest.mark.parametrize(("first", "second"), [(64, 64), (128, 70), (64, 256)])
@pytest.mark.parametrize("weight", [1e-9, 20.0, 200.0])
def test_the_noise_floor_holds_on_equal_gaussians(first: int, second: int, weight: float) -> None:
    rng, features = np.random.default_rng(first + second), 4000
    samples = [rng.normal(size=(n, features)) for n in (first, second)]
    means = np.stack([rows.mean(axis=0) for rows in samples])
    variances = np.stack([rows.var(axis=0, ddof=1) for rows in samples])
    counts = np.array([first, second], np.int64)
    settled = moderation.moderate(Gaussians(means, variances, counts), np.ones(features), weight)

    measured = jeffreys.pairwise(settled.mean, settled.variance)[0, 1] / features

    assert measured == pytest.approx(moderation.noise_floor(counts, counts, weight)[0, 1], rel=0.15)


def test_without_weight_the_noise_floor_is_the_plain_one() -> None:
    counts = np.array([5, 30], np.int64)

    np.testing.assert_allclose(moderation.noise_floor(counts, counts, 0.0), jeffreys.noise_floor(counts, counts))
