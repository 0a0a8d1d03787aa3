"""One process at a time in a run's folder."""

from pathlib import Path

import pytest

from fed_core.errors import StoreError
from fed_core.store.run_lock import lock_run


def test_the_second_is_told_and_may_come_when_the_first_is_gone(tmp_path: Path) -> None:
    first = lock_run(tmp_path / "run")
    with pytest.raises(StoreError, match="^another process runs in .*/run; wait until it ends, or use another folder$"):
        lock_run(tmp_path / "run")
    first.close()
    lock_run(tmp_path / "run").close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="^cannot make the run folder .*/file/run: Not a directory$"):
        lock_run(tmp_path / "file" / "run")
