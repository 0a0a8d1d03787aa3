"""The aggregator's state machine: registers robots, runs rounds, counts each update once.

registering -> describing -> aggregating (round 0) -> [training -> aggregating] x rounds -> finished
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fed_core.errors import Refusal, RefusedError
from fed_core.roles import events as ev
from fed_core.roles.membership import AggregatorConfig, Member, Snapshot, judge_registration, with_refusals
from fed_core.roles.messages import (
    FleetPlan,
    FleetStatus,
    Registration,
    RegistrationReply,
    RobotStatus,
    RunConfig,
    SequenceDescriptor,
    UpdateReport,
)
from fed_core.roles.pending import PendingUpdates
from fed_core.roles.quarantine import Quarantine
from fed_core.similarity import descriptors
from fed_core.types import ModelSignature


class Aggregator:
    """Pure role; the driver carries its effects out.

    Args:
        config: options of this aggregator.
        run_id: name of the run.
        run: what the whole run has in common.
        descriptor: kind of descriptor the strategy needs, or None.
        snapshot: state of an interrupted run.
        now_s: monotonic time.
        status_on_demand: say only that the fleet's state changed, and leave it to the driver when to ask for it; it
            costs time for each robot of the fleet.
    """

    def __init__(
        self,
        config: AggregatorConfig,
        run_id: str,
        run: RunConfig,
        *,
        descriptor: str | None,
        snapshot: Snapshot | None = None,
        now_s: float = 0.0,
        status_on_demand: bool = False,
    ) -> None:
        self._status_on_demand = status_on_demand
        saved = snapshot or Snapshot()
        self._config, self._run_id, self._run, self._kind = config, run_id, run, descriptor
        self._model: ModelSignature | None = saved.initial.signature if saved.initial else None
        self._members = saved.restored(now_s)
        self._plan = saved.plan
        self._clusters = dict(saved.clusters)
        self._quarantine = Quarantine(config.quarantine_after, saved.quarantine)
        self._sat_out = set(saved.quarantine)  # in this round; a robot that is taken back trains from the next one on
        self._counted = {r.robot_id: r for r in saved.reports}
        self._pending = PendingUpdates()
        self._planned = set(saved.plan.robots) if saved.plan else set()
        self._aggregating = False
        self._failed = ""
        self._round_start_s = now_s
        self._told_s = float("-inf")
        self._resumed = snapshot is not None and saved.plan is not None
        self._handlers = self._all_handlers()

    def _all_handlers(self) -> dict[type, Callable[[Any, float], list[ev.Effect]]]:
        return {
            ev.InitialModel: self._on_initial,
            Registration: self._on_registration,
            SequenceDescriptor: self._on_descriptor,
            RobotStatus: self._on_heartbeat,
            UpdateReport: self._on_report,
            ev.BlobReady: self._on_blob,
            ev.BlobFailed: self._on_blob_failed,
            ev.UpdateChecked: self._on_checked,
            ev.RoundOutcome: self._on_outcome,
            ev.JobFailed: self._on_job_failed,
            ev.LimitsChanged: self._on_limits,
            ev.Readmit: self._on_readmit,
            ev.Tick: self._on_tick,
        }

    def handle(self, event: ev.Event, now_s: float) -> list[ev.Effect]:
        """Return what must be done because ``event`` happened at monotonic time ``now_s`` [s]."""
        return self._handlers[type(event)](event, now_s)

    @property
    def finished(self) -> bool:
        """The last round is closed."""
        return self._plan is not None and self._plan.finished

    @property
    def failed(self) -> str:
        """Why the run cannot go on; empty while it can."""
        return self._failed

    # ---- start ---------------------------------------------------------------------------------------------------

    def _on_initial(self, event: ev.InitialModel, now_s: float) -> list[ev.Effect]:
        self._model = event.signature
        return [ev.SaveInitialModel(event), *self._begin_if_complete(now_s), self._status(now_s)]

    def _on_registration(self, event: Registration, now_s: float) -> list[ev.Effect]:
        member = self._members.get(event.robot_id)
        rival = member is not None and member.registration.instance != event.instance and self._alive(member, now_s)
        why = self._quarantine.why(event.robot_id)
        code, text = judge_registration(event, self._run, self._model, rival=rival, quarantine=why)
        reply = RegistrationReply(code, text, self._run_id, self._kind or "")
        effects: list[ev.Effect] = []
        if code is not Refusal.ACCEPTED:
            effects.append(ev.Log("warning", f"refused {event.robot_id!r}: {text}"))
        elif not event.observer:
            effects += self._admit(event, now_s)
        effects.append(ev.ReplyRegistration(event, reply))
        return [*effects, *self._begin_if_complete(now_s), self._status(now_s)]

    def _admit(self, event: Registration, now_s: float) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        member = self._members.get(event.robot_id)
        if member is None:
            member = self._members[event.robot_id] = Member(event)
            effects.append(ev.Log("info", f"robot {event.robot_id} joined with {event.num_samples} samples"))
        elif member.registration.instance != event.instance:
            effects.append(ev.Log("warning", f"another installation takes the place of silent robot {event.robot_id}"))
            effects += self._pending.drop(event.robot_id)  # its update was the old one's
        member.registration, member.heard_s = event, now_s
        return [*effects, ev.SaveRobot(event, member.descriptor)]

    def _on_descriptor(self, event: SequenceDescriptor, now_s: float) -> list[ev.Effect]:
        member = self._members.get(event.robot_id)
        if event.run_id != self._run_id:
            return []  # latched rest of an earlier run
        if member is None or self._kind is None:
            return self._refuse(event.robot_id, Refusal.UNKNOWN_ROBOT, "descriptor of a robot that is not registered")
        known = next((m.descriptor for m in self._members.values() if m.descriptor), None)
        try:
            descriptors.check_like(event.descriptor, known, kind=self._kind, who=f"robot {event.robot_id!r}")
        except RefusedError as err:
            return self._refuse(event.robot_id, err.code, str(err))
        if member.descriptor is not None:
            return []  # latched again
        member.descriptor = event.descriptor
        effects: list[ev.Effect] = [ev.SaveRobot(member.registration, event.descriptor)]
        return [*effects, *self._begin_if_complete(now_s), self._status(now_s)]

    def _begin_if_complete(self, now_s: float) -> list[ev.Effect]:
        if self._plan is not None or self._aggregating or self._model is None or self._missing():
            return []
        return self._aggregate(0, now_s)

    def _missing(self) -> int:
        return max(0, self._config.min_robots - sum(self._described(m) for m in self._members.values()))

    def _described(self, member: Member) -> bool:
        return self._kind is None or member.descriptor is not None

    # ---- rounds --------------------------------------------------------------------------------------------------

    def _on_report(self, event: UpdateReport, now_s: float) -> list[ev.Effect]:
        if event.run_id != self._run_id:
            return []
        code, text = self._judge_report(event)
        if code is Refusal.ALREADY_COUNTED:
            return []  # reports are latched: the same one arrives again after every restart
        if code is not Refusal.ACCEPTED:
            return self._refuse_update(event.robot_id, code, text, now_s)
        self._members[event.robot_id].heard_s = now_s
        return self._pending.read(event)

    def _judge_report(self, event: UpdateReport) -> tuple[Refusal, str]:
        member = self._members.get(event.robot_id)
        if member is None or member.registration.instance != event.instance:
            return Refusal.UNKNOWN_ROBOT, "update of a robot that is not registered"
        if event.robot_id in self._quarantine:
            return Refusal.QUARANTINED, self._quarantine.why(event.robot_id)
        if event.round <= member.last_round:
            return Refusal.ALREADY_COUNTED, f"already counted in round {event.round}"
        if self._plan is None or event.round != self._plan.round or self.finished:
            now = self._plan.round if self._plan and not self.finished else "none"
            return Refusal.WRONG_ROUND, f"update of round {event.round}, the current round is {now}"
        if event.config_digest != self._run.digest:
            return Refusal.WRONG_MODEL, "update trained under another configuration"
        if event.robot_id not in self._plan.participants:
            return Refusal.NOT_A_PARTICIPANT, f"not a participant of round {event.round}"
        if self._aggregating:
            return Refusal.WRONG_ROUND, f"round {event.round} is already closed"
        pending = self._pending.report(event.robot_id)
        if pending and pending.blobs == event.blobs:
            return Refusal.ALREADY_COUNTED, "already being read"
        size = sum(blob.size_bytes for blob in event.blobs.values())
        if size > self._config.max_update_bytes:
            return Refusal.TOO_LARGE, f"update of {size} bytes, at most {self._config.max_update_bytes} are read"
        return Refusal.ACCEPTED, ""

    def _on_blob(self, event: ev.BlobReady, now_s: float) -> list[ev.Effect]:
        return [ev.CheckUpdate(report) for report in self._pending.arrived(event.digest)]

    def _on_blob_failed(self, event: ev.BlobFailed, now_s: float) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        for robot_id in self._pending.lost(event.digest):
            effects += self._pending.drop(robot_id)
            refuse = self._refuse if event.lost else partial(self._refuse_update, now_s=now_s)
            effects += refuse(robot_id, event.code, event.text)
        return effects

    def _on_checked(self, event: ev.UpdateChecked, now_s: float) -> list[ev.Effect]:
        report = event.report
        if self._pending.report(report.robot_id) != report:
            return []  # the round closed meanwhile, or the robot sent another one
        self._pending.done(report.robot_id)
        if event.code is not Refusal.ACCEPTED:
            return self._refuse_update(report.robot_id, event.code, event.text, now_s)
        self._quarantine.accepted(report.robot_id)
        self._counted[report.robot_id] = report
        member = self._members[report.robot_id]
        member.updates, member.last_round = member.updates + 1, report.round
        effects: list[ev.Effect] = [ev.SaveUpdate(report)]
        return [*effects, *self._close_if_complete(now_s), self._status(now_s)]

    def _close_if_complete(self, now_s: float) -> list[ev.Effect]:
        if self._plan is None or self.finished or self._aggregating or self._failed:
            return []
        late = self._config.round_deadline_s > 0 and now_s - self._round_start_s >= self._config.round_deadline_s
        enough = len(self._counted) >= min(self._config.min_updates, len(self._plan.participants))
        if not enough or (self._awaited() and not late):
            return []
        return [*self._pending.drop_all(), *self._aggregate(self._plan.round, now_s)]

    def _aggregate(self, number: int, now_s: float) -> list[ev.Effect]:
        self._aggregating = True
        ready = sorted(r for r, m in self._members.items() if self._described(m) and r not in self._quarantine)
        alive = [r for r in ready if self._alive(self._members[r], now_s)]
        reports = tuple(self._counted[r] for r in sorted(self._counted))
        joined = tuple(r for r in ready if r not in self._planned) if number else ()
        participants = alive if len(alive) >= self._config.min_updates else ready
        return [ev.StartAggregation(number, reports, joined, tuple(participants))]

    def _on_outcome(self, event: ev.RoundOutcome, now_s: float) -> list[ev.Effect]:
        self._aggregating = False
        self._plan, self._clusters = event.plan, dict(event.clusters)
        self._planned = set(event.plan.robots)
        self._counted, self._pending = {}, PendingUpdates()
        self._sat_out = {robot_id for robot_id in self._members if robot_id in self._quarantine}
        self._round_start_s = now_s
        done = f"run {self._run_id} finished" if event.plan.finished else f"round {event.plan.round} begins"
        warnings = event.log.get("warnings")
        return [
            *(ev.Log("warning", str(text)) for text in (warnings if isinstance(warnings, list) else [])),
            ev.CommitRound(with_refusals(event, self._members)),
            ev.PublishPlan(self._with_deadline(now_s)),
            ev.Log("info", done),
            self._status(now_s),
        ]

    # ---- health --------------------------------------------------------------------------------------------------

    def _on_heartbeat(self, event: RobotStatus, now_s: float) -> list[ev.Effect]:
        member = self._members.get(event.robot_id)
        if member is not None and member.registration.instance == event.instance:
            member.heard_s = now_s
        return []

    def _on_job_failed(self, event: ev.JobFailed, now_s: float) -> list[ev.Effect]:
        self._failed = f"{event.job}: {event.text}"
        return [ev.Log("error", f"the run stops: {self._failed}"), self._status(now_s)]

    def _on_limits(self, event: ev.LimitsChanged, now_s: float) -> list[ev.Effect]:
        self._config = replace(self._config, **vars(event))
        if self._plan is None:
            return [self._status(now_s)]
        told = ev.PublishPlan(self._with_deadline(now_s))  # the same round, with the time that is left now
        return [told, *self._close_if_complete(now_s), self._status(now_s)]

    def _on_tick(self, event: ev.Tick, now_s: float) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        if self._resumed and self._plan is not None:
            self._resumed = False
            where = "is over" if self.finished else f"resumes in round {self._plan.round}"
            effects += [
                ev.Log("info", f"run {self._run_id} {where}"),
                ev.PublishPlan(self._with_deadline(now_s)),
            ]
        effects += self._begin_if_complete(now_s) + self._close_if_complete(now_s)
        waiting = self._waiting_for(now_s)
        if waiting and now_s - self._told_s >= 10.0:
            self._told_s = now_s
            effects.append(ev.Log("info", f"waiting for {waiting}"))
        return [*effects, self._status(now_s)]

    def _alive(self, member: Member, now_s: float) -> bool:
        return now_s - member.heard_s < self._config.liveness_s

    def _refuse(self, robot_id: str, code: Refusal, text: str) -> list[ev.Effect]:
        member = self._members.get(robot_id)
        if member is not None:
            member.refused += 1
            member.last_code, member.last_text = code, text
        return [ev.Log("warning", f"dropped a message of {robot_id!r} ({code.name}): {text}")]

    def _refuse_update(self, robot_id: str, code: Refusal, text: str, now_s: float) -> list[ev.Effect]:
        """Refuse an update; one too many sets its robot aside, and the round waits for it no more."""
        effects = self._refuse(robot_id, code, text)
        if not (why := self._quarantine.refused(robot_id, code, text)):
            return effects
        self._sat_out.add(robot_id)
        effects += [ev.Log("error", f"robot {robot_id!r} is {why}"), ev.SaveQuarantine(robot_id, why)]
        return [*effects, *self._pending.drop(robot_id), *self._close_if_complete(now_s), self._status(now_s)]

    def _on_readmit(self, event: ev.Readmit, now_s: float) -> list[ev.Effect]:
        if not self._quarantine.readmit(event.robot_id):
            return []
        if member := self._members.get(event.robot_id):
            member.last_code, member.last_text = Refusal.ACCEPTED, ""
        told = ev.Log("info", f"robot {event.robot_id!r} is taken back; it trains again from the next round on")
        return [told, ev.SaveQuarantine(event.robot_id, ""), self._status(now_s)]

    def _awaited(self) -> set[str]:
        """Return the robots whose update this round still waits for."""
        asked = self._plan.participants if self._plan else ()
        return set(asked) - set(self._counted) - self._sat_out

    def _with_deadline(self, now_s: float) -> FleetPlan:
        if self._plan is None:
            raise ValueError("there is no plan yet")
        if self._plan.finished or self._config.round_deadline_s == 0:
            return replace(self._plan, deadline_s=0.0)
        left = self._config.round_deadline_s - (now_s - self._round_start_s)
        return replace(self._plan, deadline_s=max(left, 0.001))

    @property
    def round(self) -> int:
        """The current round; 0 before the first."""
        return self._plan.round if self._plan else 0

    @property
    def phase(self) -> str:
        """What the fleet is doing."""
        if self._failed:
            return "failed"
        if self._aggregating:
            return "aggregating"
        if self._plan is not None:
            return "finished" if self._plan.finished else "training"
        if self._model is None:
            return "starting"
        return "registering" if len(self._members) < self._config.min_robots else "describing"

    def _waiting_for(self, now_s: float) -> str:
        phase = self.phase
        if phase == "starting":
            return "the initial model"
        if phase == "registering":
            more = self._config.min_robots - len(self._members)
            return (
                f"{more} more robot{'s' * (more > 1)} to register ({len(self._members)} of {self._config.min_robots})"
            )
        if phase == "describing":
            return "descriptors of " + ", ".join(r for r, m in self._members.items() if not self._described(m))
        if phase == "training" and self._plan is not None:
            rest = sorted(self._awaited())
            if not rest:
                return f"updates, {len(self._counted)} of at least {self._config.min_updates}; the others sit out"
            away = [r for r in rest if not self._alive(self._members[r], now_s)]
            return "updates of " + ", ".join(r + (" (away)" if r in away else "") for r in rest)
        return ""

    def _status(self, now_s: float) -> ev.Effect:
        return ev.FleetChanged() if self._status_on_demand else ev.PublishFleetStatus(self.fleet_status(now_s))

    def fleet_status(self, now_s: float) -> FleetStatus:
        """Return the state of the whole fleet at monotonic time ``now_s`` [s]."""
        states = tuple(
            member.state(
                alive=self._alive(member, now_s),
                described=self._described(member),
                reported=robot_id in self._counted,
                clusters=self._clusters.get(robot_id, ()),
                quarantine=self._quarantine.why(robot_id),
            )
            for robot_id, member in sorted(self._members.items())
        )
        return FleetStatus(
            run_id=self._run_id,
            phase=self.phase,
            round=self.round,
            total_rounds=self._run.total_rounds,
            strategy=self._run.strategy,
            expected_robots=self._config.min_robots,
            robots=states,
            waiting_for=self._waiting_for(now_s),
        )
