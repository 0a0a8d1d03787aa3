import numpy as np
import pytest

from fed_core.errors import DataError
from fed_core.similarity.gem import gem


def test_p_1_is_the_mean_of_the_clamped_map() -> None:
    features = np.array([[[1.0, -3.0], [2.0, 5.0]]], np.float32)  # -3 is clamped to eps
    np.testing.assert_allclose(gem(features, p=1.0), [8.0 / 4], rtol=1e-6)


def test_large_p_is_the_maximum() -> None:
    features = np.random.default_rng(0).uniform(0.1, 60.0, (3, 5, 7))
    np.testing.assert_allclose(gem(features, p=500.0), features.max(axis=(1, 2)), rtol=0.01)


def test_constant_map_stays_the_constant() -> None:
    np.testing.assert_allclose(gem(np.full((4, 3, 3), 0.7)), np.full(4, 0.7), rtol=1e-6)


def test_dead_channel_is_eps() -> None:
    np.testing.assert_allclose(gem(np.full((1, 2, 2), -1.0)), [1e-6], rtol=1e-6)


def test_default_is_the_cube_and_takes_batches() -> None:
    features = np.arange(1.0, 9.0, dtype=np.float32).reshape(2, 1, 2, 2)
    expected = [[np.mean(np.arange(1.0, 5.0) ** 3) ** (1 / 3)], [np.mean(np.arange(5.0, 9.0) ** 3) ** (1 / 3)]]
    pooled = gem(features)
    assert pooled.dtype == np.float32
    np.testing.assert_allclose(pooled, expected, rtol=1e-6)


def test_half_precision_does_not_overflow() -> None:
    np.testing.assert_allclose(gem(np.full((1, 2, 2), 6e4, np.float16)), [6e4], rtol=1e-3)


def test_wrong_shape_is_named() -> None:
    with pytest.raises(DataError, match=r"needs features of shape \(..., C, H, W\), got \(3, 4\)"):
        gem(np.ones((3, 4)))


def test_wrong_exponent_is_named() -> None:
    with pytest.raises(DataError, match="needs p > 0 and eps > 0, got p = 0"):
        gem(np.ones((3, 4, 4)), p=0)
