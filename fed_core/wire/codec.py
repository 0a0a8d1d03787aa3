"""Tensors <-> safetensors files without PyTorch: memory-mapped reading, and a strategy's memory as a file."""

import json
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.errors import Refusal, StoreError, WireError
from fed_core.types import Array, BlobRef, Json, Memory, ModelSignature, TensorSpec
from fed_core.wire.checks import check_specs, check_update
from fed_core.wire.header import Entry, read_header
from fed_core.wire.writer import SpoolWriter, TensorWriter, spec_of, write_rows, write_tensors

__all__ = [
    "SpoolWriter",
    "TensorFile",
    "TensorWriter",
    "check_specs",
    "check_update",
    "load_memory",
    "open_tensors",
    "save_memory",
    "spec_of",
    "write_rows",
    "write_tensors",
]

MEMORY_SCHEMA = 1
_SCHEMA_KEY = "fed_memory_schema"
_VALUES_NAME = "__values__"


class TensorFile(Mapping[str, Array]):
    """Read-only tensors of one file, in the order of their bytes.

    Each access gives a read-only view of the mapped file: the pages belong to the page cache and count as no
    anonymous memory. Copy an array before changing it.

    Attributes:
        metadata: free texts of the file.
        specs: names, shapes and dtypes in order.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                header = read_header(file, size, path)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as err:
            raise StoreError(f"cannot read {path}: {err.strerror}") from err
        self._entries: dict[str, Entry] = header.entries
        self.metadata: Mapping[str, str] = header.metadata
        self.specs: tuple[TensorSpec, ...] = tuple(entry.spec for entry in header.entries.values())

    def __getitem__(self, name: str) -> Array:
        """Return the tensor ``name``, read-only."""
        entry = self._entries[name]
        dtype = np.dtype(entry.spec.dtype).newbyteorder("<")
        count = entry.spec.size_bytes // dtype.itemsize
        if count == 0:
            return np.zeros(entry.spec.shape, dtype)
        flat = np.frombuffer(self._map, dtype, count, entry.offset)
        if not flat.flags.aligned:  # files of others may lie at odd bytes; PyTorch wants aligned ones
            flat = flat.copy()
            flat.flags.writeable = False
        return flat.reshape(entry.spec.shape)

    def release(self) -> None:
        """Give back the memory of the pages that were read; arrays stay as they are, and read them again."""
        if hasattr(mmap, "MADV_DONTNEED"):  # Linux
            self._map.madvise(mmap.MADV_DONTNEED)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in the order of their bytes."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._entries)


def open_tensors(path: Path | str, *, signature: ModelSignature | None = None) -> TensorFile:
    """Open a safetensors file; with a ``signature``, exactly its tensors must be there.

    Raises:
        WireError: the file is damaged, or breaks a bound.
        RefusedError: names, shapes or dtypes differ from ``signature``.
    """
    tensors = TensorFile(Path(path))
    if signature is not None:
        check_specs(tensors, signature.tensors)
    return tensors


def save_memory(path: Path, memory: Memory) -> BlobRef:
    """Write a strategy's memory to one file: its tensors, and its values as JSON in a tensor of bytes.

    Raises:
        WireError: a tensor name is reserved or cannot travel, or a value is not plain JSON.
    """
    if _VALUES_NAME in memory.tensors:
        raise WireError(f"memory may not name a tensor {_VALUES_NAME!r}; the name is taken")
    values = {str(key): value for key, value in memory.values.items()}
    _check_json(values, "memory values")
    text = np.frombuffer(json.dumps(values).encode(), np.uint8)
    with SpoolWriter(path) as writer:
        for name in memory.tensors:
            writer.write(name, memory.tensors[name])
        writer.write(_VALUES_NAME, text)
        return writer.finish({_SCHEMA_KEY: str(MEMORY_SCHEMA)})


def load_memory(path: Path | str) -> Memory:
    """Read what :func:`save_memory` wrote; tensors are read-only views of the mapped file, as large as they are.

    Raises:
        WireError: the file is damaged, is no memory, or has an unknown schema version.
    """
    tensors = open_tensors(path)
    name, schema = Path(path).name, tensors.metadata.get(_SCHEMA_KEY)
    if schema is None or _VALUES_NAME not in tensors:
        raise WireError(f"{name}: this is no strategy memory")
    if schema != str(MEMORY_SCHEMA):
        text = f"{name}: memory schema {schema[:20]!r} is unknown, this version reads {MEMORY_SCHEMA}"
        raise WireError(f"{text}; use the version that wrote it", Refusal.WRONG_VERSION)
    try:
        values: Any = json.loads(tensors[_VALUES_NAME].tobytes().decode())
    except (ValueError, RecursionError) as err:
        raise WireError(f"{name}: the values are not valid JSON ({err})") from None
    if not isinstance(values, dict):
        raise WireError(f"{name}: the values are not a JSON object")
    return Memory({key: tensors[key] for key in tensors if key != _VALUES_NAME}, values)


def _check_json(value: Json, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise WireError(f"{where}: key {key!r} is not text, it would come back changed")
            _check_json(item, f"{where}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_json(item, f"{where}[{index}]")
    elif not (value is None or isinstance(value, bool | int | float | str)):
        raise WireError(f"{where}: {type(value).__name__} is not plain JSON")
