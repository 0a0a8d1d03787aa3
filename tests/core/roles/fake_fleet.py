"""A fleet of roles on a network that loses, doubles and reorders messages, with a clock of its own.

Aggregator and robots may be restarted at any moment. What they keep on disk is a dictionary here; latched topics
(plan, fleet status, descriptor, report) reach late readers as long as their writer lives, as on DDS.
"""

import hashlib
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from fed_core.errors import Refusal
from fed_core.roles import events as ev
from fed_core.roles.aggregator import Aggregator
from fed_core.roles.membership import AggregatorConfig, Snapshot
from fed_core.roles.messages import FleetPlan, Registration, RunConfig, UpdateReport
from fed_core.roles.robot import Robot, RobotConfig
from fed_core.strategies.base import RobotPlan
from fed_core.types import BlobRef, Descriptor, ModelSignature, TensorSpec

AGGREGATOR = ""
SIGNATURE = ModelSignature("toy", (TensorSpec("w", (2,), "float32", True, "", "Linear"),))
RUN = RunConfig("fedavg", {}, "depth", "toy", {}, {}, total_rounds=3, seed=0)


def blob(*parts: object) -> BlobRef:
    return BlobRef(hashlib.sha256(repr(parts).encode()).hexdigest(), 100)


def described(position: float = 0.0, encoder: str = "enc") -> Descriptor:
    arrays = {"mean": np.array([position], np.float32), "variance": np.ones(1, np.float32)}
    return Descriptor("gaussian", arrays, 10, encoder)


def plan_after(run: RunConfig, effect: ev.StartAggregation, robots: list[str], run_id: str = "run") -> FleetPlan:
    """Return what a strategy with one global model answers."""
    return FleetPlan(
        run_id=run_id,
        config=run,
        round=min(effect.round + 1, run.total_rounds),
        finished=effect.round >= run.total_rounds,
        robots={robot_id: RobotPlan(("global",)) for robot_id in robots},
        participants=effect.alive,
        blobs={"global": blob("global", effect.round)},
        models=("global",),
    )


@dataclass
class Journal:
    """The aggregator's disk; it refuses what must never happen."""

    initial: ev.InitialModel | None = None
    members: dict[str, tuple[Registration, Descriptor | None]] = field(default_factory=dict)
    updates: dict[tuple[int, str], UpdateReport] = field(default_factory=dict)
    outcomes: list[ev.RoundOutcome] = field(default_factory=list)

    def save_update(self, report: UpdateReport) -> None:
        key = (report.round, report.robot_id)
        assert key not in self.updates, f"{key} is counted twice"
        assert report.round == self.outcomes[-1].plan.round, "an update of another round is counted"
        assert not self.outcomes[-1].plan.finished, "an update is counted after the end"
        assert report.robot_id in self.outcomes[-1].plan.participants, "an outsider's update is counted"
        self.updates[key] = report

    def commit(self, outcome: ev.RoundOutcome) -> None:
        last = self.outcomes[-1].plan if self.outcomes else None
        assert last is None or not last.finished, "a round is closed after the end"
        expected = 1 if last is None else last.round + 1
        assert outcome.plan.finished or outcome.plan.round == expected
        self.outcomes.append(outcome)

    def snapshot(self) -> Snapshot:
        counts: dict[str, tuple[int, int]] = {}
        for number, robot_id in sorted(self.updates):
            counts[robot_id] = (counts.get(robot_id, (0, 0))[0] + 1, number)
        plan = self.outcomes[-1].plan if self.outcomes else None
        current = plan.round if plan and not plan.finished else -1
        reports = tuple(r for (n, _), r in sorted(self.updates.items()) if n == current)
        return Snapshot(self.initial, tuple(self.members.values()), plan, {}, reports, counts)


@dataclass
class Weather:
    """How bad the network is; all are probabilities."""

    loss: float = 0.0
    doubling: float = 0.0
    blob_failure: float = 0.0
    delay_s: float = 0.5


