"""Files that appear whole or not at all, with their SHA-256."""

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

from fed_core.errors import DiskFullError, StoreError
from fed_core.types import BlobRef

#: Anything that holds bytes in one piece.
Buffer: TypeAlias = "bytes | bytearray | memoryview"

_BLOCK_BYTES = 1 << 20
_flushes: ContextVar[bool] = ContextVar("flushes", default=True)


def flushes() -> bool:
    """Return whether what is written goes to the disk at once; else it outlives its process, but not a power cut."""
    return _flushes.get()


@contextmanager
def flushing(on: bool) -> Iterator[None]:
    """Tell whether what is written below goes to the disk at once, which takes milliseconds for each file."""
    token = _flushes.set(on)
    try:
        yield
    finally:
        _flushes.reset(token)


def free_bytes(folder: Path) -> int:
    """Return the space an ordinary user can still fill in the file system of ``folder``."""
    return shutil.disk_usage(folder).free


def store_error(err: OSError, path: Path) -> StoreError:
    """Return the error to raise for a failed read or write of ``path``."""
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"no space is left for {path}; free some and start again, nothing saved is lost")
    return StoreError(f"cannot read or write {path}: {err.strerror}")


def write_all(descriptor: int, data: Buffer, path: Path, offset: int | None = None) -> None:
    """Write all of ``data`` at ``offset``, or at the file's position.

    Raises:
        DiskFullError: no space is left.
        StoreError: anything else; ``path`` is for the message.
    """
    view = memoryview(data).cast("B")
    try:
        while view:
            if offset is None:
                done = os.write(descriptor, view)
            else:
                done = os.pwrite(descriptor, view, offset)
                offset += done
            view = view[done:]
    except OSError as err:
        raise store_error(err, path) from err


def sync_file(descriptor: int) -> None:
    """Flush a file to disk, where files are flushed."""
    if flushes():
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush the names in ``folder`` to disk, so that a rename outlives a power cut, where files are flushed."""
    if not flushes():
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_file(path: Path) -> BlobRef:
    """Return the digest and size of a file, read block by block."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
    except OSError as err:
        raise store_error(err, path) from err
    return BlobRef(digest.hexdigest(), size)


class HashingFile:
    """A file in the making, under a scratch name beside its final one, hashed while it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor, name = tempfile.mkstemp(prefix="tmp-", dir=path.parent)
        except OSError as err:
            raise store_error(err, path) from err
        self._scratch: Path | None = Path(name)
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: Buffer) -> None:
        """Append ``data``."""
        write_all(self._descriptor, data, self._path)
        self._hash.update(data)
        self._size += memoryview(data).nbytes

    def commit(self) -> BlobRef:
        """Flush to disk, put the file under its name, and return its digest and size."""
        if self._scratch is None:
            raise StoreError(f"{self._path} was finished or given up before")
        try:
            sync_file(self._descriptor)
            os.fchmod(self._descriptor, 0o644)
            os.replace(self._scratch, self._path)
        except OSError as err:
            raise store_error(err, self._path) from err
        self._scratch = None
        os.close(self._descriptor)
        sync_folder(self._path.parent)
        return BlobRef(self._hash.hexdigest(), self._size)

    def abandon(self) -> None:
        """Remove what was written, unless the file is finished."""
        if self._scratch is not None:
            self._scratch.unlink(missing_ok=True)
            self._scratch = None
            os.close(self._descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a small text file that appears whole or not at all, flushed to disk.

    Raises:
        StoreError: it cannot be written (:class:`DiskFullError`: no space is left).
    """
    file = HashingFile(path)
    try:
        file.write(text.encode())
        file.commit()
    finally:
        file.abandon()
