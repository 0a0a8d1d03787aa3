"""The journal: all or nothing, nothing twice, nothing lost by a kill or a full disk."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.errors import DiskFullError, StoreError
from fed_core.store.journal import Journal, RoundRow
from fed_core.types import BlobRef, Descriptor

ROOT = Path(__file__).resolve().parents[3]
CONFIG = {"strategy": "fedavg", "rounds": 3}
MEMORY = BlobRef("a" * 64, 10)


def row(number: int, **changes: Any) -> RoundRow:
    return RoundRow(number, {"round": number}, MEMORY, {"ana": (0, 2)}, {"loss": 0.5}, **changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal(path, "run", CONFIG)
    yield journal
    journal.close()


def reopened(path: Path) -> Journal:
    return Journal(path, "run", CONFIG)


def test_gives_back_what_was_saved_after_a_restart(path: Path, journal: Journal) -> None:
    descriptor = Descriptor("gaussian", {"mean": np.array([1.5, -2.0], np.float32)}, 7, "enc")
    journal.save_robot("ben", {"id": "ben"}, None)
    journal.save_robot("ana", {"id": "old"}, None)
    journal.save_robot("ana", {"id": "ana"}, descriptor)
    journal.commit_round(row(0), {"global": BlobRef("b" * 64, 5)})
    journal.save_update(1, "ben", {"n": 2}, {"loss": 0.25})
    journal.save_update(1, "ana", {"n": 1}, {})
    journal.save_model_info("initial", {"blob": ["c", 1]})
    journal.close()

    again = reopened(path)
    ana, ben = again.robots()
    assert (ana.registration, ben.registration, ben.descriptor) == ({"id": "ana"}, {"id": "ben"}, None)
    assert ana.descriptor is not None
    assert (ana.descriptor.kind, ana.descriptor.num_frames, ana.descriptor.encoder) == ("gaussian", 7, "enc")
    np.testing.assert_array_equal(ana.descriptor.tensors["mean"], descriptor.tensors["mean"])
    assert again.updates(1) == [{"n": 1}, {"n": 2}]  # by robot, whoever came first
    assert again.counts() == {"ana": (1, 1), "ben": (1, 1)}
    assert again.metrics() == [(1, "ben", "loss", 0.25)]
    assert again.last_round() == row(0)
    assert again.model_info("initial") == {"blob": ["c", 1]}
    assert again.model_info("other") is None


def test_a_new_journal_is_empty(journal: Journal) -> None:
    assert (journal.robots(), journal.rounds(), journal.updates(1), journal.counts()) == ([], [], [], {})
    assert journal.last_round() is None


def test_counts_an_update_of_a_robot_once_per_round(journal: Journal) -> None:
    journal.save_update(1, "ana", {"n": 1}, {"loss": 1.0})
    with pytest.raises(StoreError, match="cannot write .*UNIQUE"):
        journal.save_update(1, "ana", {"n": 2}, {"loss": 9.0})
    assert journal.updates(1) == [{"n": 1}]
    assert journal.metrics() == [(1, "ana", "loss", 1.0)]  # of the refused one, nothing stayed
    journal.save_update(2, "ana", {"n": 3}, {})
    assert journal.counts() == {"ana": (2, 2)}


def test_a_round_closes_once_and_as_a_whole(journal: Journal) -> None:
    journal.commit_round(row(0), {"global": MEMORY})
    with pytest.raises(StoreError, match="UNIQUE"):
        journal.commit_round(
            row(
                0,
            ),
            {"other": MEMORY},
        )
    assert journal._all("SELECT key FROM models") == [("global",)]


class Tripwire:
    """A connection that breaks before its n-th statement."""

    def __init__(self, db: sqlite3.Connection, after: int) -> None:
        self._db, self._left = db, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, values: Any = ()) -> Any:
        if not sql.startswith("ROLLBACK"):
            self._left -= 1
            if self._left < 0:
                raise sqlite3.OperationalError("disk I/O error")
        return self._db.execute(sql, values)


@pytest.mark.parametrize("after", range(5))
def test_a_commit_that_breaks_anywhere_leaves_nothing_behind(path: Path, journal: Journal, after: int) -> None:
    journal.commit_round(row(0), {"global": MEMORY})
    whole = journal._db
    journal._db = Tripwire(whole, after)  # type: ignore[assignment] # BEGIN, round, two models, COMMIT
    with pytest.raises(StoreError, match="cannot write .*journal.sqlite: disk I/O error"):
        journal.commit_round(row(1), {"cluster/0": MEMORY, "cluster/1": MEMORY})
    journal._db = whole
    assert journal.last_round() == row(0)
    assert len(reopened(path)._all("SELECT * FROM models")) == 1
    journal.commit_round(row(1), {"cluster/0": MEMORY, "cluster/1": MEMORY})
    assert reopened(path).last_round() == row(1)


def test_refuses_another_run_another_configuration_and_another_schema(path: Path, journal: Journal) -> None:
    with pytest.raises(StoreError, match="belongs to run 'run', not to 'other'; use another folder"):
        Journal(path, "other", CONFIG)
    with pytest.raises(
        StoreError, match=r"was started with another configuration \(rounds differ\); use another folder or that one"
    ):
        Journal(path, "run", {**CONFIG, "rounds": 4})
    journal._db.execute("UPDATE runs SET schema = 3")
    with pytest.raises(StoreError, match="has schema 3, this version reads 2; use another folder"):
        reopened(path)


def test_a_configuration_is_the_same_whatever_the_order_of_its_keys(path: Path, journal: Journal) -> None:
    Journal(path, "run", dict(reversed(CONFIG.items()))).close()
    Journal(path, "run", {**CONFIG, "rounds": 3.0}).close()


def test_refuses_a_file_that_is_no_journal_and_a_folder_that_is_not_there(tmp_path: Path, path: Path) -> None:
    path.write_bytes(b"these bytes are no database at all, however long one looks at them" * 20)
    with pytest.raises(StoreError, match="cannot open the journal .*: file is not a database"):
        reopened(path)
    with pytest.raises(StoreError, match="cannot open the journal .*: unable to open database file"):
        reopened(tmp_path / "missing" / "journal.sqlite")


def test_an_empty_file_becomes_a_journal(path: Path) -> None:
    path.touch()  # killed between the making of the file and of its tables
    assert reopened(path).rounds() == []


def test_a_full_disk_is_told_and_loses_nothing(path: Path, journal: Journal) -> None:
    journal.commit_round(row(0), {"global": MEMORY})
    pages = journal._one("PRAGMA page_count")[0]
    journal._db.execute(f"PRAGMA max_page_count = {pages + 2}")
    saved = 0
    with pytest.raises(DiskFullError, match="no space left to write .*journal.sqlite; free some, then start again"):
        for number in range(1, 100):
            journal.save_update(number, "ana", {"text": "x" * 1000}, {})
            saved = number
    assert 0 < saved < 99
    assert journal.counts() == {"ana": (saved, saved)}
    again = reopened(path)
    assert again.counts() == {"ana": (saved, saved)}
    assert again.last_round() == row(0)
    journal._db.execute("PRAGMA max_page_count = 100000")
    journal.save_update(saved + 1, "ana", {}, {})


WRITER = """
import sys
from pathlib import Path
from fed_core.store.journal import Journal, RoundRow
from fed_core.types import BlobRef
journal = Journal(Path(sys.argv[1]), "run", {"strategy": "fedavg", "rounds": 3})
last = journal.last_round()
for number in range(last.round + 1 if last else 0, 10**6):
    for robot in ("ana", "ben"):
        if robot not in [report["robot"] for report in journal.updates(number)]:
            journal.save_update(number, robot, {"robot": robot, "text": "x" * 3000}, {"loss": 0.5})
    models = {f"cluster/{k}": BlobRef("b" * 64, k) for k in range(8)}
    journal.commit_round(RoundRow(number, {"round": number}, BlobRef("a" * 64, 1), {}, {}), models)
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_a_killed_writer_leaves_whole_rounds_and_goes_on_after_them(path: Path) -> None:
    told = -1
    for lines in (1, 7, 4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert writer.stdout is not None
        for _ in range(lines):
            told = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait(10)
        told = max([told, *(int(line) for line in rest if line)])

        journal = reopened(path)
        assert journal._one("PRAGMA integrity_check")[0] == "ok"
        rounds = [entry.round for entry in journal.rounds()]
        assert rounds == list(range(len(rounds)))
        assert rounds[-1] in (told, told + 1)  # what was told is there; at most the round in the making is more
        per_round = journal._all("SELECT round, COUNT(*) FROM models GROUP BY round ORDER BY round")
        assert per_round == [(number, 8) for number in rounds]
        updates = journal._all("SELECT round, COUNT(*) FROM updates GROUP BY round ORDER BY round")
        assert [count for number, count in updates if number <= rounds[-1]] == [2] * len(rounds)
        assert json.loads(json.dumps(journal.last_round().plan)) == {"round": rounds[-1]}  # type: ignore[union-attr]
        journal.close()
