"""The aggregator's role behind a Flower strategy: its effects become files of the run, its plan the next messages.

Flower sends and waits; what counts as an update, when a round closes and what follows is decided by the same role that
runs on a fleet.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fed_core.aggregation import run_aggregation
from fed_core.bookkeeping import RunBook
from fed_core.errors import Refusal, StrategyError
from fed_core.roles import events as ev
from fed_core.roles.aggregator import Aggregator
from fed_core.roles.membership import AggregatorConfig, judge_registration
from fed_core.roles.messages import FleetPlan, FleetStatus, Registration, RunConfig, SequenceDescriptor, UpdateReport
from fed_core.store.run_lock import lock_run
from fed_core.types import Descriptor

#: Flower prints what this logger is told.
log = logging.getLogger("flwr")
#: The role's clock moves on by this when Flower has all replies that it will get.
_STEP_S = 1.0
_LIVENESS_S = 3600.0

Answer = tuple[Registration, Descriptor | None]


class FlowerAggregator:
    """One run on disk.

    Args:
        run_id: name of the run.
        run: what the run has in common.
        folder: the run's folder; an interrupted run in it goes on.
        min_updates: updates without which a round is not closed.
    """

    def __init__(self, run_id: str, run: RunConfig, folder: Path, *, min_updates: int = 1) -> None:
        self.run_id, self.run = run_id, run
        self._min_updates = self._enough = min_updates
        self._lock = lock_run(folder)
        self.book = RunBook(folder, run_id, run)
        self.plan: FleetPlan | None = self.book.snapshot().plan
        self._asked: FleetPlan | None = None
        self._role: Aggregator | None = None
        self._status: FleetStatus | None = None
        self._now_s = 0.0
        self._queue: deque[ev.Event] = deque()

    def close(self) -> None:
        """Leave the run's folder to others."""
        self.book.close()
        self._lock.close()

    @property
    def kind(self) -> str:
        """Kind of descriptor that robots must send; "" = none."""
        return self.book.strategy.descriptor or ""

    @property
    def finished(self) -> bool:
        """The last round is closed."""
        return self.plan is not None and self.plan.finished

    @property
    def reported(self) -> frozenset[str]:
        """Robots whose update of the current round is counted."""
        robots = self._status.robots if self._status else ()
        return frozenset(robot.robot_id for robot in robots if robot.reported)

    def begin(self, answers: Sequence[Answer], min_robots: int) -> None:
        """Take the robots that are there when Flower starts; all of them start together.

        Args:
            answers: what they told.
            min_robots: fewer are an error.
        """
        good = [a for a in answers if self._judge(a[0])[0] is Refusal.ACCEPTED]
        if self.plan is None and len(good) < min_robots:
            reasons = [f"{a[0].robot_id!r} was refused: {self._judge(a[0])[1]}" for a in answers if a not in good]
            text = f"{len(good)} of at least {min_robots} robots can take part"
            raise StrategyError("; ".join([text, *reasons]))
        wanted = max(1, len(good))
        self._enough = min(self._min_updates, wanted)
        config = AggregatorConfig(
            min_robots=wanted,
            min_updates=self._enough,
            round_deadline_s=0.0,
            liveness_s=_LIVENESS_S,
        )
        self._role = Aggregator(
            config, self.run_id, self.run, descriptor=self.kind or None, snapshot=self.book.snapshot()
        )
        resumed = self.plan is not None
        self.join(answers)
        if resumed:
            self._post(ev.Tick())  # the rest of what an interrupted run was about to do
        if self.plan is None:
            raise StrategyError("the run cannot begin: not every robot sent a usable descriptor; see the warnings")

    def join(self, answers: Sequence[Answer]) -> None:
        """Register robots, in the order of their names."""
        for registration, descriptor in sorted(answers, key=lambda answer: answer[0].robot_id):
            self._post(registration)
            if descriptor is not None and self._judge(registration)[0] is Refusal.ACCEPTED:
                self._post(SequenceDescriptor(registration.robot_id, self.run_id, descriptor))

    def count(self, report: UpdateReport) -> None:
        """Offer an update; a bad one is told and left out."""
        self._post(report)

    def open_round(self) -> FleetPlan:
        """Return the plan of the round that Flower runs next; :meth:`close_round` ends it."""
        if self.plan is None:
            raise StrategyError("the run has not begun; no robot registered")
        self._asked = self.plan
        return self.plan

    def close_round(self) -> bool:
        """End the round, if it has not ended yet, with the updates that came; return whether enough did."""
        if self._still_open():
            self._now_s += _STEP_S
            # Now, and not before, the deadline has passed: the round does not wait for the others any more.
            for deadline_s in (_STEP_S, 0.0):
                self._post(ev.LimitsChanged(self._enough, deadline_s, _LIVENESS_S))
        return not self._still_open()

    def _still_open(self) -> bool:
        asked, now = self._asked, self.plan
        return asked is None or now is None or (asked.round, asked.finished) == (now.round, now.finished)

    def _judge(self, registration: Registration) -> tuple[Refusal, str]:
        initial = self.book.initial()
        return judge_registration(registration, self.run, initial.signature if initial else None, rival=False)

    # ---- the role's effects --------------------------------------------------------------------------------------

    def _post(self, event: ev.Event) -> None:
        if self._role is None:
            raise StrategyError("the strategy was asked to count updates before it configured a round")
        self._queue.append(event)
        while self._queue:
            for effect in self._role.handle(self._queue.popleft(), self._now_s):
                self._carry_out(effect)
        if self._role.failed:
            raise StrategyError(self._role.failed)

    def _carry_out(self, effect: ev.Effect) -> None:
        handlers: Mapping[type, Callable[[Any], None]] = {
            ev.Log: lambda e: log.log(logging.getLevelName(e.level.upper()), "%s", e.text),
            ev.FetchBlob: lambda e: self._queue.append(ev.BlobReady(e.blob.digest)),  # it came with the message
            ev.CancelFetch: lambda e: None,
            ev.PublishPlan: self._publish,
            ev.PublishFleetStatus: self._tell,
            ev.ReplyRegistration: lambda e: None,  # a refusal is logged
            ev.SaveInitialModel: lambda e: self.book.save_initial(e.model),
            ev.SaveRobot: self.book.save_robot,
            ev.SaveQuarantine: self.book.save_quarantine,
            ev.CheckUpdate: lambda e: self._queue.append(self.book.check(e)),
            ev.SaveUpdate: self.book.save_update,
            ev.StartAggregation: self._aggregate,
            ev.CommitRound: self.book.commit,
        }
        handlers[type(effect)](effect)

    def _publish(self, effect: ev.PublishPlan) -> None:
        self.plan = effect.plan

    def _tell(self, effect: ev.PublishFleetStatus) -> None:
        self._status = effect.status

    def _aggregate(self, effect: ev.StartAggregation) -> None:
        job = self.book.plan_aggregation(effect)
        self._queue.append(run_aggregation(job, self.book.strategy, self.book.store))
