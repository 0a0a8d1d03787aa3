"""The aggregator's journal: one SQLite file per run, from which a killed aggregator goes on.

A round is committed in one transaction, after its blobs are on disk. Each (round, robot) holds at most one update, so
that none is counted twice.
"""

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import safetensors.numpy

from fed_core.errors import DiskFullError, StoreError
from fed_core.types import BlobRef, Descriptor
from fed_core.wire.files import flushes

SCHEMA_VERSION = 2

_SCHEMA = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, schema INTEGER NOT NULL, created_s REAL NOT NULL, config TEXT NOT NULL);
CREATE TABLE robots (robot_id TEXT PRIMARY KEY, registration TEXT NOT NULL, descriptor TEXT, tensors BLOB);
CREATE TABLE quarantine (robot_id TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE rounds (round INTEGER PRIMARY KEY, closed_s REAL NOT NULL, plan TEXT NOT NULL, memory TEXT NOT NULL,
                     clusters TEXT NOT NULL, log TEXT NOT NULL, inputs TEXT NOT NULL);
CREATE TABLE updates (round INTEGER NOT NULL, robot_id TEXT NOT NULL, received_s REAL NOT NULL, report TEXT NOT NULL,
                      PRIMARY KEY (round, robot_id));
CREATE TABLE models (round INTEGER NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, size_bytes INTEGER NOT NULL,
                     PRIMARY KEY (round, key));
CREATE TABLE metrics (round INTEGER NOT NULL, robot_id TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,
                      PRIMARY KEY (round, robot_id, name));
"""


@dataclass(frozen=True)
class RoundRow:
    """A closed round as the journal keeps it; round 0 is the start.

    Attributes:
        round: number of the round that closed.
        plan: JSON tree of the plan that followed.
        memory: the strategy's memory.
        clusters: clusters by robot.
        log: figures of the round.
        inputs: what the strategy was told beside updates and memory; :mod:`fed_core.audit` derives the round from it.
    """

    round: int
    plan: Any
    memory: BlobRef
    clusters: Mapping[str, tuple[int, ...]]
    log: Mapping[str, Any]
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RobotRow:
    """A registered robot as the journal keeps it."""

    registration: Any
    descriptor: Descriptor | None


class Journal:
    """Open (or create) the journal of a run.

    Args:
        path: the SQLite file; its folder must exist.
        run_id: name of the run; an existing journal of another run is refused.
        config: JSON tree that must be equal when the run is resumed.
    """

    def __init__(self, path: Path, run_id: str, config: Any) -> None:
        self._path = path
        fresh = not path.exists()
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            if fresh or not self._tables():
                self._create(run_id, config)
            else:
                self._check(run_id, config)
        except StoreError:
            self._db.close()
            raise
        except sqlite3.Error as err:
            raise StoreError(f"cannot open the journal {path}: {err}") from err

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def save_model_info(self, key: str, tree: Any) -> None:
        """Keep a JSON tree about the run under ``key`` ("initial")."""
        self._write([("UPDATE runs SET config = json_set(config, ?, json(?))", (f"$.{key}", json.dumps(tree)))])

    def model_info(self, key: str) -> Any:
        """Return what :meth:`save_model_info` kept, or None."""
        return json.loads(self._one("SELECT config FROM runs")[0]).get(key)

    def save_robot(self, robot_id: str, registration: Any, descriptor: Descriptor | None) -> None:
        """Keep a robot; a second call replaces the first."""
        head = tensors = None
        if descriptor is not None:
            head = json.dumps([descriptor.kind, descriptor.num_frames, descriptor.encoder])
            tensors = safetensors.numpy.save(dict(descriptor.tensors))
        row = (robot_id, json.dumps(registration), head, tensors)
        self._write([("INSERT OR REPLACE INTO robots VALUES (?, ?, ?, ?)", row)])

    def robots(self) -> list[RobotRow]:
        """Return the registered robots by id."""
        rows = self._all("SELECT registration, descriptor, tensors FROM robots ORDER BY robot_id")
        return [RobotRow(json.loads(reg), _descriptor(head, tensors)) for reg, head, tensors in rows]

    def save_quarantine(self, robot_id: str, text: str) -> None:
        """Keep why a robot is set aside; "" = it is no more."""
        if text:
            self._write([("INSERT OR REPLACE INTO quarantine VALUES (?, ?)", (robot_id, text))])
        else:
            self._write([("DELETE FROM quarantine WHERE robot_id = ?", (robot_id,))])

    def quarantine(self) -> dict[str, str]:
        """Return the robots that are set aside, each with the reason."""
        return dict(self._all("SELECT robot_id, text FROM quarantine ORDER BY robot_id"))

    def save_update(self, round_number: int, robot_id: str, report: Any, metrics: Mapping[str, float]) -> None:
        """Count an update; a second one of the same robot and round raises :class:`StoreError`."""
        statements: list[tuple[str, tuple[Any, ...]]] = [
            ("INSERT INTO updates VALUES (?, ?, ?, ?)", (round_number, robot_id, time.time(), json.dumps(report)))
        ]
        for name, value in metrics.items():
            statements.append(
                ("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", (round_number, robot_id, name, value))
            )
        self._write(statements)

    def updates(self, round_number: int) -> list[Any]:
        """Return the JSON trees of the reports counted in a round, by robot id."""
        rows = self._all("SELECT report FROM updates WHERE round = ? ORDER BY robot_id", round_number)
        return [json.loads(report) for (report,) in rows]

    def reports(self) -> list[Any]:
        """Return the JSON trees of all reports that were counted."""
        return [json.loads(report) for (report,) in self._all("SELECT report FROM updates ORDER BY round, robot_id")]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return, by robot, how many updates were counted and the last round among them."""
        rows = self._all("SELECT robot_id, COUNT(*), MAX(round) FROM updates GROUP BY robot_id")
        return {robot_id: (count, last) for robot_id, count, last in rows}

    def metrics(self) -> list[tuple[int, str, str, float]]:
        """Return (round, robot, name, value) of all kept figures."""
        return self._all("SELECT round, robot_id, name, value FROM metrics ORDER BY round, robot_id, name")

    def commit_round(self, row: RoundRow, models: Mapping[str, BlobRef]) -> None:
        """Close a round in one transaction."""
        memory = [row.memory.digest, row.memory.size_bytes]
        values = (row.round, time.time(), *map(json.dumps, (row.plan, memory, row.clusters, row.log, row.inputs)))
        statements: list[tuple[str, tuple[Any, ...]]] = [("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?)", values)]
        for key, blob in models.items():
            statements.append(
                ("INSERT INTO models VALUES (?, ?, ?, ?)", (row.round, key, blob.digest, blob.size_bytes))
            )
        self._write(statements)

    def last_round(self) -> RoundRow | None:
        """Return the round that closed last, or None before the start."""
        rows = self.rounds(last=1)
        return rows[0] if rows else None

    def rounds(self, *, last: int = -1) -> list[RoundRow]:
        """Return the closed rounds in order: the ``last`` ones, or all."""
        columns = "round, plan, memory, clusters, log, inputs"
        newest = self._all(f"SELECT {columns} FROM rounds ORDER BY round DESC LIMIT ?", last)  # noqa: S608 - constant
        found = []
        for number, plan, memory, clusters, log, inputs in reversed(newest):
            groups = {robot: tuple(ids) for robot, ids in json.loads(clusters).items()}
            trees = json.loads(log), json.loads(inputs)
            found.append(RoundRow(number, json.loads(plan), BlobRef(*json.loads(memory)), groups, *trees))
        return found

    def _tables(self) -> bool:
        return bool(self._one("SELECT COUNT(*) FROM sqlite_master WHERE name = 'runs'")[0])

    def _create(self, run_id: str, config: Any) -> None:
        statements: list[tuple[str, tuple[Any, ...]]] = [(part, ()) for part in _SCHEMA.split(";") if part.strip()]
        row = (run_id, SCHEMA_VERSION, time.time(), json.dumps({"run": config}))
        self._write([*statements, ("INSERT INTO runs VALUES (?, ?, ?, ?)", row)])

    def _check(self, run_id: str, config: Any) -> None:
        found_id, schema, text = self._one("SELECT run_id, schema, config FROM runs")
        if schema != SCHEMA_VERSION:
            raise StoreError(
                f"{self._path} has schema {schema}, this version reads {SCHEMA_VERSION}; use another folder"
            )
        if found_id != run_id:
            raise StoreError(f"{self._path} belongs to run {found_id!r}, not to {run_id!r}; use another folder")
        saved, wanted = json.loads(text)["run"], json.loads(json.dumps(config))
        if saved != wanted:
            names = ", ".join(key for key in sorted({*saved, *wanted}) if saved.get(key) != wanted.get(key))
            text = f"was started with another configuration ({names} differ); use another folder or that one"
            raise StoreError(f"{self._path} {text}")

    def _write(self, statements: list[tuple[str, tuple[Any, ...]]]) -> None:
        try:
            self._db.execute(f"PRAGMA synchronous={'FULL' if flushes() else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            for sql, values in statements:
                self._db.execute(sql, values)
            self._db.execute("COMMIT")
        except sqlite3.Error as err:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if "full" in str(err):
                raise DiskFullError(f"no space left to write {self._path}; free some, then start again") from err
            raise StoreError(f"cannot write {self._path}: {err}") from err

    def _one(self, sql: str) -> Any:
        with closing(self._db.execute(sql)) as cursor:
            return cursor.fetchone()

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with closing(self._db.execute(sql, values)) as cursor:
            return cursor.fetchall()


def read_run(path: Path) -> tuple[str, Any]:
    """Return (name, JSON tree of the configuration) of the run whose journal is ``path``.

    Raises:
        StoreError: there is none, it is broken, or of another version.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as journal:
            run_id, schema, text = journal.execute("SELECT run_id, schema, config FROM runs").fetchone()
            tree = json.loads(text)["run"]
    except (sqlite3.Error, ValueError, KeyError, TypeError) as err:
        raise StoreError(f"cannot read the journal {path}: {err}; name the folder of a run") from err
    if schema != SCHEMA_VERSION:
        raise StoreError(f"{path} has schema {schema}, this version reads {SCHEMA_VERSION}")
    return run_id, tree


def _descriptor(head: str | None, tensors: bytes | None) -> Descriptor | None:
    if head is None or tensors is None:
        return None
    kind, num_frames, encoder = json.loads(head)
    return Descriptor(kind, safetensors.numpy.load(tensors), num_frames, encoder)
