"""Everything that a run's journal tells of its rounds, for people; it may be of a run that still goes on."""

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fed_cli.fleetrun.runs import open_journal
from fed_core.errors import FedError
from fed_core.roles.messages import FleetPlan
from fed_core.store.journal import SCHEMA_VERSION
from fed_core.types import ModelSignature

#: Before the name of a layer in a robot's figures.
CKA = "cka/"


@dataclass(frozen=True)
class Update:
    """One counted update.

    Attributes:
        loss: of training; None where it was not finite.
        seconds: of training.
        sent_bytes: size of what the robot sent.
        samples: it trained on.
        mask: one bit per unit, 1 = shared; None = everything is shared.
        scores: CKA by layer, in network order.
    """

    loss: float | None
    seconds: float | None
    sent_bytes: int
    samples: int
    mask: tuple[int, ...] | None
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Round:
    """One closed round; round 0 is the start.

    Attributes:
        number: of the round.
        closed_s: time of day when it closed.
        clusters: of every robot.
        received_bytes: size of the models that the next plan gives to each robot.
        asked: robots that the next round asks for.
        log: figures of the strategy.
    """

    number: int
    closed_s: float
    clusters: Mapping[str, tuple[int, ...]]
    received_bytes: Mapping[str, int]
    asked: tuple[str, ...]
    log: Mapping[str, Any]


@dataclass(frozen=True)
class History:
    """A run, round by round.

    Attributes:
        name: what it is called in a report.
        folder: where it lies.
        config: what the run has in common.
        robots: registration of each robot, by id.
        rounds: the closed ones, in order.
        updates: by (round, robot).
        units: names of the units of masks; empty where no mask was sent.
    """

    name: str
    folder: Path
    config: Mapping[str, Any]
    robots: Mapping[str, Mapping[str, Any]]
    rounds: tuple[Round, ...]
    updates: Mapping[tuple[int, str], Update]
    units: tuple[str, ...] = field(default=())

    @property
    def trained(self) -> list[Round]:
        """The closed rounds in which robots trained."""
        return [one for one in self.rounds if one.number > 0]

    @property
    def total_rounds(self) -> int:
        """Rounds that were asked for."""
        return int(self.config.get("total_rounds", 0))

    @property
    def names(self) -> list[str]:
        """All robots that registered or sent something."""
        return sorted({*self.robots, *(robot for _, robot in self.updates)})

    def of_round(self, number: int) -> dict[str, Update]:
        """Return the updates of a round, by robot."""
        return {robot: update for (turn, robot), update in self.updates.items() if turn == number}

    def absent(self) -> list[tuple[int, str]]:
        """Return (round, robot) of everyone who was asked for and was not counted."""
        asked = {before.number + 1: before.asked for before in self.rounds}
        closed = {one.number for one in self.trained}
        return [(n, r) for n in sorted(closed & set(asked)) for r in asked[n] if (n, r) not in self.updates]

    def seconds(self) -> dict[int, float]:
        """Return how long each round took, from the end of the one before."""
        pairs = zip(self.rounds, self.rounds[1:], strict=False)
        return {after.number: after.closed_s - before.closed_s for before, after in pairs}


def read_history(folder: Path, name: str) -> History:
    """Return what the journal of ``folder`` tells.

    Raises:
        StoreError: there is no journal, or it is broken.
    """
    with open_journal(folder) as journal:
        schema, text = journal.execute("SELECT schema, config FROM runs").fetchone()
        if schema != SCHEMA_VERSION:
            raise ValueError(f"it has schema {schema}, this version reads {SCHEMA_VERSION}")
        tree = json.loads(text)
        robots = journal.execute("SELECT robot_id, registration FROM robots ORDER BY robot_id").fetchall()
        updates = dict(_updates(journal))
        masked = any(update.mask for update in updates.values())
        return History(
            name=name,
            folder=folder,
            config=dict(tree["run"]),
            robots={robot: json.loads(registration) for robot, registration in robots},
            rounds=tuple(_rounds(journal)),
            updates=updates,
            units=_units(tree) if masked else (),
        )


def _updates(journal: sqlite3.Connection) -> Iterator[tuple[tuple[int, str], Update]]:
    for number, robot, text in journal.execute("SELECT round, robot_id, report FROM updates ORDER BY round, robot_id"):
        report = json.loads(text)
        scalars = report.get("scalars") or {}
        mask = report.get("mask")
        yield (
            (int(number), str(robot)),
            Update(
                loss=_finite(report.get("loss")),
                seconds=_finite(report.get("seconds")),
                sent_bytes=sum(int(blob["size_bytes"]) for blob in (report.get("blobs") or {}).values()),
                samples=int(report.get("num_samples") or 0),
                mask=None if mask is None else tuple(int(bit) for bit in mask),
                scores={
                    key[len(CKA) :]: float(value)
                    for key, value in scalars.items()
                    if key.startswith(CKA) and _finite(value) is not None
                },
            ),
        )


def _rounds(journal: sqlite3.Connection) -> Iterator[Round]:
    rows = journal.execute("SELECT round, closed_s, plan, clusters, log FROM rounds ORDER BY round")
    for number, closed_s, plan_text, clusters, log in rows:
        tree = json.loads(plan_text)
        plan = FleetPlan.from_json(tree) if tree else None
        yield Round(
            number=int(number),
            closed_s=float(closed_s),
            clusters={str(robot): tuple(ids) for robot, ids in json.loads(clusters).items()},
            received_bytes={} if plan is None else {robot: _size(plan, robot) for robot in plan.robots},
            asked=() if plan is None or plan.finished else plan.participants,
            log=json.loads(log),
        )


def _size(plan: FleetPlan, robot: str) -> int:
    """Return the bytes that a plan gives to a robot, each blob once."""
    return sum({blob.digest: blob.size_bytes for blob in plan.wanted_by(robot).values()}.values())


def _units(tree: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the module of each bit; nothing where the strategy of the run is not installed here."""
    from fed_core.strategies.base import make_strategy

    try:
        signature = ModelSignature.from_json(tree["initial"]["signature"])
        strategy = make_strategy(tree["run"]["strategy"], tree["run"]["strategy_options"])
        units = strategy.units(signature)
    except (FedError, KeyError):
        return ()
    owners = {spec.name: spec.owner or spec.name for spec in signature.tensors}
    return tuple(owners.get(unit[0], unit[0]) if unit else "" for unit in units)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
