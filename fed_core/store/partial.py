"""A blob on its way in: one sparse file that a kill at any moment cannot spoil.

Layout: the blob's bytes at their final place, then a table: 8 bytes magic, 8 bytes chunk size, and per chunk 8 bytes
(bit 32: written, bits 0-31: CRC-32), all little endian. An entry is written after its chunk, and is believed only if
the chunk's bytes still give its CRC, so neither a kill nor a power cut can make the table lie.
"""

import fcntl
import hashlib
import os
import zlib
from pathlib import Path

from fed_core.errors import StoreError, WireError
from fed_core.types import BlobRef
from fed_core.wire import files

CHUNK_BYTES = 512 << 10

_MAGIC = b"FEDPART1"
_WRITTEN = 1 << 32


class Partial:
    """Chunks of one blob on disk. Use it from one thread at a time.

    Attributes:
        ref: digest and size it must get.
        chunk_bytes: size of every chunk but the last.
    """

    def __init__(self, path: Path, ref: BlobRef, chunk_bytes: int) -> None:
        self.ref = ref
        self.chunk_bytes = chunk_bytes
        self._path = path
        self._count = -(-ref.size_bytes // chunk_bytes)
        self._have = bytearray(self._count)
        self._hash = hashlib.sha256()
        self._hashed = 0  # chunks in self._hash
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as err:
            raise files.store_error(err, path) from err
        try:
            self._lock()
            self._resume()
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def missing(self) -> tuple[int, ...]:
        """Indices of the chunks that are not here."""
        return tuple(index for index, have in enumerate(self._have) if not have)

    def span(self, index: int) -> tuple[int, int]:
        """Return first byte and length of chunk ``index``."""
        offset = index * self.chunk_bytes
        return offset, min(self.chunk_bytes, self.ref.size_bytes - offset)

    def write(self, index: int, data: files.Buffer, crc32: int | None = None) -> bool:
        """Store chunk ``index`` and return True; False if ``data`` do not give ``crc32``. Twice does no harm.

        Raises:
            WireError: ``data`` is not as long as the chunk.
            DiskFullError: no space is left; chunks that were stored stay.
        """
        offset, length = self.span(index)
        if not 0 <= index < self._count or memoryview(data).nbytes != length:
            raise WireError(f"chunk {index} of blob {self.ref.digest[:12]} has {memoryview(data).nbytes} bytes")
        if self._have[index]:
            return True
        found = zlib.crc32(data)
        if crc32 is not None and found != crc32:
            return False
        files.write_all(self._descriptor, data, self._path, offset)
        self._note(index, found)
        if index == self._hashed:
            self._hash.update(data)
            self._hashed += 1
        self._hash_ahead(4)
        return True

    def finish(self) -> None:
        """Verify the digest, flush, and put the blob under its name.

        Raises:
            WireError: a chunk is missing, or the bytes do not give the digest (then all of them are dropped).
        """
        if self.missing:
            raise WireError(f"blob {self.ref.digest[:12]} lacks {len(self.missing)} of {self._count} chunks")
        self._hash_ahead(self._count)
        if self._hash.hexdigest() != self.ref.digest:
            self.discard()
            raise WireError(f"the bytes of blob {self.ref.digest[:12]} do not give its digest; they were dropped")
        try:
            os.ftruncate(self._descriptor, self.ref.size_bytes)
            os.fsync(self._descriptor)
            os.replace(self._path, self._path.with_suffix(""))
        except OSError as err:
            raise files.store_error(err, self._path) from err
        files.sync_folder(self._path.parent)
        self.close()

    def discard(self) -> None:
        """Remove everything that was received."""
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Stop here; what was received stays for the next try."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"blob {self.ref.digest[:12]} is being received by another process") from None

    def _resume(self) -> None:
        size, table = os.fstat(self._descriptor).st_size, self._table_bytes()
        if size == self.ref.size_bytes and self._count:
            # Killed inside finish(): all chunks were there. The digest has the last word.
            self._write_table()
            for index in range(self._count):
                self._note(index, zlib.crc32(self._read(index)))
        elif size == self.ref.size_bytes + table and self._read_at(self.ref.size_bytes, 16) == self._start():
            self._recheck()
        else:
            self._write_table()

    def _recheck(self) -> None:
        entries = self._read_at(self.ref.size_bytes + 16, 8 * self._count)
        for index in range(self._count):
            entry = int.from_bytes(entries[8 * index : 8 * index + 8], "little")
            if entry & _WRITTEN and zlib.crc32(self._read(index)) == entry & 0xFFFFFFFF:
                self._have[index] = 1

    def _start(self) -> bytes:
        return _MAGIC + self.chunk_bytes.to_bytes(8, "little")

    def _table_bytes(self) -> int:
        return 16 + 8 * self._count

    def _write_table(self) -> None:
        size = self.ref.size_bytes
        try:
            if os.fstat(self._descriptor).st_size != size:
                os.ftruncate(self._descriptor, 0)
            os.ftruncate(self._descriptor, size + self._table_bytes())
        except OSError as err:
            raise files.store_error(err, self._path) from err
        files.write_all(self._descriptor, self._start(), self._path, size)

    def _note(self, index: int, crc: int) -> None:
        entry = (_WRITTEN | crc).to_bytes(8, "little")
        files.write_all(self._descriptor, entry, self._path, self.ref.size_bytes + 16 + 8 * index)
        self._have[index] = 1

    def _hash_ahead(self, chunks: int) -> None:
        """Hash up to ``chunks`` more from the front, so that the end of a transfer need not wait for all of it."""
        while chunks > 0 and self._hashed < self._count and self._have[self._hashed]:
            self._hash.update(self._read(self._hashed))
            self._hashed += 1
            chunks -= 1

    def _read(self, index: int) -> bytes:
        return self._read_at(*self.span(index))

    def _read_at(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as err:
            raise files.store_error(err, self._path) from err
