"""Tensors in Flower's records: every bit comes back, and nothing that is not what its label says."""

from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fed_core.errors import RefusedError
from fed_flower.records import arrays_of, from_record, to_record

DTYPES = st.sampled_from(["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"])


@given(arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
def test_every_bit_comes_back(array: np.ndarray) -> None:
    back = from_record(to_record({"w": array}))["w"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_order_is_kept() -> None:
    tensors = {name: np.zeros(1, np.float32) for name in ("z", "a", "m")}
    assert list(from_record(to_record(tensors))) == ["z", "a", "m"]


def packed(**changes: Any) -> ArrayRecord:
    whole = Array(np.array([1.0, 2.0], np.float32))
    told = {"dtype": whole.dtype, "shape": whole.shape, "stype": whole.stype, "data": whole.data, **changes}
    return ArrayRecord({"w": Array(**told)})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stype": "torch.save"}, "tensor 'w' is written as 'torch.save'; send 'numpy.ndarray'"),
        ({"data": b"not an array"}, "tensor 'w' cannot be read (.*); send it again"),
        ({"data": b""}, "tensor 'w' cannot be read (.*); send it again"),
        ({"dtype": "float64"}, r"tensor 'w' holds float32 \(2,\), its label says float64 \(2,\)"),
        ({"shape": (1, 2)}, r"tensor 'w' holds float32 \(2,\), its label says float32 \(1, 2\)"),
    ],
)
def test_what_is_not_what_it_says_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(RefusedError, match=f"^{text}$"):
        from_record(packed(**changes))


def test_objects_are_never_unpickled() -> None:
    import io

    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(RefusedError, match="tensor 'w' cannot be read"):
        from_record(packed(dtype="object", shape=(1,), data=buffer.getvalue()))


def test_a_missing_record_is_named() -> None:
    with pytest.raises(RefusedError, match="^the message has no ArrayRecord 'arrays'; see docs/flower.md$"):
        arrays_of(RecordDict(), "arrays")
