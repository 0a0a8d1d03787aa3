"""What ends a study's processes, or one piece of their work, in one clear line."""

from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from fed_core.errors import StudyError
from fed_core.study import pool
from fed_core.study.base import CellJob, OnStep
from fed_core.study.config import Cell
from fed_core.study.pool import CellWork, Failure, PieceWork, done
from fed_core.study.workers import Workers
from tests.core.study.small import config
from tests.core.training.tiny import toolbox

JOB = CellJob(Cell("tiny", "fedavg", 0), config("fedavg"), None, Path())  # type: ignore[arg-type]
FULL = "[Errno 28] No space left on device"


def fill_the_disk(*args: Any) -> None:
    raise OSError(28, "No space left on device")


class Large:
    name = "streets"

    def write(self, folder: Path, on_step: OnStep) -> None:
        fill_the_disk()


def test_full_disk_fails_one_run_or_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "run_cell", fill_the_disk)

    for work, name in ((CellWork(JOB), "tiny fedavg seed 0"), (PieceWork(Large(), tmp_path), "streets")):
        assert done(work, toolbox(), lambda what, done, total: None) == Failure(name, FULL)


def test_pool_that_broke_between_two_stages_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise BrokenProcessPool

    pool = Workers(1, toolbox)
    monkeypatch.setattr(pool._pool, "submit", refuse)
    try:
        for work in (pool.run([JOB]), pool.write([Large()], Path())):
            with pytest.raises(StudyError, match=r"a process of the study was killed \(out of memory\?\); start it"):
                list(work)
    finally:
        pool.__exit__()
