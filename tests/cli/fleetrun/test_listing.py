"""What ``fedperc runs`` lists of a folder, also while a run goes on in it."""

from pathlib import Path

import pytest

from fed_cli.fleetrun.listing import listed
from tests.cli.fleetrun.run_folders import write_run


def test_a_blob_that_is_removed_meanwhile_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on removes blobs between the look into the folder and the look at the file."""
    run = write_run(tmp_path / "run", network=False)
    (run / "blobs" / "gone").write_bytes(bytes(1000))
    real = Path.stat

    def stat(path: Path, **options: bool) -> object:
        found = real(path, **options)
        if path.name == "gone":
            path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "stat", stat)
    (one,) = listed(tmp_path)
    assert one.note == "finished"
    assert not (run / "blobs" / "gone").exists()
