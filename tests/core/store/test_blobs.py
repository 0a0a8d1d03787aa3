"""The content-addressed store and blobs on their way in."""

import errno
import hashlib
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from fed_core.errors import DiskFullError, StoreError, WireError
from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_core.wire import files
from fed_core.wire.codec import write_tensors

CHUNK = 1024
DATA = np.random.default_rng(0).bytes(5 * CHUNK + 100)
REF = BlobRef(hashlib.sha256(DATA).hexdigest(), len(DATA))


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs", spare_bytes=0)


def chunk(index: int) -> bytes:
    return DATA[index * CHUNK : (index + 1) * CHUNK]


def received(store: BlobStore, *indices: int) -> None:
    part = store.partial(REF, CHUNK)
    for index in indices:
        part.write(index, chunk(index))
    part.close()


def test_a_file_is_moved_in_and_found_by_its_digest(store: BlobStore, tmp_path: Path) -> None:
    write_tensors(tmp_path / "model", {"w": np.arange(3.0)})

    ref = store.put_file(tmp_path / "model")

    assert store.has(ref.digest) and store.ref(ref.digest) == ref and store.verify(ref.digest)
    assert store.open(ref.digest)["w"].tolist() == [0.0, 1.0, 2.0]
    assert not (tmp_path / "model").exists()


def test_keep_leaves_the_original(store: BlobStore, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)

    assert store.put_file(tmp_path / "a", keep=True) == REF
    assert (tmp_path / "a").read_bytes() == DATA
    assert [path.name for path in store.root.iterdir()] == [REF.digest]


@pytest.mark.parametrize("digest", ["../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n", "", "٣" * 64])
def test_only_digests_name_files(store: BlobStore, digest: str) -> None:
    for ask in (
        store.path,
        store.has,
        store.open,
        lambda d: store.partial(BlobRef(d, 1)),
        lambda d: store.collect([d]),
    ):
        with pytest.raises(WireError, match="is no blob digest; expected 64 lower-case hex digits"):
            ask(digest)


def test_a_blob_that_is_not_here(store: BlobStore) -> None:
    with pytest.raises(StoreError, match=f"blob {REF.digest[:12]} is not in "):
        store.open(REF.digest)


def test_chunks_in_any_order_and_twice(store: BlobStore) -> None:
    received(store, 5, 0, 3, 3, 1, 0)
    part = store.partial(REF, CHUNK)
    assert part.missing == (2, 4)
    assert part.write(4, chunk(4)) and part.write(2, chunk(2), zlib.crc32(chunk(2)))

    part.finish()

    assert store.path(REF.digest).read_bytes() == DATA
    assert [path.name for path in store.root.iterdir()] == [REF.digest]


def test_a_chunk_that_does_not_give_its_crc_is_not_stored(store: BlobStore) -> None:
    part = store.partial(REF, CHUNK)

    assert not part.write(0, chunk(0), zlib.crc32(chunk(1)))
    assert part.missing == (0, 1, 2, 3, 4, 5)


def test_the_table_cannot_lie(store: BlobStore) -> None:
    received(store, 0, 1, 2)
    with store.path(REF.digest).with_suffix(".part").open("r+b") as file:
        file.seek(CHUNK + 7)
        file.write(b"x")  # as if the page of chunk 1 never reached the disk

    assert store.partial(REF, CHUNK).missing == (1, 3, 4, 5)


def test_another_chunk_size_or_a_foreign_file_starts_anew(store: BlobStore) -> None:
    received(store, 0, 1, 2)
    part = store.partial(REF, 2 * CHUNK)
    assert part.missing == (0, 1, 2)
    part.close()
    store.path(REF.digest).with_suffix(".part").write_bytes(b"something else")

    assert store.partial(REF, CHUNK).missing == (0, 1, 2, 3, 4, 5)


def test_killed_between_truncation_and_rename(store: BlobStore) -> None:
    store.path(REF.digest).with_suffix(".part").write_bytes(DATA)

    part = store.partial(REF, CHUNK)
    assert part.missing == ()
    part.finish()

    assert store.path(REF.digest).read_bytes() == DATA


