"""The models that a run keeps on this machine, and the weights of one of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fed_cli.fleetrun.folder import CONFIG, kept_fleet
from fed_cli.fleetrun.runs import JOURNAL, open_journal
from fed_cli.reports.history import History
from fed_cli.reports.sources import Source, read_sources
from fed_core.errors import DataError, StoreError
from fed_core.requests import Installation, kept_files
from fed_core.roles.messages import FleetPlan
from fed_core.strategies.base import Strategy, make_strategy
from fed_core.strategies.wrapper import unwrapped
from fed_core.types import Array, ModelSignature
from fed_core.wire.files import hash_file

#: Result of a run of a study, which ends without its models.
_RESULT = "result.json"
_RUNS = "aggregator"


@dataclass(frozen=True)
class StoredRun:
    """A run with a closed round.

    Attributes:
        history: what its journal tells.
        run_id: its name.
        plan: of the last round that closed.
        signature: of the network.
        demo: folder of the demo that it belongs to; None = it stands alone.
    """

    history: History
    run_id: str
    plan: FleetPlan
    signature: ModelSignature
    demo: Path | None

    @property
    def folder(self) -> Path:
        """Where the journal lies."""
        return self.history.folder

    @property
    def round(self) -> int:
        """The last round that closed."""
        return self.history.rounds[-1].number

    @property
    def models(self) -> tuple[str, ...]:
        """Keys of the models, each once."""
        return tuple(dict.fromkeys(self.plan.models))

    @cached_property
    def strategy(self) -> Strategy:
        """The federated method."""
        return make_strategy(self.plan.config.strategy, self.plan.config.strategy_options)

    @property
    def is_personal(self) -> bool:
        """Whether tensors stay on the robots, so that no model of the fleet is whole."""
        return self.strategy.travels(self.signature) != frozenset(self.signature.names)

    def robot_folder(self, robot: str) -> Path:
        """Return where a robot of the run keeps its state, if it does so on this machine."""
        return (self.folder if self.demo is None else self.demo) / "robots" / robot

    def weights_of(self, key: str) -> dict[str, Array]:
        """Return the tensors of a model of the fleet; one that is not whole without a robot's is an error."""
        return self._weights((key,), {}, f"name a robot with --robot: {', '.join(sorted(self.plan.robots))}")

    def weights_for(self, robot: str) -> dict[str, Array]:
        """Return the tensors that a robot goes on with: the mean of its models, merged with what it keeps to itself.

        Raises:
            StoreError: the method lets robots keep something, and this one's is not on this machine, or damaged.
        """
        from fed_core.training.kept import read_kept

        folder = self.robot_folder(robot)
        installation = Installation(robot, "", folder, {})
        hint = f"not in {folder}; export where the robot's folder lies"
        keeps = self.is_personal or type(unwrapped(self.strategy)).merge is not Strategy.merge
        kept = kept_files(self.plan, installation)
        if keeps and not kept["own"] and self._trained(robot):
            raise StoreError(f"what {robot} keeps to itself is {hint}")
        if keeps and read_kept(kept, self.signature).damaged:
            raise StoreError(f"what {robot} keeps to itself in {folder} is damaged, so its model is not known")
        return self._weights(self.plan.robots[robot].load, kept, f"those of {robot} are {hint}")

    def _trained(self, robot: str) -> bool:
        return any(one == robot for _, one in self.history.updates)

    def _weights(self, keys: tuple[str, ...], kept: Mapping[str, str], no_own: str) -> dict[str, Array]:
        from fed_core.training.kept import served_weights

        paths = {key: self.folder / "blobs" / self.plan.blobs[key].digest for key in keys}
        lost = [key for key, path in paths.items() if not path.is_file()]
        if lost:
            raise StoreError(f"model {lost[0]} of {self.folder} is gone: {paths[lost[0]]} does not exist")
        for key, path in paths.items():
            if hash_file(path).digest != path.name:
                raise StoreError(f"model {key} of {self.folder} is damaged: {path} has another digest than its name")
        return served_weights(paths, kept, self.strategy, self.signature, no_own=no_own)


@dataclass(frozen=True)
class Found:
    """What a path holds.

    Attributes:
        path: as it was given.
        runs: those with a closed round; the demo's own method first.
        summary: of a demo that ended.
        fleet: fleet file of a demo or a simulation.
        base: folder that paths of the fleet file start from, where that is known.
        demo: folder of a demo.
    """

    path: Path
    runs: tuple[StoredRun, ...]
    summary: Mapping[str, Any] | None
    fleet: Mapping[str, Any] | None
    base: Path | None
    demo: Path | None

    def run(self, name: str) -> StoredRun | None:
        """Return the run of a method of a demo."""
        return next((run for run in self.runs if run.folder.name == name), None)


def find_runs(path: Path) -> Found:
    """Return the runs of a path that have closed a round.

    Raises:
        DataError: there is no run, or it keeps no models.
        StoreError: no round has closed yet, or a journal is broken.
    """
    if (path / _RESULT).is_file() and not (path / JOURNAL).is_file():
        raise DataError(f"{path} is a run of a study, which keeps scores and no models; name a run or a demo")
    source = read_sources([path])[0]
    if source.study is not None:
        raise DataError(f"{path} is a study, which keeps scores and no models; name a run or a demo")
    if not source.histories:
        raise StoreError(f"{path} holds no run yet; wait until a round has closed")
    trained = [history for history in source.histories if history.trained]
    if not trained:
        raise StoreError(f"no round of {path} has closed yet, so there is no trained model; wait for the first")
    demo, source = _demo_of(path, source)
    fleet, base = source.fleet, None
    if demo is None and (kept := kept_fleet(trained[0].folder)) is not None:
        fleet, base = kept
    return Found(path, tuple(_stored(h, demo) for h in trained), source.summary, fleet, base, demo)


def _demo_of(path: Path, source: Source) -> tuple[Path | None, Source]:
    """Return the demo that a path is or lies in, and what is known of it."""
    if source.is_demo or (path / _RUNS).is_dir():
        return path, source
    parent = source.folder.absolute().parent
    if parent.name == _RUNS and (parent.parent / CONFIG).is_file():
        return parent.parent, read_sources([parent.parent])[0]
    return None, source


def _stored(history: History, demo: Path | None) -> StoredRun:
    with open_journal(history.folder) as journal:
        run_id, text = journal.execute("SELECT run_id, config FROM runs").fetchone()
        plan = journal.execute("SELECT plan FROM rounds ORDER BY round DESC LIMIT 1").fetchone()[0]
        signature = ModelSignature.from_json(json.loads(text)["initial"]["signature"])
        return StoredRun(history, run_id, FleetPlan.from_json(json.loads(plan)), signature, demo)
