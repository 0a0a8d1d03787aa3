import numpy as np
import pytest

from fed_core.errors import DataError, Refusal, RefusedError
from fed_core.similarity.gaussian import Gaussians, check, describe
from fed_core.types import Descriptor


def make(**changes: object) -> Descriptor:
    tensors = {"mean": np.zeros(3, np.float32), "variance": np.ones(3, np.float32)}
    fields = {"kind": "gaussian", "tensors": tensors, "num_frames": 5, "encoder": "enc-a", **changes}
    return Descriptor(**fields)  # type: ignore[arg-type]


def test_describe_takes_mean_and_unbiased_variance() -> None:
    out = describe(np.array([[1.0, 0.0], [3.0, 0.0], [5.0, 6.0]]), "enc")
    np.testing.assert_array_equal(out.tensors["mean"], np.array([3.0, 2.0], np.float32))
    np.testing.assert_array_equal(out.tensors["variance"], np.array([4.0, 12.0], np.float32))
    assert (out.kind, out.num_frames, out.encoder) == ("gaussian", 3, "enc")
    check(out)


@pytest.mark.parametrize("pooled", [np.ones((1, 4)), np.ones(4)])
def test_describe_needs_two_frames(pooled: np.ndarray) -> None:
    with pytest.raises(DataError, match="needs at least 2 frames of pooled features"):
        describe(pooled, "enc")


def test_describe_refuses_nan() -> None:
    with pytest.raises(DataError, match="hold NaN or Inf"):
        describe(np.array([[1.0], [np.nan]]), "enc")


def test_another_encoder_is_refused_with_its_code() -> None:
    with pytest.raises(
        RefusedError, match="descriptor of robot 'bob' is of encoder 'enc-b', the fleet uses 'enc-a'"
    ) as e:
        check(make(encoder="enc-b"), encoder="enc-a", who="robot 'bob'")
    assert e.value.code is Refusal.WRONG_ENCODER


def test_another_kind_is_refused() -> None:
    with pytest.raises(RefusedError, match="of kind 'subspace', this run needs 'gaussian'") as e:
        check(make(kind="subspace"))
    assert e.value.code is Refusal.WRONG_ENCODER


@pytest.mark.parametrize(
    ("changes", "text", "code"),
    [
        ({"tensors": {"mean": np.zeros(3, np.float32)}}, "expected mean and variance", Refusal.WRONG_TENSORS),
        (
            {"tensors": {"mean": np.zeros(3, np.float32), "variance": np.ones(2, np.float32)}},
            r"variance is float32 \(2,\); expected float32 \(3,\)",
            Refusal.WRONG_TENSORS,
        ),
        (
            {"tensors": {"mean": np.zeros(3), "variance": np.ones(3)}},
            r"mean is float64 \(3,\); expected float32",
            Refusal.WRONG_TENSORS,
        ),
        ({"num_frames": 1}, "at least 2 are needed", Refusal.WRONG_TENSORS),
        (
            {"tensors": {"mean": np.full(3, np.nan, np.float32), "variance": np.ones(3, np.float32)}},
            "holds NaN, Inf or a negative variance",
            Refusal.NOT_FINITE,
        ),
        (
            {"tensors": {"mean": np.zeros(3, np.float32), "variance": np.full(3, -1, np.float32)}},
            "holds NaN, Inf or a negative variance",
            Refusal.NOT_FINITE,
        ),
    ],
)
def test_broken_descriptors_are_refused(changes: dict[str, object], text: str, code: Refusal) -> None:
    with pytest.raises(RefusedError, match=text) as e:
        check(make(**changes), num_features=3)
    assert e.value.code is code


def test_tensors_round_trip() -> None:
    group = Gaussians.stack([make(), make(num_frames=9)])
    back = Gaussians.from_tensors(group.to_tensors())
    np.testing.assert_array_equal(back.mean, group.mean)
    np.testing.assert_array_equal(back.variance, group.variance)
    np.testing.assert_array_equal(back.num_frames, [5, 9])
    np.testing.assert_array_equal(back.take([1]).num_frames, [9])
    assert back.append(back).mean.shape == (4, 3)