def test_wrong_bytes_are_dropped_at_the_end(store: BlobStore) -> None:
    received(store, 0, 1, 2, 3, 4)
    part = store.partial(REF, CHUNK)
    part.write(5, bytes(100))

    with pytest.raises(WireError, match="do not give its digest; they were dropped"):
        part.finish()

    assert list(store.root.iterdir()) == []


def test_finish_needs_every_chunk(store: BlobStore) -> None:
    received(store, 0)

    with pytest.raises(WireError, match="lacks 5 of 6 chunks"):
        store.partial(REF, CHUNK).finish()


@pytest.mark.parametrize(("index", "data"), [(0, bytes(CHUNK - 1)), (5, bytes(CHUNK)), (6, b""), (-1, bytes(CHUNK))])
def test_chunks_of_the_wrong_place_or_length(store: BlobStore, index: int, data: bytes) -> None:
    with pytest.raises(WireError, match=f"chunk {index} of blob"):
        store.partial(REF, CHUNK).write(index, data)


def test_an_empty_blob(store: BlobStore) -> None:
    ref = BlobRef(hashlib.sha256(b"").hexdigest(), 0)

    store.partial(ref).finish()

    assert store.ref(ref.digest) == ref


def test_two_receivers_of_one_blob(store: BlobStore) -> None:
    first = store.partial(REF, CHUNK)

    with pytest.raises(StoreError, match="is being received by another process"):
        store.partial(REF, CHUNK)

    first.close()
    store.partial(REF, CHUNK).close()


def test_kill_9_while_writing_loses_nothing_that_was_noted(store: BlobStore) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from fed_core.store.blobs import BlobStore;"
        "from fed_core.types import BlobRef; data = sys.stdin.buffer.read();"
        f"part = BlobStore(Path(sys.argv[1]), spare_bytes=0).partial(BlobRef(sys.argv[2], len(data)), {CHUNK});"
        f"[part.write(i, data[i * {CHUNK} : (i + 1) * {CHUNK}]) for i in (4, 1)]; os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, store.root, REF.digest], input=DATA, timeout=60)  # noqa: S603

    assert done.returncode == -9
    assert store.partial(REF, CHUNK).missing == (0, 2, 3, 5)


def test_no_space_is_told_before_anything_is_written(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda folder: 10 << 20)

    with pytest.raises(DiskFullError) as caught:
        store.partial(BlobRef(REF.digest, 1 << 30))

    assert "1024 MiB are needed (with 0 MiB to spare), 10 MiB free; free some and try again" in str(caught.value)
    assert list(store.root.iterdir()) == []


def test_a_disk_that_fills_while_a_blob_comes_keeps_what_came(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    received(store, 0, 1)
    part = store.partial(REF, CHUNK)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(DiskFullError, match="no space is left for .*nothing saved is lost"):
            part.write(2, chunk(2))
    part.close()

    assert store.partial(REF, CHUNK).missing == (2, 3, 4, 5)


def test_a_disk_that_fills_while_a_model_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def nearly_full(descriptor: int, data: bytes) -> int:
        if len(data) > 4096:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(DiskFullError, match="no space is left for .*model"):
        write_tensors(tmp_path / "model", {"w": np.zeros(10_000)})

    assert list(tmp_path.iterdir()) == []


def test_collect_keeps_what_is_named_and_what_is_young(store: BlobStore, tmp_path: Path) -> None:
    refs = []
    for content in (b"one", b"two", b"three"):
        (tmp_path / "f").write_bytes(content)
        refs.append(store.put_file(tmp_path / "f"))
    received(store, 0)
    part = store.path(REF.digest).with_suffix(".part")
    stranger = store.root / "README"
    stranger.write_text("not ours")
    os.utime(store.path(refs[1].digest), (0, 0))

    assert store.collect([refs[0].digest], blob_age_s=3600.0) > 0
    assert [store.has(ref.digest) for ref in refs] == [True, False, True]
    assert part.exists()

    os.utime(part, (0, 0))
    store.collect([refs[0].digest])
    assert sorted(path.name for path in store.root.iterdir()) == sorted([refs[0].digest, "README"])
