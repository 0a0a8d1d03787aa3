"""Tensors in Flower's records and back: exact dtypes and shapes, NumPy's own format, never a pickle."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, RecordDict

from fed_core.errors import Refusal, RefusedError
from fed_core.store.blobs import BlobStore
from fed_core.types import Array, BlobRef, Tensors
from fed_core.wire.codec import open_tensors, write_tensors

#: The one way of writing an array that is read here; others might hold code.
_STYPE = "numpy.ndarray"


def to_record(tensors: Tensors) -> ArrayRecord:
    """Return tensors by name as a record, in their order."""
    return ArrayRecord({name: FlowerArray(np.asarray(tensors[name])) for name in tensors})


def from_record(record: ArrayRecord) -> dict[str, Array]:
    """Return the tensors of a record.

    Raises:
        RefusedError: an array is in another format, damaged, or not what its own label says.
    """
    return {name: _array(name, record[name]) for name in record}


def _array(name: str, packed: FlowerArray) -> Array:
    if packed.stype != _STYPE:
        raise RefusedError(f"tensor {name!r} is written as {packed.stype!r}; send {_STYPE!r}", Refusal.WRONG_TENSORS)
    try:
        array = np.asarray(packed.numpy())
    except (ValueError, EOFError, OSError, SyntaxError) as err:
        raise RefusedError(f"tensor {name!r} cannot be read ({err}); send it again", Refusal.BROKEN_BLOB) from None
    told = (packed.dtype, tuple(packed.shape))
    if (str(array.dtype), array.shape) != told:
        found = f"{array.dtype} {array.shape}"
        raise RefusedError(f"tensor {name!r} holds {found}, its label says {told[0]} {told[1]}", Refusal.WRONG_TENSORS)
    return array


def arrays_of(content: RecordDict, name: str) -> ArrayRecord:
    """Return the array record ``name`` of a message; one that is missing or of another kind is refused."""
    record = content.get(name)
    if not isinstance(record, ArrayRecord):
        raise RefusedError(f"the message has no ArrayRecord {name!r}; see docs/flower.md", Refusal.WRONG_TENSORS)
    return record


def store_record(record: ArrayRecord, store: BlobStore) -> BlobRef:
    """Write the tensors of a record as a blob."""
    return store_tensors(from_record(record), store)


def store_tensors(tensors: Mapping[str, Array], store: BlobStore) -> BlobRef:
    """Write tensors as a blob."""
    path = store.scratch()
    try:
        write_tensors(path, tensors)
        return store.put_file(path)
    finally:
        path.unlink(missing_ok=True)


def file_record(path: Path) -> ArrayRecord:
    """Return the tensors of a file as a record."""
    return to_record(open_tensors(path))
