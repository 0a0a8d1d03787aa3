"""What a run's folder holds, read from its journal without changing it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fed_core.errors import StoreError

JOURNAL = "journal.sqlite"


@dataclass(frozen=True)
class RobotRecord:
    """One robot of a run.

    Attributes:
        id: robot id.
        samples: samples that it registered with.
        updates: updates that were counted.
        clusters: indices of its clusters.
        losses: training loss of each counted update, by round.
        shared: layers (units of the mask) that each counted update shared, by round; empty where all were.
        units: layers in all; 0 without masks.
    """

    id: str
    samples: int
    updates: int
    clusters: tuple[int, ...]
    losses: tuple[float, ...]
    shared: tuple[int, ...] = ()
    units: int = 0


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Attributes:
        run_id: name of the run.
        strategy: federated method.
        network: the model.
        rounds: rounds that closed.
        total_rounds: rounds that were asked for.
        robots: its robots by id.
        models: (key, digest, bytes) of the newest models.
        warnings: what the method told people, each once, in the order of the rounds.
    """

    run_id: str
    strategy: str
    network: str
    rounds: int
    total_rounds: int
    robots: tuple[RobotRecord, ...]
    models: tuple[tuple[str, str, int], ...]
    warnings: tuple[str, ...] = ()


def shared_layers(robot: RobotRecord) -> str:
    """Return how many layers a robot's last update shared, for people."""
    return f"{robot.shared[-1]} of {robot.units}" if robot.shared else "all"


def read_run(folder: Path) -> RunRecord:
    """Return what the journal of ``folder`` says; it may be of a run that still goes on.

    Raises:
        StoreError: there is no journal, or it is broken.
    """
    with open_journal(folder) as journal:
        return _record(journal)


def runs_of_demo(folder: Path) -> list[Path]:
    """Return the folders of the runs of a demo, by name; none where ``folder`` is no demo, or has begun none."""
    return sorted(path.parent for path in folder.glob(f"aggregator/*/{JOURNAL}"))


@contextmanager
def open_journal(folder: Path) -> Iterator[sqlite3.Connection]:
    """Give the journal of ``folder`` for reading; what is wrong in it while it is read is an error of the folder.

    Raises:
        StoreError: there is no journal, or it is broken.
    """
    path = folder / JOURNAL
    if not path.is_file():
        raise StoreError(f"{folder} holds no {JOURNAL}; name the folder of a run")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as journal:
            yield journal
    except (sqlite3.Error, ValueError, KeyError, TypeError) as err:
        raise StoreError(f"cannot read the journal {path}: {err}; it is broken or of another version") from err


def _record(journal: sqlite3.Connection) -> RunRecord:
    run_id, text = journal.execute("SELECT run_id, config FROM runs").fetchone()
    config = json.loads(text)["run"]
    closed = journal.execute("SELECT round, clusters FROM rounds ORDER BY round DESC LIMIT 1").fetchone()
    number, clusters = (closed[0], json.loads(closed[1])) if closed else (0, {})
    models = journal.execute("SELECT key, digest, size_bytes FROM models WHERE round = ? ORDER BY key", (number,))
    return RunRecord(
        run_id=run_id,
        strategy=config["strategy"],
        network=config["network"],
        rounds=number,
        total_rounds=config["total_rounds"],
        robots=tuple(_robots(journal, clusters)),
        models=tuple(models.fetchall()),
        warnings=_warnings(journal),
    )


def _warnings(journal: sqlite3.Connection) -> tuple[str, ...]:
    logs = (json.loads(text) for (text,) in journal.execute("SELECT log FROM rounds ORDER BY round"))
    return tuple(dict.fromkeys(text for log in logs for text in log.get("warnings", ())))


def _robots(journal: sqlite3.Connection, clusters: dict[str, Any]) -> list[RobotRecord]:
    losses: dict[str, list[float]] = {}
    for robot_id, value in journal.execute("SELECT robot_id, value FROM metrics WHERE name = 'loss' ORDER BY round"):
        losses.setdefault(robot_id, []).append(value)
    counts = dict(journal.execute("SELECT robot_id, COUNT(*) FROM updates GROUP BY robot_id").fetchall())
    masks: dict[str, list[list[int]]] = {}
    for robot_id, text in journal.execute("SELECT robot_id, report FROM updates ORDER BY round"):
        mask = json.loads(text).get("mask")
        if mask:
            masks.setdefault(robot_id, []).append(mask)
    rows = journal.execute("SELECT robot_id, registration FROM robots ORDER BY robot_id").fetchall()
    return [
        RobotRecord(
            id=robot_id,
            samples=int(json.loads(registration)["num_samples"]),
            updates=counts.get(robot_id, 0),
            clusters=tuple(clusters.get(robot_id, ())),
            losses=tuple(losses.get(robot_id, ())),
            shared=tuple(sum(mask) for mask in masks.get(robot_id, ())),
            units=max((len(mask) for mask in masks.get(robot_id, ())), default=0),
        )
        for robot_id, registration in rows
    ]
