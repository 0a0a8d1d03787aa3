"""Tensors to files and back."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.errors import RefusedError, StoreError, WireError
from fed_core.types import Memory, ModelSignature, TensorSpec
from fed_core.wire import files
from fed_core.wire.codec import (
    SpoolWriter,
    TensorWriter,
    load_memory,
    open_tensors,
    save_memory,
    spec_of,
    write_rows,
    write_tensors,
)

SIX = {
    "w": np.array([[1.5, -2.0], [0.0, 3.0]], np.float32),
    "flag": np.array([True, False, True]),
    "half": np.array([6e-8, -0.0, 65504.0], np.float16),  # the smallest denormal of float16 among them
    "steps": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float64),
    "tiny": np.array([5e-324], np.float64),
}


def test_the_library_reads_what_we_write_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    ref = write_rows(path, [spec_of(n, a) for n, a in SIX.items()], SIX.items(), {"note": "x"})

    theirs = safetensors.numpy.load_file(path)

    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in theirs.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in SIX.items()
    }
    assert ref == files.hash_file(path)


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    safetensors.numpy.save_file(SIX, tmp_path / "a", {"note": "x"})

    tensors = open_tensors(tmp_path / "a")

    assert set(tensors) == set(SIX) and tensors.metadata == {"note": "x"}
    assert all(np.array_equal(tensors[n], a) and tensors[n].dtype == a.dtype for n, a in SIX.items())


def test_order_is_kept_and_arrays_are_read_only(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", SIX)

    tensors = open_tensors(tmp_path / "a")

    assert list(tensors) == list(SIX)
    with pytest.raises(ValueError, match="read-only"):
        tensors["w"][0, 0] = 1.0


def test_unaligned_tensors_come_aligned(tmp_path: Path) -> None:
    odd = {"a": np.arange(3, dtype=np.uint8), "b": np.array([1.0, 2.0])}
    write_tensors(tmp_path / "a", odd)

    b = open_tensors(tmp_path / "a")["b"]

    assert b.flags.aligned and not b.flags.writeable and b.tolist() == [1.0, 2.0]


def test_both_writers_give_the_same_bytes(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "a", [spec_of(n, a) for n, a in SIX.items()], SIX.items())
    two = write_tensors(tmp_path / "b", SIX)

    assert one == two


def test_non_contiguous_and_big_endian_arrays_are_written_by_value(tmp_path: Path) -> None:
    source = {"t": np.arange(6.0).reshape(2, 3).T, "big": np.array([1, 2], ">i4")}
    write_tensors(tmp_path / "a", source)

    tensors = open_tensors(tmp_path / "a")

    assert tensors["t"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] and tensors["big"].tolist() == [1, 2]


def test_an_unfinished_file_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(WireError, match="'b' was promised and never written"):
        with TensorWriter(tmp_path / "a", [TensorSpec("a", (1,), "int8"), TensorSpec("b", (1,), "int8")]) as writer:
            writer.write("a", np.zeros(1, np.int8))
            writer.finish()
    with SpoolWriter(tmp_path / "b") as spool:
        spool.write("a", np.zeros(1))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("b", np.zeros(2, np.float32), "expected tensor 'a' float32 [2], got 'b' float32 [2]"),
        ("a", np.zeros(3, np.float32), "expected tensor 'a' float32 [2], got 'a' float32 [3]"),
        ("a", np.zeros(2), "expected tensor 'a' float32 [2], got 'a' float64 [2]"),
    ],
)
def test_a_row_that_was_not_promised_is_refused(tmp_path: Path, name: str, array: np.ndarray, text: str) -> None:
    with pytest.raises(WireError) as caught:
        write_rows(tmp_path / "a", [TensorSpec("a", (2,), "float32")], [(name, array)])

    assert str(caught.value) == text


def test_complex_numbers_do_not_travel(tmp_path: Path) -> None:
    with pytest.raises(WireError, match="'z' is complex128; allowed: bool, uint8"):
        write_tensors(tmp_path / "a", {"z": np.zeros(1, complex)})


def test_signature_must_fit(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"w": np.zeros(2, np.float32)})

    with pytest.raises(RefusedError, match=r"tensor 'w' float32 \[2\] should be 'w' float32 \[3\]"):
        open_tensors(tmp_path / "a", signature=ModelSignature("net", (TensorSpec("w", (3,), "float32"),)))


def test_a_missing_file_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read .*nothing: No such file"):
        open_tensors(tmp_path / "nothing")


# ---- hostile files -----------------------------------------------------------------------------------------------


def raw(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: object = "F32", shape: object = (1,), offsets: object = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("header", "data", "text"),
    [
        (b"", b"", "not valid JSON"),
        (b"[" * 100_000, b"", "not valid JSON"),
        (b"\xff\xfe", b"", "not valid JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", b"", "not valid JSON"),
        ([1], b"", "not a JSON object"),
        (b'{"a":1,"a":1}', b"", "names something twice"),
        (b'{"a":{"dtype":"F32","dtype":"F64","shape":[],"data_offsets":[0,4]}}', b"", "names something twice"),
        ({"__metadata__": {"a": 1}}, b"", "metadata is not text"),
        ({"a": entry("BF16", (2,))}, bytes(4), "has dtype 'BF16'"),
        ({"a": entry(["F32"])}, bytes(4), "has dtype"),
        ({"a": entry(shape=[-1])}, bytes(4), "whole numbers >= 0"),
        ({"a": entry(shape=[True])}, bytes(4), "whole numbers >= 0"),
        ({"a": entry(shape=[1.0])}, bytes(4), "whole numbers >= 0"),
        ({"a": entry(shape=[1] * 17)}, bytes(4), "up to 16"),
        ({"a": entry(shape="1")}, bytes(4), "whole numbers >= 0"),
        ({"a": entry(shape=[2**62, 2**62])}, bytes(4), "its shape and dtype need"),
        ({"a": entry(shape=[0, 2**63], offsets=[0, 0])}, b"", "claims a dimension"),
        ({"a": entry(offsets=[0, 8])}, bytes(8), "takes 8 bytes, its shape and dtype need 4"),
        ({"a": entry(offsets=[4, 8])}, bytes(8), "begins at byte 4 of the data, expected 0"),
        ({"a": entry(), "b": entry()}, bytes(4), "begins at byte 0 of the data, expected 4"),
        ({"a": entry()}, bytes(3), "cut off or damaged"),
        ({"a": entry()}, bytes(5), "cut off or damaged"),
        ({"a": {**entry(), "x": 1}}, bytes(4), "or has more than these"),
        ({"a": 3}, bytes(4), "lacks dtype"),
        ({"../../etc/passwd": entry()}, bytes(4), "looks like a path"),
        ({"/etc/passwd": entry()}, bytes(4), "looks like a path"),
        ({"a\\b": entry()}, bytes(4), "looks like a path"),
        ({"a\0b": entry()}, bytes(4), "not printable"),
        ({"": entry()}, bytes(4), "empty or longer"),
        ({"a" * 257: entry()}, bytes(4), "empty or longer"),
    ],
)
def test_hostile_headers_are_refused(tmp_path: Path, header: object, data: bytes, text: str) -> None:
    path = raw(tmp_path / "evil", header, data)

    with pytest.raises(WireError, match=text) as caught:
        open_tensors(path)

    assert str(caught.value).startswith("evil: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(("length", "text"), [(2**63, "over the bound"), (1000, "cut off or damaged")])
def test_a_header_longer_than_the_file_is_never_allocated(tmp_path: Path, length: int, text: str) -> None:
    with pytest.raises(WireError, match=text):
        open_tensors(raw(tmp_path / "evil", {}, length=length))


@pytest.mark.parametrize("size", [0, 7])
def test_too_short_a_file_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(bytes(size))

    with pytest.raises(WireError, match=f"a: {size} bytes are too few"):
        open_tensors(tmp_path / "a")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_is_an_error_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a"
    write_tensors(path, SIX)
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(len(whole) - 20, len(whole)))])

    try:
        tensors = open_tensors(path)
    except WireError:
        return
    assert sum(tensors[name].nbytes for name in tensors) <= len(whole)


# ---- memory ------------------------------------------------------------------------------------------------------


def test_memory_comes_back_bit_by_bit(tmp_path: Path) -> None:
    values = {"round": 3, "beta": 0.1, "names": ["a", "ä"], "deep": {"none": None, "yes": True}, "inf": float("inf")}
    save_memory(tmp_path / "m", Memory(SIX, values))

    memory = load_memory(tmp_path / "m")
    views = [array for array in memory.tensors.values() if array.size]
    assert not any(array.flags.writeable for array in views)  # of the file: they may be as large as a model

    assert memory.values == values
    assert {n: (a.dtype, a.tobytes()) for n, a in memory.tensors.items()} == {
        n: (a.dtype, a.tobytes()) for n, a in SIX.items()
    }


def test_equal_memories_are_equal_files(tmp_path: Path) -> None:
    assert save_memory(tmp_path / "a", Memory(SIX, {"a": 1})) == save_memory(tmp_path / "b", Memory(SIX, {"a": 1}))


def test_empty_memory(tmp_path: Path) -> None:
    save_memory(tmp_path / "m", Memory())

    assert load_memory(tmp_path / "m") == Memory()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"a": {1: 2}}, "memory values.a: key 1 is not text"),
        ({"a": [np.float32(1)]}, r"memory values.a\[0\]: float32 is not plain JSON"),
        ({"a": (1,)}, "memory values.a: tuple is not plain JSON"),
    ],
)
def test_values_that_would_come_back_changed_are_refused(tmp_path: Path, values: dict, text: str) -> None:
    with pytest.raises(WireError, match=text):
        save_memory(tmp_path / "m", Memory({}, values))


def test_an_unknown_memory_schema_is_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "m", {"__values__": np.frombuffer(b"{}", np.uint8)}, {"fed_memory_schema": "9"})

    with pytest.raises(WireError) as caught:
        load_memory(tmp_path / "m")

    assert str(caught.value) == "m: memory schema '9' is unknown, this version reads 1; use the version that wrote it"


def test_a_model_is_no_memory(tmp_path: Path) -> None:
    write_tensors(tmp_path / "m", SIX)

    with pytest.raises(WireError, match="this is no strategy memory"):
        load_memory(tmp_path / "m")