class FakeFleet:
    """Aggregator "" and robots by id, driven event by event."""

    def __init__(
        self,
        robot_ids: list[str],
        *,
        rounds: int = 3,
        kind: str | None = None,
        seed: int = 0,
        config: AggregatorConfig | None = None,
    ) -> None:
        self.rng, self.weather = Random(seed), Weather()
        self.run = replace(RUN, total_rounds=rounds)
        self.kind = kind
        self.config = config or AggregatorConfig(min_robots=len(robot_ids), round_deadline_s=60.0)
        self.now_s = 0.0
        self.journal = Journal()
        self.reports: dict[str, UpdateReport] = {}  # the robots' disks
        self.trainings: list[tuple[str, int]] = []
        self.logs: list[tuple[str, str]] = []
        self.latched: dict[str, dict[str, Any]] = {}
        self._lives: dict[str, int] = dict.fromkeys((AGGREGATOR, *robot_ids), 0)
        self._roles: dict[str, Any] = {}
        self._queue: list[tuple[float, int, str, int, ev.Event]] = []
        self._order = itertools.count()
        self._cancelled: set[tuple[str, str]] = set()
        for who in (AGGREGATOR, *robot_ids):
            self.start(who)

    # ---- life ----------------------------------------------------------------------------------------------------

    def start(self, who: str) -> None:
        """Start or restart a process: what it had in memory and on its topics is gone."""
        self._lives[who] += 1
        self.latched[who] = {}
        if who == AGGREGATOR:
            snapshot = self.journal.snapshot()
            self._roles[who] = Aggregator(
                self.config, "run", self.run, descriptor=self.kind, snapshot=snapshot, now_s=self.now_s
            )
            if snapshot.initial is None:
                self._later(who, ev.InitialModel(blob("initial"), SIGNATURE))
        else:
            config = RobotConfig(robot_id=who)
            report = self.reports.get(who)
            self._roles[who] = Robot(config, f"{who}-disk", architecture="toy", last_report=report)
        for writer, topics in self.latched.items():
            if (writer == AGGREGATOR) != (who == AGGREGATOR):
                for message in topics.values():
                    self._send(who, message, latched=True)

    def role(self, who: str) -> Any:
        return self._roles[who]

    @property
    def finished(self) -> bool:
        return bool(self.journal.outcomes) and self.journal.outcomes[-1].plan.finished

    def run_for(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass in steps of a second, with a tick for everybody in each."""
        end_s = self.now_s + seconds
        while self.now_s < end_s and not until():
            self.now_s += 1.0
            for who in self._roles:
                self._handle(who, ev.Tick())
            while self._queue and self._queue[0][0] <= self.now_s:
                _, _, who, life, event = heapq.heappop(self._queue)
                if life == self._lives[who] and not self._is_cancelled(who, event):
                    self._handle(who, event)

    def _is_cancelled(self, who: str, event: ev.Event) -> bool:
        # A transfer may end at the very moment of its cancellation, so half of them still answer.
        if isinstance(event, ev.BlobReady | ev.BlobFailed) and (who, event.digest) in self._cancelled:
            self._cancelled.discard((who, event.digest))
            return self.rng.random() < 0.5
        return False

    # ---- network -------------------------------------------------------------------------------------------------

    def _later(self, who: str, event: ev.Event) -> None:
        due_s = self.now_s + self.rng.uniform(0.0, self.weather.delay_s)
        heapq.heappush(self._queue, (due_s, next(self._order), who, self._lives[who], event))

    def _send(self, who: str, message: ev.Event, *, latched: bool = False) -> None:
        if not latched and self.rng.random() < self.weather.loss:
            return
        self._later(who, message)
        while self.rng.random() < self.weather.doubling:
            self._later(who, message)

    def _publish(self, writer: str, message: ev.Event, *, latched: bool = True) -> None:
        if latched:
            self.latched[writer][type(message).__name__] = message
        for reader in self._roles:
            if (reader == AGGREGATOR) != (writer == AGGREGATOR):
                self._send(reader, message, latched=latched)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _handle(self, who: str, event: ev.Event) -> None:
        for effect in self._roles[who].handle(event, self.now_s):
            getattr(self, f"_do_{type(effect).__name__}")(who, effect)

    def _do_Log(self, who: str, effect: ev.Log) -> None:  # noqa: N802 - named after the effects
        self.logs.append((who, f"{effect.level}: {effect.text}"))

    def _do_FetchBlob(self, who: str, effect: ev.FetchBlob) -> None:  # noqa: N802
        self._cancelled.discard((who, effect.blob.digest))
        if self.rng.random() < self.weather.blob_failure:
            self._later(who, ev.BlobFailed(effect.blob.digest, Refusal.BROKEN_BLOB, "the bytes are wrong"))
        else:
            self._later(who, ev.BlobReady(effect.blob.digest))

    def _do_CancelFetch(self, who: str, effect: ev.CancelFetch) -> None:  # noqa: N802
        self._cancelled.add((who, effect.digest))

    def _do_PublishPlan(self, who: str, effect: ev.PublishPlan) -> None:  # noqa: N802
        self._publish(who, effect.plan)

    def _do_PublishFleetStatus(self, who: str, effect: ev.PublishFleetStatus) -> None:  # noqa: N802
        self._publish(who, effect.status)

    def _do_PublishDescriptor(self, who: str, effect: ev.PublishDescriptor) -> None:  # noqa: N802
        self._publish(who, effect.message)

    def _do_PublishReport(self, who: str, effect: ev.PublishReport) -> None:  # noqa: N802
        self._publish(who, effect.report)

    def _do_PublishStatus(self, who: str, effect: ev.PublishStatus) -> None:  # noqa: N802
        self._publish(who, effect.status, latched=False)

    def _do_Register(self, who: str, effect: ev.Register) -> None:  # noqa: N802
        self._send(AGGREGATOR, effect.registration)

    def _do_ReplyRegistration(self, who: str, effect: ev.ReplyRegistration) -> None:  # noqa: N802
        self._send(effect.registration.robot_id, effect.reply)

    def _do_SaveInitialModel(self, who: str, effect: ev.SaveInitialModel) -> None:  # noqa: N802
        self.journal.initial = effect.model

    def _do_SaveRobot(self, who: str, effect: ev.SaveRobot) -> None:  # noqa: N802
        self.journal.members[effect.registration.robot_id] = (effect.registration, effect.descriptor)

    def _do_CheckUpdate(self, who: str, effect: ev.CheckUpdate) -> None:  # noqa: N802
        self._later(who, ev.UpdateChecked(effect.report, Refusal.ACCEPTED))

    def _do_SaveUpdate(self, who: str, effect: ev.SaveUpdate) -> None:  # noqa: N802
        self.journal.save_update(effect.report)

    def _do_StartAggregation(self, who: str, effect: ev.StartAggregation) -> None:  # noqa: N802
        counted = {robot_id for number, robot_id in self.journal.updates if number == effect.round}
        assert {report.robot_id for report in effect.reports} == counted, "journal and role disagree"
        assert all(report.round == effect.round for report in effect.reports)
        robots = [r for r, (_, seen) in self.journal.members.items() if seen is not None or self.kind is None]
        plan = plan_after(self.run, effect, robots)
        self._later(who, ev.RoundOutcome(plan, blob("memory", effect.round), {}, {}))

    def _do_CommitRound(self, who: str, effect: ev.CommitRound) -> None:  # noqa: N802
        self.journal.commit(effect.outcome)

    def _do_CountSamples(self, who: str, effect: ev.CountSamples) -> None:  # noqa: N802
        self._later(who, ev.SamplesReady(10, SIGNATURE.digest))

    def _do_Describe(self, who: str, effect: ev.Describe) -> None:  # noqa: N802
        self._later(who, ev.Described(described()))

    def _do_StartTraining(self, who: str, effect: ev.StartTraining) -> None:  # noqa: N802
        plan = effect.plan
        self.trainings.append((who, plan.round))
        self._later(who, ev.Trained(report_of(plan, who)))

    def _do_StopTraining(self, who: str, effect: ev.StopTraining) -> None:  # noqa: N802
        kept = [entry for entry in self._queue if not (entry[2] == who and isinstance(entry[4], ev.Trained))]
        heapq.heapify(kept)
        self._queue = kept

    def _do_SaveReport(self, who: str, effect: ev.SaveReport) -> None:  # noqa: N802
        self.reports[who] = effect.report


def report_of(plan: FleetPlan, robot_id: str, **changes: Any) -> UpdateReport:
    """Return the report that ``robot_id`` sends for ``plan``."""
    report = UpdateReport(
        robot_id=robot_id,
        instance=f"{robot_id}-disk",
        run_id=plan.run_id,
        round=plan.round,
        config_digest=plan.config.digest,
        num_samples=10,
        loss=1.0 / (1 + plan.round),
        seconds=1.0,
        blobs={"weights": blob(robot_id, plan.round)},
    )
    return replace(report, **changes)
