"""The course of a demo: train with each method over ROS 2, then serve and score the unseen sequences live."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from fed_cli.fleetrun.environment import local_environment
from fed_cli.fleetrun.monitor import MonitorReader
from fed_cli.fleetrun.runs import read_run
from fed_cli.fleetrun.supervisor import Supervisor
from fed_cli.fleetrun.view import FleetView
from fed_core.data.samples import open_samples
from fed_core.data.snapshots import is_recorded
from fed_core.deployment import Deployment, NodeSpec
from fed_core.errors import ConfigError, FedError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry, SequenceEntry

#: Frames per second of the replays that feed the robots, and the longest time without any change.
REPLAY_HZ = 20.0
STALL_S = 240.0
#: Inference nodes that run at the same time: each holds PyTorch.
AT_ONCE = 5


@dataclass(frozen=True)
class Method:
    """One column of the result table: a run of the fleet.

    Attributes:
        name: column and run ("fedepth").
        fleet: the fleet file of that run.
    """

    name: str
    fleet: FleetConfig


def methods_of(fleet: FleetConfig) -> tuple[Method, ...]:
    """Return the fleet's own method, FedAvg with an equal budget, and the untrained initial model (0 rounds)."""
    average = NamedOptions("fedavg")
    return (
        Method(fleet.strategy.name, replace(fleet, run=fleet.strategy.name)),
        Method("fedavg", replace(fleet, run="fedavg", strategy=average)),
        Method("initial", replace(fleet, run="initial", strategy=average, rounds=0)),
    )


class FleetRun:
    """Runs all methods of a demo in one folder; what is finished there is not done again.

    Args:
        fleet: the fleet file.
        base: folder that relative paths of its sources start from.
        folder: the run's folder.
        console: where progress goes.
    """

    def __init__(self, fleet: FleetConfig, base: Path, folder: Path, console: Console) -> None:
        self._fleet, self._base, self._folder, self._console = fleet, base, folder, console
        self._replayed: list[RobotEntry] = []

    def run(self) -> None:
        """Train and score every method; results lie in ``<folder>/scores/<method>``."""
        todo = [method for method in methods_of(self._fleet) if not self._is_done(method)]
        if not todo:
            return
        require_frames(self._fleet, self._base)
        environment = local_environment(self._folder, shown=True)
        domain = environment["ROS_DOMAIN_ID"]
        self._console.print(f"watch it: fedperc top, or fedperc dashboard (--domain-id {domain})", highlight=False)
        with Supervisor(self._folder, environment) as supervisor:
            deployment = Deployment(self._fleet, self._base, self._folder)
            monitor = MonitorReader(
                supervisor.command(deployment.monitor()),
                supervisor.environment,
                str(self._folder / "log" / "monitor.log"),
            )
            try:
                with FleetView(self._console, monitor.state) as view:
                    self._feed_robots(supervisor, deployment)
                    for method in todo:
                        self._one_method(method, supervisor, monitor, view)
            finally:
                monitor.close()

    def _feed_robots(self, supervisor: Supervisor, deployment: Deployment) -> None:
        for entry in self._fleet.robots:
            supervisor.start(deployment.robot(entry), respawn=True)
            recorded = is_recorded(self._folder / "robots" / entry.id)
            replay = deployment.replay(entry, REPLAY_HZ)
            if replay is not None and not recorded:
                supervisor.start(replay)
                self._replayed.append(entry)

    def _one_method(self, method: Method, supervisor: Supervisor, monitor: MonitorReader, view: FleetView) -> None:
        deployment = Deployment(method.fleet, self._base, self._folder)
        view.stage = f"learning ({method.name})"
        supervisor.start(deployment.aggregator(), respawn=True)
        self._wait(lambda: monitor.state.finished(method.name), monitor, view, supervisor, f"run {method.name}")
        for text in read_run(self._folder / "aggregator" / method.name).warnings:
            self._console.print(f"warning ({method.name}): {text}", highlight=False)
        (self._folder / "scores" / method.name).mkdir(parents=True, exist_ok=True)
        for group in served_together(deployment, [t for t in method.fleet.test if not self._scored(method, t)]):
            self._serve(method, group, _Processes(supervisor, monitor, view))
        fleet = monitor.state.fleet
        details = {
            "bytes": fleet["sent_bytes"] + fleet["received_bytes"],
            "models": monitor.state.plans[method.name]["models"],
            "members": {robot["id"]: robot["clusters"] for robot in fleet["robots"]},
        }
        (self._folder / "scores" / method.name / "run.json").write_text(json.dumps(details), encoding="utf-8")
        supervisor.stop("aggregator")

    def _serve(self, method: Method, group: Sequence[SequenceEntry], processes: "_Processes") -> None:
        """Play sequences to their inference nodes, at once to different ones, one after the other to the same."""
        supervisor, monitor, view = processes
        deployment = Deployment(method.fleet, self._base, self._folder)
        nodes = {entry.name: deployment.watcher(entry) for entry in group}
        for spec in {spec.name: spec for spec in nodes.values()}.values():
            supervisor.start(spec, respawn=True)
        for wave in waves(nodes):
            entries = [entry for entry in group if entry.name in wave]
            view.stage = f"serving {', '.join(wave)} live ({method.name})"
            specs = [
                deployment.score(e, self._score_file(method, e.name).absolute(), nodes[e.name].namespace)
                for e in entries
            ]
            for spec in specs:
                supervisor.start(spec)
            for entry, spec in zip(entries, specs, strict=True):
                out = self._score_file(method, entry.name)
                ended = partial(self._score_ended, supervisor, spec.name, out)
                self._wait(ended, monitor, view, supervisor, f"the score of {entry.name}")
                if not out.exists():
                    raise FedError(f"scoring {entry.name} failed: {supervisor.log_tail(spec.name)}")
                supervisor.stop(spec.name)
        for name in {spec.name for spec in nodes.values()}:
            supervisor.stop(name)

    def _wait(
        self,
        done: Callable[[], bool],
        monitor: MonitorReader,
        view: FleetView,
        supervisor: Supervisor,
        what: str,
    ) -> None:
        """Wait for a condition, woken by every line of the monitor; silence of the whole fleet is an error."""
        quiet_since_s, last = time.monotonic(), monitor.state.position()
        while not done():
            with monitor.changed:
                monitor.changed.wait(timeout=0.5)
            view.refresh()
            now = monitor.state.position()
            if now != last:
                quiet_since_s, last = time.monotonic(), now
            self._fail_early(monitor, supervisor)
            if time.monotonic() - quiet_since_s > STALL_S:
                hint = supervisor.log_tail("aggregator")
                raise FedError(f"nothing moved for {STALL_S:.0f} s while waiting for {what}; aggregator: {hint}")

    def _fail_early(self, monitor: MonitorReader, supervisor: Supervisor) -> None:
        for entry in self._replayed:
            fed = is_recorded(self._folder / "robots" / entry.id)
            if not fed and not supervisor.running(f"{entry.id}_replay"):
                raise FedError(f"the replay of {entry.id} ended: {supervisor.log_tail(f'{entry.id}_replay')}")
        for name in {entry.id for entry in self._fleet.robots} - set(monitor.state.robots):
            if fault := supervisor.fault(name):  # it would be started again for ever
                raise FedError(f"robot {name} cannot start: {fault}")
        for robot in monitor.state.robots.values():
            if robot["phase"] == "failed":
                raise FedError(f"robot {robot['id']} failed: {robot['text']}")
        if monitor.state.fleet.get("phase") == "failed":
            raise FedError(f"the aggregator failed: {monitor.state.fleet}")

    @staticmethod
    def _score_ended(supervisor: Supervisor, name: str, out: Path) -> bool:
        return out.exists() or not supervisor.running(name)

    def _score_file(self, method: Method, sequence: str) -> Path:
        return self._folder / "scores" / method.name / f"{sequence}.json"

    def _scored(self, method: Method, entry: SequenceEntry) -> bool:
        return self._score_file(method, entry.name).exists()

    def _is_done(self, method: Method) -> bool:
        return (self._folder / "scores" / method.name / "run.json").exists()


