"""Write safetensors files tensor by tensor, hashed on the way; a file appears only when it is complete and on disk."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from fed_core.errors import Refusal, WireError
from fed_core.types import Array, BlobRef, Tensors, TensorSpec
from fed_core.wire.files import HashingFile, write_all
from fed_core.wire.header import build_header, check_name


def spec_of(name: str, array: Array) -> TensorSpec:
    """Return the spec of one array."""
    return TensorSpec(name, tuple(array.shape), array.dtype.name)


class TensorWriter:
    """Write a file whose tensors are known beforehand, one tensor at a time and in order.

    Only one tensor is in memory. The file appears under its name when it is complete and on disk; leaving the
    ``with`` block without :meth:`finish` removes what was written.

    Args:
        path: file to make.
        specs: tensors in the order in which they will come.
        metadata: free texts.
    """

    def __init__(self, path: Path, specs: Sequence[TensorSpec], metadata: Mapping[str, str] | None = None) -> None:
        self._waiting = list(reversed(specs))
        header = build_header(specs, dict(metadata or {}))
        self._file = HashingFile(path)
        self._file.write(header)

    def write(self, name: str, array: Array) -> None:
        """Append tensor ``name``; it must be the next one and look as promised."""
        if not self._waiting:
            raise WireError(f"tensor {name!r} comes after the last one that was promised")
        expected = self._waiting[-1]
        got = spec_of(name, array)
        if (got.name, got.shape, got.dtype) != (expected.name, expected.shape, expected.dtype):
            raise WireError(f"expected tensor {words(expected)}, got {words(got)}", Refusal.WRONG_TENSORS)
        self._waiting.pop()
        self._file.write(_bytes_of(array))

    def finish(self) -> BlobRef:
        """Put the file in place, flushed to disk, and return its digest and size."""
        if self._waiting:
            raise WireError(f"tensor {self._waiting[-1].name!r} was promised and never written", Refusal.WRONG_TENSORS)
        return self._file.commit()

    def __enter__(self) -> "TensorWriter":
        """Return self."""
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        """Remove an unfinished file."""
        self._file.abandon()


class SpoolWriter:
    """Write a file whose tensors are not known beforehand: data go to a scratch file, the header comes last.

    Args:
        path: file to make; the scratch file lies beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spool = tempfile.TemporaryFile(dir=path.parent, buffering=0)  # nameless: nothing is left after a kill
        self._specs: list[TensorSpec] = []
        self._names: set[str] = set()

    def write(self, name: str, array: Array) -> None:
        """Append tensor ``name``."""
        if check_name(name) in self._names:
            raise WireError(f"tensor {name!r} appears twice")
        self._names.add(name)
        write_all(self._spool.fileno(), _bytes_of(array), self._path)
        self._specs.append(spec_of(name, array))

    def finish(self, metadata: Mapping[str, str] | None = None) -> BlobRef:
        """Put the file in place, flushed to disk, and return its digest and size."""
        target = HashingFile(self._path)
        try:
            target.write(build_header(self._specs, dict(metadata or {})))
            self._spool.seek(0)
            while block := self._spool.read(1 << 20):
                target.write(memoryview(block))
            return target.commit()
        finally:
            target.abandon()
            self._spool.close()

    def __enter__(self) -> "SpoolWriter":
        """Return self."""
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        """Drop the scratch file."""
        self._spool.close()


def write_rows(
    path: Path,
    specs: Sequence[TensorSpec],
    rows: Iterable[tuple[str, Array]],
    metadata: Mapping[str, str] | None = None,
) -> BlobRef:
    """Write ``rows`` (name and array, in the order of ``specs``) to ``path``; one row is in memory at a time."""
    with TensorWriter(path, specs, metadata) as writer:
        for name, array in rows:
            writer.write(name, array)
        return writer.finish()


def write_tensors(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> BlobRef:
    """Write all ``tensors`` to ``path``, each read once."""
    with SpoolWriter(path) as writer:
        for name in tensors:
            writer.write(name, tensors[name])
        return writer.finish(metadata)


def words(spec: TensorSpec) -> str:
    """Return name, dtype and shape for a message."""
    return f"{spec.name!r} {spec.dtype} {list(spec.shape)}"


def _bytes_of(array: Array) -> memoryview:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
    return little.view(np.uint8).data
