"""The course of a demo: train with each method over ROS 2, then serve and score the unseen sequences live."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from fed_cli.fleetrun.environment import local_environment
from fed_cli.fleetrun.runs import read_run
from fed_cli.fleetrun.supervisor import Supervisor
from fed_cli.fleetrun.view import FleetView, MonitorReader
from fed_core.deployment import Deployment
from fed_core.errors import FedError
from fed_core.fleet import FleetConfig, NamedOptions

#: Frames per second of the replays that feed the robots, and the longest time without any change.
REPLAY_HZ = 20.0
STALL_S = 240.0


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

    def run(self) -> None:
        """Train and score every method; results lie in ``<folder>/scores/<method>``."""
        todo = [method for method in methods_of(self._fleet) if not self._is_done(method)]
        if not todo:
            return
        with Supervisor(self._folder, local_environment(self._folder)) as supervisor:
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
            recorded = (self._folder / "robots" / entry.id / "samples").exists()
            replay = deployment.replay(entry, REPLAY_HZ)
            if replay is not None and not recorded:
                supervisor.start(replay)

    def _one_method(self, method: Method, supervisor: Supervisor, monitor: MonitorReader, view: FleetView) -> None:
        deployment = Deployment(method.fleet, self._base, self._folder)
        view.stage = f"learning ({method.name})"
        supervisor.start(deployment.aggregator(), respawn=True)
        self._wait(lambda: monitor.state.finished(method.name), monitor, view, supervisor, f"run {method.name}")
        for text in read_run(self._folder / "aggregator" / method.name).warnings:
            self._console.print(f"warning ({method.name}): {text}", highlight=False)
        (self._folder / "scores" / method.name).mkdir(parents=True, exist_ok=True)
        supervisor.start(deployment.inference(), respawn=True)
        for entry in method.fleet.test:
            out = self._score_file(method, entry.name)
            if out.exists():
                continue
            view.stage = f"serving {entry.name} live ({method.name})"
            spec = deployment.score(entry, out.absolute())
            supervisor.start(spec)
            ended = partial(self._score_ended, supervisor, spec.name, out)
            self._wait(ended, monitor, view, supervisor, f"the score of {entry.name}")
            if not out.exists():
                raise FedError(f"scoring {entry.name} failed: {supervisor.log_tail(spec.name)}")
            supervisor.stop(spec.name)
        supervisor.stop("inference")
        fleet = monitor.state.fleet
        details = {
            "bytes": fleet["sent_bytes"] + fleet["received_bytes"],
            "models": monitor.state.plans[method.name]["models"],
            "members": {robot["id"]: robot["clusters"] for robot in fleet["robots"]},
        }
        (self._folder / "scores" / method.name / "run.json").write_text(json.dumps(details), encoding="utf-8")
        supervisor.stop("aggregator")

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
        for entry in self._fleet.robots:
            fed = (self._folder / "robots" / entry.id / "samples").exists()
            if entry.source is not None and not fed and not supervisor.running(f"{entry.id}_replay"):
                raise FedError(f"the replay of {entry.id} ended: {supervisor.log_tail(f'{entry.id}_replay')}")
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

    def _is_done(self, method: Method) -> bool:
        return (self._folder / "scores" / method.name / "run.json").exists()


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