class _Processes(NamedTuple):
    supervisor: Supervisor
    monitor: MonitorReader
    view: FleetView


def served_together(deployment: Deployment, entries: Sequence[SequenceEntry]) -> list[list[SequenceEntry]]:
    """Return the sequences in groups that need at most :data:`AT_ONCE` inference nodes each."""
    by_node: dict[str, list[SequenceEntry]] = {}
    for entry in entries:
        by_node.setdefault(deployment.watcher(entry).name, []).append(entry)
    found = list(by_node.values())
    return [[e for part in found[k : k + AT_ONCE] for e in part] for k in range(0, len(found), AT_ONCE)]


def waves(nodes: Mapping[str, NodeSpec]) -> list[list[str]]:
    """Return the sequences that can be played at the same time, none of them to the same node.

    Args:
        nodes: inference node of each sequence.
    """
    found: list[list[str]] = []
    places: dict[str, int] = {}
    for name, spec in nodes.items():
        place = places[spec.name] = places.get(spec.name, -1) + 1
        if place == len(found):
            found.append([])
        found[place].append(name)
    return found


def require_frames(fleet: FleetConfig, base: Path) -> None:
    """Refuse held-out sequences that leave no frame to score, before hours of training.

    Args:
        fleet: the fleet file.
        base: folder that relative paths of its sources start from.

    Raises:
        ConfigError: the first ``descriptor_frames`` choose the models, and a sequence has no more.
    """
    choosing = fleet.inference.descriptor_frames
    for entry in fleet.test:
        frames = len(open_samples(fleet.task, entry.source, base))
        if frames <= choosing:
            told = f"{entry.name} has {frames} frames; scoring needs more than descriptor_frames ({choosing})"
            raise ConfigError(
                f"{told}: hold out more, or write inference: {{descriptor_frames: N}} into the fleet file"
            )


def read_scores(folder: Path, fleet: FleetConfig) -> dict[str, dict[str, Any]]:
    """Return, by method, the run's details and the score of every test sequence by name."""
    found: dict[str, dict[str, Any]] = {}
    for method in methods_of(fleet):
        place = folder / "scores" / method.name
        found[method.name] = {
            "run": json.loads((place / "run.json").read_text(encoding="utf-8")),
            **{t.name: json.loads((place / f"{t.name}.json").read_text(encoding="utf-8")) for t in fleet.test},
        }
    return found
