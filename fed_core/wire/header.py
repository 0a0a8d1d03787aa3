"""The header of a safetensors file, read as if an enemy had written it.

A file is: 8 bytes header length (little endian), a JSON header, then the tensors without gaps. Everything is checked
against the size of the file before any array is made.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from fed_core.errors import Refusal, WireError
from fed_core.types import TensorSpec

MAX_HEADER_BYTES = 8 << 20
MAX_NAME_CHARS = 256
MAX_DIMENSIONS = 16

#: NumPy name by safetensors name. Types that NumPy lacks (BF16, F8) do not travel.
DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
}
_TAGS = {numpy: tag for tag, numpy in DTYPES.items()}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: what it is and where its bytes begin, counted from the start of the file."""

    spec: TensorSpec
    offset: int


@dataclass(frozen=True)
class Header:
    """Checked header: entries by name in the order of their bytes, and the free texts of the file."""

    entries: dict[str, Entry]
    metadata: dict[str, str]


def check_name(name: object) -> str:
    """Return ``name`` if it can name a tensor: printable, not too long, and nothing like a path out of a folder."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        raise WireError(f"tensor name {str(name)[:40]!r} is empty or longer than {MAX_NAME_CHARS} characters")
    if not name.isprintable() or "\\" in name or name.startswith(("/", "~")) or ".." in name.split("/"):
        raise WireError(f"tensor name {name[:80]!r} looks like a path or is not printable")
    return name


def build_header(specs: Sequence[TensorSpec], metadata: dict[str, str]) -> bytes:
    """Return the length field and the JSON header of a file that holds ``specs`` in this order.

    Raises:
        WireError: a name or dtype cannot travel, or a name appears twice.
    """
    tree: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for spec in specs:
        if spec.name in tree or spec.name == "__metadata__":
            raise WireError(f"tensor {spec.name!r} appears twice")
        if spec.dtype not in _TAGS:
            raise WireError(f"tensor {check_name(spec.name)!r} is {spec.dtype}; allowed: {', '.join(_TAGS)}")
        end = offset + spec.size_bytes
        tree[check_name(spec.name)] = {
            "dtype": _TAGS[spec.dtype],
            "shape": list(spec.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(tree, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # keeps float64 at multiples of 8 in the file
    if len(text) > MAX_HEADER_BYTES:
        raise WireError(f"header of {len(text)} bytes is over the bound of {MAX_HEADER_BYTES}", Refusal.TOO_LARGE)
    return len(text).to_bytes(8, "little") + text


def read_header(file: BinaryIO, size_bytes: int, path: Path) -> Header:
    """Read and check the header of an open file of ``size_bytes``.

    Raises:
        WireError: the first thing that is wrong; ``path`` is only for the message.
    """
    length = int.from_bytes(file.read(8), "little")
    if size_bytes < 8:
        _fail(path, f"{size_bytes} bytes are too few for a header")
    if length > MAX_HEADER_BYTES:
        _fail(path, f"its header claims {length} bytes, over the bound of {MAX_HEADER_BYTES}", Refusal.TOO_LARGE)
    if length > size_bytes - 8:
        _fail(path, f"its header claims {length} bytes, the file has {size_bytes}: it is cut off or damaged")
    try:
        tree = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as err:
        _fail(path, f"its header is not valid JSON ({str(err)[:80]})")
    except WireError as err:
        _fail(path, str(err))
    if not isinstance(tree, dict):
        _fail(path, "its header is not a JSON object")
    metadata = tree.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        _fail(path, "its metadata is not text by name")
    try:
        return Header(_entries(tree, 8 + length, size_bytes), metadata)
    except WireError as err:
        _fail(path, str(err))


def _fail(path: Path, what: str, code: Refusal = Refusal.BROKEN_BLOB) -> NoReturn:
    raise WireError(f"{path.name}: {what}", code) from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise WireError("its header names something twice")
    return tree


def _entries(tree: dict[str, Any], start: int, size_bytes: int) -> dict[str, Entry]:
    rows = sorted((_entry(name, row) for name, row in tree.items()), key=lambda row: (row[1], row[2]))
    entries: dict[str, Entry] = {}
    expected = 0
    for spec, begin, end in rows:
        if begin != expected:
            raise WireError(f"tensor {spec.name!r} begins at byte {begin} of the data, expected {expected}")
        entries[spec.name] = Entry(spec, start + begin)
        expected = end
    if start + expected != size_bytes:
        raise WireError(f"its tensors end at byte {start + expected}, the file at {size_bytes}: cut off or damaged")
    return entries


def _entry(name: str, row: Any) -> tuple[TensorSpec, int, int]:
    check_name(name)
    if not isinstance(row, dict) or set(row) != {"dtype", "shape", "data_offsets"}:
        raise WireError(f"tensor {name!r} lacks dtype, shape or data_offsets, or has more than these")
    dtype, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise WireError(f"tensor {name!r} has dtype {str(dtype)[:20]!r}; allowed: {', '.join(DTYPES)}")
    if not _naturals(shape) or len(shape) > MAX_DIMENSIONS:
        raise WireError(f"tensor {name!r} has a shape that is not up to {MAX_DIMENSIONS} whole numbers >= 0")
    if not _naturals(offsets) or len(offsets) != 2:
        raise WireError(f"tensor {name!r} has data_offsets that are not two whole numbers >= 0")
    count = np.dtype(DTYPES[dtype]).itemsize
    for dimension in shape:  # Python integers: no overflow
        count *= dimension
    if offsets[1] - offsets[0] != count:
        raise WireError(f"tensor {name!r} takes {offsets[1] - offsets[0]} bytes, its shape and dtype need {count}")
    if 0 in shape and max(shape) >= 1 << 40:
        raise WireError(f"tensor {name!r} is empty but claims a dimension of {max(shape)}")
    return TensorSpec(name, tuple(shape), DTYPES[dtype]), offsets[0], offsets[1]


def _naturals(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
