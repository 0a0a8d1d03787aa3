"""What must hold before an update is used."""

import math

import numpy as np
import pytest

from fed_core.errors import Refusal, RefusedError
from fed_core.types import TensorSpec
from fed_core.wire.checks import check_update

SPECS = (TensorSpec("w", (2, 2), "float32"), TensorSpec("n", (), "int64"))


def good() -> dict[str, np.ndarray]:
    return {"w": np.array([[3.0, 0.0], [0.0, 4.0]], np.float32), "n": np.array(10**9)}


def refusal(tensors: dict[str, np.ndarray], **bounds: object) -> tuple[Refusal, str]:
    with pytest.raises(RefusedError) as caught:
        check_update(tensors, SPECS, **bounds)
    return caught.value.code, str(caught.value)


def test_a_good_update_passes_and_integers_do_not_count_in_the_norm() -> None:
    check_update(good(), SPECS, max_norm=5.0)


def test_the_norm_bound_is_exact() -> None:
    assert refusal(good(), max_norm=4.999) == (Refusal.TOO_LARGE, "the update's norm is 5, allowed are 4.999")


def test_the_norm_counts_from_the_reference() -> None:
    start = {"w": np.array([[3.0, 0.0], [0.0, 3.0]], np.float32), "n": np.array(0)}

    check_update(good(), SPECS, max_norm=1.0, reference=start)
    assert refusal(good(), max_norm=0.99, reference=start)[0] == Refusal.TOO_LARGE


def test_missing_and_unknown_tensors() -> None:
    less, more = good(), {**good(), "extra": np.zeros(1)}
    del less["w"]

    assert refusal(less) == (Refusal.WRONG_TENSORS, "tensor 'w' is missing")
    assert refusal(more) == (Refusal.WRONG_TENSORS, "tensor 'extra' is not part of what was agreed")


@pytest.mark.parametrize("wrong", [np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float64)])
def test_shape_and_dtype(wrong: np.ndarray) -> None:
    code, text = refusal({**good(), "w": wrong})

    assert code == Refusal.WRONG_TENSORS and text.endswith("should be 'w' float32 [2, 2]")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite(value: float) -> None:
    bad = good()
    bad["w"][1, 0] = value

    assert refusal(bad) == (Refusal.NOT_FINITE, f"tensor 'w' holds {value} at element 2")


def test_a_nan_in_a_late_block_is_found() -> None:
    flat = np.zeros(600_000, np.float16)
    flat[599_999] = np.nan

    with pytest.raises(RefusedError, match="'big' holds nan at element 599999"):
        check_update({"big": flat}, [TensorSpec("big", flat.shape, "float16")])


def test_denormals_pass() -> None:
    check_update({"d": np.array([5e-324])}, [TensorSpec("d", (1,), "float64")], max_norm=0.0)


def test_a_norm_that_overflows_is_too_large() -> None:
    with pytest.raises(RefusedError, match="norm is inf"):
        check_update({"d": np.array([1e308])}, [TensorSpec("d", (1,), "float64")], max_norm=1e300)


def test_a_bool_that_is_neither() -> None:
    with pytest.raises(RefusedError, match="'b' holds a bool that is neither 0 nor 1"):
        check_update({"b": np.array([1, 2], np.uint8).view(bool)}, [TensorSpec("b", (2,), "bool")])
