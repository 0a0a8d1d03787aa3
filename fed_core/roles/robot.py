"""The robot's state machine: registers, describes its images, trains when a plan asks for it, reports.

starting -> registering -> [describing] -> waiting -> fetching -> training -> reported -> ... -> finished
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from fed_core.config import check, option
from fed_core.errors import ConfigError, Refusal
from fed_core.roles import events as ev
from fed_core.roles.membership import ROBOT_ID_RULE, is_robot_id
from fed_core.roles.messages import (
    FleetPlan,
    FleetStatus,
    Registration,
    RegistrationReply,
    RobotPhase,
    RobotStatus,
    SequenceDescriptor,
    UpdateReport,
)
from fed_core.types import PROTOCOL_VERSION, BlobRef, Descriptor

#: Refusals after which asking again can help.
_TEMPORARY = frozenset({Refusal.NOT_READY, Refusal.DUPLICATE_ROBOT})

#: An update that the aggregator could not read is offered again this often.
_MAX_RESENT = 3

#: A robot that was refused asks again this often [s]: another aggregator may run by then.
REFUSED_RETRY_S = 10.0

#: Silence of its own run [s] after which a robot asks the aggregator of another one to take it.
QUIET_S = 5.0

#: Plans of so many runs are kept: one of a stray aggregator must not displace that of the own run.
_MAX_PLANS = 4


@dataclass(frozen=True)
class RobotConfig:
    """Who a robot is and how patiently it asks (``config/robot_client.yaml``)."""

    robot_id: str = option(help="name of this robot in the fleet; its ROS namespace by convention")
    task: str = option("depth", help="what the fleet learns")
    retry_s: float = option(3.0, help="time before an unanswered registration is sent again", unit="s", low=0.1)

    def __post_init__(self) -> None:
        check(self)
        if not is_robot_id(self.robot_id):
            raise ConfigError(f"robot_id is {self.robot_id!r}; {ROBOT_ID_RULE}")


class Robot:
    """Pure role; the driver carries its effects out.

    Args:
        config: who this robot is.
        instance: name of this installation, kept on its disk.
        architecture: registered name of the network.
        software: version of fed_perception.
        blob_service: full name of this robot's blob service.
        last_report: report of an interrupted run whose blobs are still in the store.
    """

    def __init__(
        self,
        config: RobotConfig,
        instance: str,
        *,
        architecture: str,
        software: str = "",
        blob_service: str = "",
        last_report: UpdateReport | None = None,
    ) -> None:
        self._config, self._instance = config, instance
        self._architecture, self._software, self._blob_service = architecture, software, blob_service
        self._report, self._phase = last_report, RobotPhase.STARTING
        self._text = self._run_id = self._kind = ""
        self._samples: ev.SamplesReady | None = None
        self._descriptors: dict[str, Descriptor] = {}
        self._plans: dict[str, FleetPlan] = {}
        self._seen: dict[str, dict[tuple[int, bool], FleetPlan]] = {}  # the last ones of each run, also passed over
        self._missing: dict[str, BlobRef] = {}
        self._retry_at_s = float("inf")
        self._progress = ev.Progress(0.0, float("nan"), 0.0)
        self._asked_s = self._heard_s = float("-inf")
        self._refused, self._refuser, self._asked_run = False, "", ""  # refused: it failed only because of that
        self._refusals = self._resent = 0
        self._counting = self._forgotten = False  # forgotten: the aggregator lost the run, its rounds may begin anew
        self._handlers: dict[type, Callable[[Any, float], list[ev.Effect]]] = {
            ev.Tick: self._on_tick,
            ev.SamplesReady: self._on_samples,
            RegistrationReply: self._on_reply,
            ev.Described: self._on_described,
            FleetPlan: self._on_plan,
            FleetStatus: self._on_fleet,
            ev.BlobReady: self._on_blob,
            ev.BlobFailed: self._on_blob_failed,
            ev.Progress: self._on_progress,
            ev.Trained: self._on_trained,
            ev.JobFailed: self._on_job_failed,
        }

    def handle(self, event: ev.Event, now_s: float) -> list[ev.Effect]:
        """Return what must be done because ``event`` happened at monotonic time ``now_s`` [s]."""
        return self._handlers[type(event)](event, now_s)

    @property
    def phase(self) -> RobotPhase:
        """What the robot is doing."""
        return self._phase

    @property
    def run_id(self) -> str:
        """The run that took the robot; "" before one did."""
        return self._run_id

    @property
    def _plan(self) -> FleetPlan | None:
        """The latest plan of the run that the robot belongs to."""
        return self._plans.get(self._run_id)

    def _on_tick(self, event: ev.Tick, now_s: float) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        if self._samples is None and not self._counting and self._phase is RobotPhase.STARTING:
            self._counting = True
            effects.append(ev.CountSamples())
        if self._phase is RobotPhase.REGISTERING and now_s - self._asked_s >= self._config.retry_s:
            effects += self._register(now_s)
        if self._refused and now_s - self._asked_s >= REFUSED_RETRY_S:
            effects += self._register(now_s)
        if now_s >= self._retry_at_s:
            self._retry_at_s = float("inf")
            effects += self._follow()
        return [*effects, self._status()]

    def _on_samples(self, event: ev.SamplesReady, now_s: float) -> list[ev.Effect]:
        if self._phase is not RobotPhase.STARTING:
            return []
        self._samples = event
        if event.num_samples <= 0:
            return self._fail("no usable training sample")
        self._phase = RobotPhase.REGISTERING
        return self._register(now_s)

    def _register(self, now_s: float) -> list[ev.Effect]:
        if self._samples is None:
            return []
        self._asked_s = now_s
        registration = Registration(
            robot_id=self._config.robot_id,
            instance=self._instance,
            observer=False,
            protocol=PROTOCOL_VERSION,
            software=self._software,
            task=self._config.task,
            architecture=self._architecture,
            model_digest=self._samples.model_digest,
            num_samples=self._samples.num_samples,
            blob_service=self._blob_service,
        )
        return [ev.Register(registration)]

    def _on_reply(self, event: RegistrationReply, now_s: float) -> list[ev.Effect]:
        if event.code is not Refusal.ACCEPTED:
            return self._on_refused(event)
        asked = self._phase is RobotPhase.REGISTERING or self._refused
        if not asked and (event.run_id == self._run_id or event.run_id != self._asked_run):
            return []
        effects = self._interrupt(RobotPhase.WAITING)
        if event.run_id != self._run_id:
            self._refusals, self._forgotten = 0, True
        self._run_id, self._kind, self._text, self._heard_s = event.run_id, event.descriptor, "", now_s
        self._refused, self._refuser, self._asked_run = False, "", ""
        if not self._kind:
            return [*effects, self._status(), *self._follow()]
        if self._kind in self._descriptors:
            return [*effects, *self._tell_descriptor()]
        self._phase = RobotPhase.DESCRIBING
        return [*effects, self._status(), ev.Describe(self._kind)]

    def _on_refused(self, event: RegistrationReply) -> list[ev.Effect]:
        self._refuser = event.run_id
        if self._run_id and event.run_id != self._run_id:
            return []  # a stray aggregator on the same topics; this robot belongs to another run
        if self._phase is not RobotPhase.REGISTERING and not self._refused:
            return []
        text = f"refused ({event.code.name}): {event.text}"
        if self._refused and text == self._text:
            return []  # told already
        self._text = text
        if event.code in _TEMPORARY:
            self._phase, self._refused = RobotPhase.REGISTERING, False
            return [ev.Log("info" if event.code is Refusal.NOT_READY else "warning", self._text), self._status()]
        failed = self._fail(text)
        self._refused = True
        return failed

    def _on_described(self, event: ev.Described, now_s: float) -> list[ev.Effect]:
        self._descriptors[event.descriptor.kind] = event.descriptor
        if self._phase is not RobotPhase.DESCRIBING:
            return []
        return self._tell_descriptor()

    def _tell_descriptor(self) -> list[ev.Effect]:
        self._phase = RobotPhase.WAITING
        message = SequenceDescriptor(self._config.robot_id, self._run_id, self._descriptors[self._kind])
        return [ev.PublishDescriptor(message), self._status(), *self._follow()]

    def _on_plan(self, event: FleetPlan, now_s: float) -> list[ev.Effect]:
        seen = self._seen.setdefault(event.run_id, {})
        seen.pop(_place(event), None)
        seen[_place(event)] = event
        if len(seen) > _MAX_PLANS:
            del seen[next(iter(seen))]
        old = self._plans.get(event.run_id)
        if old and _place(event) < _place(old):
            return []  # long on its way, or of a run that begins anew: the fleet's state will tell
        self._keep(event)
        if event.run_id != self._run_id:
            return []  # this robot may be taken by that run later
        self._forgotten = False
        busy = self._phase in (RobotPhase.FETCHING, RobotPhase.TRAINING)
        if busy and old and old.round == event.round and not event.finished:
            return []  # the same round, told again by a restarted aggregator
        return self._follow()

    def _keep(self, plan: FleetPlan) -> None:
        self._plans.pop(plan.run_id, None)
        self._plans[plan.run_id] = plan
        others = [run_id for run_id in self._plans if run_id != self._run_id]
        for run_id in others[: max(0, len(others) - _MAX_PLANS)]:
            del self._plans[run_id], self._seen[run_id]

    def _follow(self) -> list[ev.Effect]:
        """Start what the latest plan asks of this robot, when it is free to."""
        plan = self._plan
        if plan is None or not RobotPhase.WAITING <= self._phase <= RobotPhase.FINISHED:
            return []
        if plan.finished:
            told = [] if self._phase is RobotPhase.FINISHED else [ev.Log("info", f"run {plan.run_id} is over")]
            return [*self._interrupt(RobotPhase.FINISHED), *told, self._status()]
        if self._config.robot_id not in plan.robots or self._config.robot_id not in plan.participants:
            return [*self._interrupt(RobotPhase.WAITING), self._status()]
        if self._is_done(plan) and self._report is not None:
            return [*self._interrupt(RobotPhase.REPORTED), ev.PublishReport(self._report), self._status()]
        wanted = {blob.digest: blob for blob in plan.wanted_by(self._config.robot_id).values()}
        effects = self._interrupt(RobotPhase.FETCHING, keep=wanted)
        self._missing = wanted
        self._progress = ev.Progress(0.0, float("nan"), 0.0)
        return [*effects, *(ev.FetchBlob(blob, "") for blob in wanted.values()), self._status()]

    def _interrupt(self, phase: RobotPhase, keep: Collection[str] = ()) -> list[ev.Effect]:
        """Enter ``phase``; what the one before had started and nobody needs now is stopped."""
        effects: list[ev.Effect] = [ev.StopTraining()] if self._phase is RobotPhase.TRAINING else []
        effects += [ev.CancelFetch(digest) for digest in self._missing if digest not in keep]
        self._phase, self._missing, self._retry_at_s = phase, {}, float("inf")
        return effects

    def _is_done(self, plan: FleetPlan) -> bool:
        return self._report is not None and self._is_for(self._report, plan)

    def _is_for(self, report: UpdateReport, plan: FleetPlan) -> bool:
        wanted = (plan.run_id, plan.round, plan.config.digest, self._instance)
        return (report.run_id, report.round, report.config_digest, report.instance) == wanted

    def _on_blob(self, event: ev.BlobReady, now_s: float) -> list[ev.Effect]:
        self._missing.pop(event.digest, None)
        if self._phase is not RobotPhase.FETCHING or self._missing or self._plan is None:
            return []
        self._phase, self._text = RobotPhase.TRAINING, ""
        return [self._status(), ev.StartTraining(self._plan)]

    def _on_blob_failed(self, event: ev.BlobFailed, now_s: float) -> list[ev.Effect]:
        if self._phase is not RobotPhase.FETCHING or event.digest not in self._missing:
            return []
        del self._missing[event.digest]
        effects = self._interrupt(RobotPhase.WAITING)
        self._retry_at_s = now_s + self._config.retry_s
        self._text = f"cannot read the model of round {self._plan.round if self._plan else 0}: {event.text}"
        again = f"{self._text}; trying again in {self._config.retry_s:g} s"
        return [*effects, ev.Log("warning", again), self._status()]

    def _on_progress(self, event: ev.Progress, now_s: float) -> list[ev.Effect]:
        self._progress = event
        return [self._status()] if self._phase is RobotPhase.TRAINING else []

    def _on_trained(self, event: ev.Trained, now_s: float) -> list[ev.Effect]:
        plan, report = self._plan, event.report
        if self._phase is not RobotPhase.TRAINING or plan is None or not self._is_for(report, plan):
            return []
        if self._samples is not None:
            if report.mask is not None:
                report = replace(report, model_digest=self._samples.model_digest)
            # A robot that goes on recording has other samples in each round.
            self._samples = replace(self._samples, num_samples=report.num_samples)
        self._report, self._resent = report, 0
        self._phase = RobotPhase.REPORTED
        self._progress = ev.Progress(1.0, report.loss, self._progress.samples_per_s)
        return [ev.SaveReport(report), ev.PublishReport(report), self._status()]

    def _on_fleet(self, event: FleetStatus, now_s: float) -> list[ev.Effect]:
        if event.run_id != self._run_id:
            return self._on_other_run(event, now_s)
        self._heard_s = now_s
        if self._phase < RobotPhase.WAITING or self._phase is RobotPhase.FAILED:
            return []
        if told := self._catch_up(event):
            return told
        mine = event.state_of(self._config.robot_id)
        if mine is None:
            self._refusals, self._forgotten = 0, True
            return [*self._interrupt(RobotPhase.REGISTERING), *self._register(now_s)]
        if mine.refused < self._refusals:  # a restarted aggregator counts from 0
            self._refusals = 0
        if mine.refused > self._refusals:
            self._refusals = mine.refused
            self._text = f"refused ({mine.last_code.name}): {mine.last_text}"
            return [ev.Log("warning", self._text), *self._report_again(mine.last_code), self._status()]
        return []

    def _catch_up(self, event: FleetStatus) -> list[ev.Effect]:
        """Follow a plan that was passed over, where the fleet's state says that it holds after all."""
        place, plan = (event.round, event.phase == "finished"), self._plan
        seen = self._seen.get(self._run_id, {})
        if plan is None or place not in seen or place == _place(plan):
            return []
        if place < _place(plan) and not self._forgotten:
            return []
        self._forgotten = False
        self._keep(seen[place])
        return self._follow()

    def _on_other_run(self, event: FleetStatus, now_s: float) -> list[ev.Effect]:
        """Ask another run to take this robot, if its own refused it or fell silent; until then it stays where it is."""
        over = self._phase is RobotPhase.FINISHED and event.phase != "finished"
        belongs = RobotPhase.WAITING <= self._phase <= RobotPhase.FINISHED
        free = belongs and (over or now_s - self._heard_s >= QUIET_S)
        wait_s = REFUSED_RETRY_S if event.run_id == self._refuser else self._config.retry_s
        if not (free or self._refused) or now_s - self._asked_s < wait_s:
            return []
        self._asked_run = event.run_id
        return self._register(now_s)

    def _report_again(self, code: Refusal) -> list[ev.Effect]:
        """Send an update again that did not come through; not for ever, since its file may really be damaged."""
        lost = code is Refusal.BROKEN_BLOB and self._phase is RobotPhase.REPORTED
        if not lost or self._report is None or self._resent >= _MAX_RESENT:
            return []
        self._resent += 1
        return [ev.PublishReport(self._report)]

    def _on_job_failed(self, event: ev.JobFailed, now_s: float) -> list[ev.Effect]:
        return self._fail(f"{event.job}: {event.text}")

    def _fail(self, text: str) -> list[ev.Effect]:
        effects = self._interrupt(RobotPhase.FAILED)
        self._text, self._refused = text, False
        return [*effects, ev.Log("error", text), self._status()]

    def _status(self) -> ev.PublishStatus:
        number = self._plan.round if self._plan else 0
        return ev.PublishStatus(
            RobotStatus(
                robot_id=self._config.robot_id,
                instance=self._instance,
                phase=self._phase,
                round=number,
                progress=self._progress.share,
                loss=self._progress.loss,
                samples_per_s=self._progress.samples_per_s,
                num_samples=self._samples.num_samples if self._samples else 0,
                text=self._text,
            )
        )


def _place(plan: FleetPlan) -> tuple[int, bool]:
    """Return where in its run a plan stands; later ones compare greater."""
    return plan.round, plan.finished
