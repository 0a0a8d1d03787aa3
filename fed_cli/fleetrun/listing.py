"""Finds the runs below a folder and reads how far each is."""

import time
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from fed_cli.fleetrun.runs import JOURNAL, open_journal, read_run
from fed_core.errors import DataError, StoreError


@dataclass(frozen=True)
class Listed:
    """One run.

    Attributes:
        folder: where it is.
        strategy: federated method.
        network: the model.
        rounds: rounds that closed.
        total_rounds: rounds that were asked for.
        robots: robots that registered.
        updates: updates that were counted.
        size_bytes: bytes of its folder.
        closed: local time at which the last round closed, "" before it.
        note: what is wrong with it, or "finished", or "" while it may go on.
    """

    folder: Path
    strategy: str = ""
    network: str = ""
    rounds: int = 0
    total_rounds: int = 0
    robots: int = 0
    updates: int = 0
    size_bytes: int = 0
    closed: str = ""
    note: str = ""


def listed(folder: Path) -> list[Listed]:
    """Return the runs below ``folder``, at any depth, that whose last round, or start, is the oldest first.

    Raises:
        DataError: there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; name one that holds runs")
    found = [(path.stat().st_mtime, _read(path.parent)) for path in folder.rglob(JOURNAL)]
    return [run for _, run in sorted(found, key=lambda each: (each[1].closed or _time(each[0]), each[1].folder))]


def _read(folder: Path) -> Listed:
    size = sum(_size(path) for path in folder.rglob("*"))
    try:
        record = read_run(folder)
        with open_journal(folder) as journal:
            (closed_s,) = journal.execute("SELECT MAX(closed_s) FROM rounds").fetchone()
    except StoreError as err:
        return Listed(folder, size_bytes=size, note=str(err))
    return Listed(
        folder=folder,
        strategy=record.strategy,
        network=record.network,
        rounds=record.rounds,
        total_rounds=record.total_rounds,
        robots=len(record.robots),
        updates=sum(robot.updates for robot in record.robots),
        size_bytes=size,
        closed=_time(closed_s) if closed_s else "",
        note="finished" if record.rounds >= record.total_rounds else "",
    )


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _size(path: Path) -> int:
    """Return the bytes of a file; 0 of anything else, also of a blob that a run has just removed."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return status.st_size if S_ISREG(status.st_mode) else 0
