"""Immutable files named by the SHA-256 of their bytes.

A folder holds ``<sha256>`` (whole, verified), ``<sha256>.part`` (on its way in) and ``tmp-*`` (being written). Names
are checked digests, so no request can reach another file.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from fed_core.errors import DiskFullError, StoreError, WireError
from fed_core.store.partial import CHUNK_BYTES, Partial
from fed_core.types import BlobRef
from fed_core.wire import files
from fed_core.wire.codec import TensorFile, open_tensors

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_digest(digest: str) -> str:
    """Return ``digest`` if it is 64 lower-case hex digits; anything else raises :class:`WireError`."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise WireError(f"{str(digest)[:80]!r} is no blob digest; expected 64 lower-case hex digits")
    return digest


class BlobStore:
    """Blobs of one process or of several on one machine; every change is one atomic rename.

    Args:
        root: folder, made if needed.
        spare_bytes: free space that incoming blobs leave to others.
    """

    def __init__(self, root: Path, *, spare_bytes: int = 64 << 20) -> None:
        self.root = root
        self._spare_bytes = spare_bytes
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise files.store_error(err, root) from err

    def path(self, digest: str) -> Path:
        """Return where the blob is or would be."""
        return self.root / check_digest(digest)

    def has(self, digest: str) -> bool:
        """Return whether the blob is here, whole."""
        return self.path(digest).is_file()

    def ref(self, digest: str) -> BlobRef:
        """Return digest and size of a blob; one that is not here raises :class:`StoreError`."""
        try:
            return BlobRef(digest, self.path(digest).stat().st_size)
        except FileNotFoundError:
            raise StoreError(f"blob {digest[:12]} is not in {self.root}") from None

    def open(self, digest: str) -> TensorFile:
        """Return the tensors of a blob; one that is not here raises :class:`StoreError`."""
        self.ref(digest)
        return open_tensors(self.path(digest))

    def verify(self, digest: str) -> bool:
        """Return whether the bytes on disk still give the digest."""
        return files.hash_file(self.path(digest)).digest == digest

    def scratch(self) -> Path:
        """Return the path of a new empty file in the same file system; :meth:`put_file` takes it in."""
        handle, name = tempfile.mkstemp(prefix="tmp-", dir=self.root)
        os.close(handle)
        return Path(name)

    def put_file(self, path: Path, *, keep: bool = False) -> BlobRef:
        """Take a file in and return its digest and size.

        Args:
            path: any file; it is moved (or copied from another file system).
            keep: leave the original where it is.
        """
        source = path
        if keep or path.stat().st_dev != self.root.stat().st_dev:
            source = self._copy(path)
        ref = files.hash_file(source)
        try:
            with source.open("rb") as file:
                files.sync_file(file.fileno())
            os.chmod(source, 0o644)
            os.replace(source, self.path(ref.digest))
        except OSError as err:
            raise files.store_error(err, source) from err
        files.sync_folder(self.root)
        if not keep:
            path.unlink(missing_ok=True)
        return ref

    def partial(self, ref: BlobRef, chunk_bytes: int = CHUNK_BYTES) -> Partial:
        """Return the blob on its way in, with the chunks that an earlier try left.

        Raises:
            DiskFullError: the rest would not fit; nothing was written.
            StoreError: another process is receiving this blob.
        """
        path = self.path(ref.digest).with_suffix(".part")
        here = path.stat().st_blocks * 512 if path.exists() else 0
        need, free = max(0, ref.size_bytes - here) + self._spare_bytes, files.free_bytes(self.root)
        if need > free:
            sizes = f"{need >> 20} MiB are needed (with {self._spare_bytes >> 20} MiB to spare), {free >> 20} MiB free"
            raise DiskFullError(f"no space for blob {ref.digest[:12]} in {self.root}: {sizes}; free some and try again")
        return Partial(path, ref, chunk_bytes)

    def collect(self, keep: Iterable[str], *, blob_age_s: float = 0.0, part_age_s: float = 86400.0) -> int:
        """Delete blobs that ``keep`` does not name, and old unfinished files; return the freed bytes.

        Args:
            keep: digests that must stay.
            blob_age_s: younger blobs stay: they may be about to be named.
            part_age_s: younger unfinished files stay.
        """
        kept, now_s, freed = {check_digest(digest) for digest in keep}, time.time(), 0
        for path in self.root.iterdir():
            is_blob = _DIGEST.fullmatch(path.name) is not None
            is_part = path.suffix == ".part" or path.name.startswith("tmp-")
            if not (is_blob or is_part) or path.name in kept:
                continue
            try:
                status = path.stat()
                if now_s - status.st_mtime >= (blob_age_s if is_blob else part_age_s):
                    path.unlink()
                    freed += status.st_blocks * 512
            except FileNotFoundError:
                continue  # another process was faster
            except OSError as err:
                raise files.store_error(err, path) from err
        return freed

    def _copy(self, path: Path) -> Path:
        target = self.scratch()
        try:
            shutil.copyfile(path, target)
        except OSError as err:
            target.unlink(missing_ok=True)
            raise files.store_error(err, path) from err
        return target
