"""A whole federation in one process: the same roles as on robots, without ROS and without waiting.

Time is a counter and the network is a function call; what robots compute is done by an engine. With equal seeds it
gives the same models as the fleet on ROS 2, with every engine.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fed_core import __version__, requests
from fed_core.aggregation import run_aggregation
from fed_core.bookkeeping import RunBook
from fed_core.data.rendered import on_disk
from fed_core.errors import ConfigError, DataError, FedError, StrategyError
from fed_core.fleet import FleetConfig
from fed_core.roles import events as ev
from fed_core.roles.aggregator import Aggregator
from fed_core.roles.membership import Snapshot
from fed_core.roles.messages import (
    FleetPlan,
    FleetStatus,
    Registration,
    RegistrationReply,
    RobotPhase,
    RobotStatus,
    RunConfig,
)
from fed_core.roles.robot import Robot, RobotConfig
from fed_core.simulation.engines import Answer, Engine, Job, LocalEngine
from fed_core.store.run_lock import lock_run
from fed_core.training.jobs import Toolbox, run_job
from fed_core.wire.files import flushing

AGGREGATOR = ""
#: The fleet's state costs time for each robot, so it is told after every change of so large a part of the fleet.
_TOLD_PART = 16


@dataclass(frozen=True)
class SimulationView:
    """What an onlooker is told: exactly one of the two is set."""

    fleet: FleetStatus | None = None
    robot: RobotStatus | None = None


class Simulation:
    """Runs a fleet file to its last round.

    All that is on disk outlives this process; only the models of rounds that closed outlive a power cut, too, since
    flushing every robot's files would take longer than the training of small ones.

    Args:
        fleet: the fleet.
        base: folder that relative paths of its sources start from.
        folder: the run's folder (journal, blobs, robots); an interrupted run there goes on.
        toolbox: networks and encoder of ``fed_models``.
        on_view: called with every status.
        on_plan: called with the plan of every round that begins, and with the final one; their blobs are in the store.
        threads: CPU threads of training.
        engine: carries out the robots' work, which is not closed here; default: this process, one robot at a time.
    """

    def __init__(
        self,
        fleet: FleetConfig,
        base: Path,
        folder: Path,
        toolbox: Toolbox,
        *,
        on_view: Callable[[SimulationView], None] = lambda view: None,
        on_plan: Callable[[FleetPlan], None] = lambda plan: None,
        threads: int = 2,
        engine: Engine | None = None,
    ) -> None:
        self._fleet, self._base, self._folder, self._toolbox = fleet, base, folder, toolbox
        self._entries = {entry.id: entry for entry in fleet.robots}
        self._engine = LocalEngine(toolbox, threads=threads) if engine is None else engine
        self._on_view, self._on_plan, self._threads = on_view, on_plan, threads
        self._queue: deque[tuple[str, ev.Event]] = deque()
        self._now_s = 0.0
        run = fleet.run_config()
        self._lock = lock_run(folder)
        try:
            self._book = RunBook(folder, fleet.run, run, keep_updates=fleet.aggregator.keep_updates)
        except BaseException:
            self._lock.close()
            raise
        snapshot = self._book.snapshot()
        self._aggregator = _aggregator(fleet, run, self._book.strategy.descriptor, snapshot)
        self._changes, self._told = 0, ("", -1)
        self._robots = {entry.id: _robot(entry.id, fleet) for entry in fleet.robots}
        self._initial_missing = snapshot.initial is None

    def run(self) -> FleetPlan:
        """Return the final plan; its blobs are in the run's store."""
        try:
            with flushing(False):
                return self._run()
        finally:
            self._book.close()
            self._lock.close()

    def _run(self) -> FleetPlan:
        if self._initial_missing:
            request = requests.initial_model(self._fleet.run_config(), self._book.store)
            with flushing(True):
                made = run_job(request.kind, request.arguments, self._toolbox, lambda share, loss, speed: None)
                self._post(AGGREGATOR, request.finish(made))
        final: FleetPlan | None = None
        for _ in range(100):  # ticks without anything else to do
            self._tick()
            while self._queue or self._take_answer():
                recipient, event = self._queue.popleft()
                role = self._robots[recipient] if recipient else self._aggregator
                for effect in role.handle(event, self._now_s):
                    if isinstance(effect, ev.PublishPlan) and effect.plan.finished:
                        final = effect.plan
                    self._carry_out(recipient, effect)
            if final is not None:
                return final
            if self._aggregator.failed:
                raise StrategyError(self._aggregator.failed)
        raise StrategyError("the simulation stands still; see the messages above")

    @property
    def book(self) -> RunBook:
        """The run on disk."""
        return self._book

    def _tick(self) -> None:
        self._now_s += 1.0
        for recipient in (AGGREGATOR, *self._robots):
            self._post(recipient, ev.Tick())

    def _post(self, recipient: str, event: ev.Event) -> None:
        self._queue.append((recipient, event))

    def _take_answer(self) -> bool:
        """Post what the oldest job gave; False where no job is left."""
        answer = self._engine.next()
        if answer is None:
            return False
        if answer.error is not None:
            raise _told_of(answer) from answer.error
        self._post(answer.job.robot_id, answer.job.request.finish(answer.result))
        return True

    def _carry_out(self, who: str, effect: ev.Effect) -> None:
        handlers: Mapping[type, Callable[[str, Any], None]] = {
            ev.Log: self._log,
            ev.FetchBlob: self._fetch,
            ev.CancelFetch: lambda _, e: None,  # fetches end at once
            ev.PublishPlan: lambda _, e: self._publish(e.plan),
            ev.FleetChanged: lambda _, e: self._note_change(),
            ev.ReplyRegistration: lambda _, e: self._reply(e.registration, e.reply),
            ev.SaveInitialModel: lambda _, e: self._book.save_initial(e.model),
            ev.SaveRobot: lambda _, e: self._book.save_robot(e),
            ev.SaveQuarantine: lambda _, e: self._book.save_quarantine(e),
            ev.CheckUpdate: lambda _, e: self._post(AGGREGATOR, self._book.check(e)),
            ev.SaveUpdate: lambda _, e: self._book.save_update(e),
            ev.StartAggregation: self._aggregate,
            ev.CommitRound: lambda _, e: self._commit(e),
            ev.CountSamples: self._count,
            ev.Register: lambda _, e: self._post(AGGREGATOR, e.registration),
            ev.Describe: self._describe,
            ev.PublishDescriptor: lambda _, e: self._post(AGGREGATOR, e.message),
            ev.StartTraining: self._train,
            ev.StopTraining: lambda _, e: None,
            ev.PublishReport: lambda _, e: self._post(AGGREGATOR, e.report),
            ev.SaveReport: lambda _, e: None,
            ev.PublishStatus: lambda _, e: self._hear(e.status),
        }
        handlers[type(effect)](who, effect)

    def _log(self, who: str, effect: ev.Log) -> None:
        if effect.level == "error":
            raise StrategyError(f"{who or 'aggregator'}: {effect.text}")

    def _fetch(self, who: str, effect: ev.FetchBlob) -> None:
        self._book.store.ref(effect.blob.digest)
        self._post(who, ev.BlobReady(effect.blob.digest))

    def _publish(self, plan: FleetPlan) -> None:
        self._on_plan(plan)
        self._broadcast(plan)

    def _broadcast(self, event: ev.Event) -> None:
        for robot_id in self._robots:
            self._post(robot_id, event)

    def _note_change(self) -> None:
        """Tell the fleet's state to onlookers and robots: at once in a small fleet, now and then in a large one."""
        self._changes += 1
        now = (self._aggregator.phase, self._aggregator.round)
        if now == self._told and self._changes * _TOLD_PART < len(self._robots):
            return
        self._changes, self._told = 0, now
        status = self._aggregator.fleet_status(self._now_s)
        self._on_view(SimulationView(fleet=status))
        self._broadcast(status)

    def _hear(self, status: RobotStatus) -> None:
        self._on_view(SimulationView(robot=status))
        self._post(AGGREGATOR, status)

    def _reply(self, registration: Registration, reply: RegistrationReply) -> None:
        self._post(registration.robot_id, reply)

    def _aggregate(self, who: str, effect: ev.StartAggregation) -> None:
        job = self._book.plan_aggregation(effect)
        with flushing(True):
            self._post(AGGREGATOR, run_aggregation(job, self._book.strategy, self._book.store))

    def _commit(self, effect: ev.CommitRound) -> None:
        with flushing(True):
            self._book.commit(effect)

    def _samples(self, robot_id: str) -> requests.Samples:
        source = self._entries[robot_id].recorded
        if source is None:
            raise ConfigError(f"robot {robot_id!r} has no source; a simulation needs one for each robot")

        def tell(done: int, total: int) -> None:
            text = f"recorded {done} of {total} frames"
            status = RobotStatus(robot_id, "simulated", RobotPhase.STARTING, progress=done / total, text=text)
            self._on_view(SimulationView(robot=status))

        kept = on_disk(source, self._base, self._folder / "robots" / robot_id, tell)
        return requests.Samples(kept, self._base)

    def _count(self, who: str, effect: ev.CountSamples) -> None:
        network, task = self._fleet.network, self._fleet.task
        request = requests.count_samples(self._samples(who), task, network.name, network.options)
        self._engine.submit(Job(who, request))

    def _describe(self, who: str, effect: ev.Describe) -> None:
        request = requests.describe(self._samples(who), self._fleet.task, effect.kind, who)
        self._engine.submit(Job(who, request))

    def _train(self, who: str, effect: ev.StartTraining) -> None:
        local = {"threads": self._threads, "device": "auto"}
        robot = requests.Installation(who, "simulated", self._folder / "robots" / who, local)
        request = requests.train(effect.plan, self._book.store, self._samples(who), robot)

        def progress(share: float, loss: float, samples_per_s: float) -> None:
            status = self._robots[who].handle(ev.Progress(share, loss, samples_per_s), self._now_s)
            for effect in status:
                if isinstance(effect, ev.PublishStatus):
                    self._on_view(SimulationView(robot=effect.status))

        self._engine.submit(Job(who, request, progress))


def _told_of(answer: Answer) -> FedError:
    """Return a job's error; one about recordings tells only their folder, so the robot is named, too."""
    err = answer.error
    if answer.job.request.kind == "count" and isinstance(err, ConfigError | DataError):
        return type(err)(f"robot {answer.job.robot_id}: {err}")
    return err or FedError("no answer")


def _aggregator(fleet: FleetConfig, run: RunConfig, descriptor: str | None, snapshot: Snapshot) -> Aggregator:
    """Return the role; it waits for all robots, and for as long as they take."""
    config = replace(fleet.aggregator, min_robots=len(fleet.robots), round_deadline_s=0.0, liveness_s=3600.0)
    return Aggregator(config, fleet.run, run, descriptor=descriptor, snapshot=snapshot, status_on_demand=True)


def _robot(robot_id: str, fleet: FleetConfig) -> Robot:
    config = RobotConfig(robot_id=robot_id, task=fleet.task)
    return Robot(config, "simulated", architecture=fleet.network.name, software=__version__)
