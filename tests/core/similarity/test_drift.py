"""Drift of a stream: the distance of its running descriptor to that of the choice."""

import numpy as np
import pytest

from fed_core.errors import FedError
from fed_core.similarity.drift import drift
from fed_core.types import Array, Descriptor


def gaussian(mean: list[float], variance: list[float], kind: str = "gaussian", encoder: str = "e" * 64) -> Descriptor:
    tensors: dict[str, Array] = {"mean": np.array(mean, np.float32), "variance": np.array(variance, np.float32)}
    return Descriptor(kind, tensors, 8, encoder)


@pytest.mark.parametrize("kind", ["gaussian", "log_gaussian"])
def test_gaussians_drift_by_the_jeffreys_divergence_of_a_feature(kind: str) -> None:
    """J = sum of (m1 - m2)^2 (1/v1 + 1/v2) / 2 + (v1/v2 + v2/v1) / 2 - 1, here (4 * 2 / 2) + 0 and 0; by D = 2: 2."""
    chosen, recent = gaussian([0.0, 1.0], [1.0, 1.0], kind), gaussian([2.0, 1.0], [1.0, 1.0], kind)
    assert drift(chosen, chosen) == 0.0
    assert drift(chosen, recent) == drift(recent, chosen) == pytest.approx(2.0)


def test_a_descriptor_of_another_encoder_or_kind_is_refused() -> None:
    chosen = gaussian([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(FedError, match="encoder"):
        drift(chosen, gaussian([0.0, 1.0], [1.0, 1.0], encoder="f" * 64))
    with pytest.raises(FedError, match="kind"):
        drift(chosen, gaussian([0.0, 1.0], [1.0, 1.0], kind="log_gaussian"))
