"""What goes to the disk at once, and what is left to the system."""

import os
from pathlib import Path

import pytest

from fed_core.store.blobs import BlobStore
from fed_core.store.journal import Journal
from fed_core.wire import files


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of fsync."""
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    return calls


def test_a_file_and_its_folder_are_flushed_unless_told_otherwise(tmp_path: Path, synced: list[int]) -> None:
    files.write_text(tmp_path / "one", "text")
    assert len(synced) == 2
    with files.flushing(False):
        files.write_text(tmp_path / "two", "text")
        with files.flushing(True):
            files.write_text(tmp_path / "three", "text")
            assert len(synced) == 4
        store = BlobStore(tmp_path / "blobs")
        source = store.scratch()
        store.put_file(source)
    assert len(synced) == 4
    assert files.flushes()
    assert (tmp_path / "two").read_text() == "text"


@pytest.mark.parametrize(("on", "level"), [(True, 2), (False, 1)])  # SQLite: 2 = FULL, 1 = NORMAL
def test_the_journal_waits_for_the_disk_where_files_are_flushed(tmp_path: Path, on: bool, level: int) -> None:
    journal = Journal(tmp_path / "journal.sqlite", "run", {})
    with files.flushing(on):
        journal.save_model_info("initial", {"blob": "b"})
    assert journal._db.execute("PRAGMA synchronous").fetchone() == (level,)
    journal.close()
