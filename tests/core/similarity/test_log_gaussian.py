"""Gaussians of logarithms: moments by hand, dead channels, what is refused."""

import math

import numpy as np
import pytest

from fed_core.errors import Refusal, RefusedError
from fed_core.similarity import descriptors, log_gaussian
from fed_core.similarity.log_gaussian import LogGaussians


def test_mean_and_variance_are_of_logarithms() -> None:
    out = log_gaussian.describe(np.array([[math.e, 0.0], [math.e**3, 1.0]]), "enc")

    # ln e = 1, ln e^3 = 3; a dead channel counts as 1e-6.
    low = math.log(1e-6)
    np.testing.assert_allclose(out.tensors["mean"], [2.0, low / 2], rtol=1e-6)
    np.testing.assert_allclose(out.tensors["variance"], [2.0, low**2 / 2], rtol=1e-6)
    assert (out.kind, out.num_frames, out.encoder) == ("log_gaussian", 2, "enc")


def test_a_common_gain_of_the_camera_moves_all_means_alike() -> None:
    rows = np.random.default_rng(0).lognormal(size=(20, 5))

    dim, bright = log_gaussian.describe(rows, "enc").tensors, log_gaussian.describe(4.0 * rows, "enc").tensors

    np.testing.assert_allclose(bright["mean"] - dim["mean"], math.log(4.0), rtol=1e-5)
    np.testing.assert_allclose(bright["variance"], dim["variance"], rtol=1e-4)


def test_it_is_found_by_its_name_and_comes_back_from_a_memory() -> None:
    out = descriptors.describe("log_gaussian", np.random.default_rng(1).random((4, 3)), "enc")
    group = descriptors.GROUPS["log_gaussian"].stack([out, out])

    again = LogGaussians.from_tensors(group.to_tensors())

    assert (group.kind, again.kind, again.num_features) == ("log_gaussian", "log_gaussian", 3)
    np.testing.assert_array_equal(again.mean, group.mean)
    descriptors.check(out, kind="log_gaussian", encoder="enc", num_features=3)


def test_plain_and_broken_descriptors_are_refused() -> None:
    plain = descriptors.describe("gaussian", np.ones((2, 3)), "enc")
    with pytest.raises(RefusedError, match="is of kind 'gaussian', this run needs 'log_gaussian'") as err:
        descriptors.check(plain, kind="log_gaussian", who="robot 'bob'")
    assert err.value.code is Refusal.WRONG_ENCODER

    wide = log_gaussian.describe(np.ones((2, 4)), "enc")
    with pytest.raises(RefusedError, match=r"robot 'bob': mean is float32 \(4,\); expected float32 \(3,\)"):
        descriptors.check(wide, kind="log_gaussian", num_features=3, who="robot 'bob'")
