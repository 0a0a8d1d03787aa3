"""A whole study: tune on the clients, then every run, each once; what is finished on disk is never run again."""

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fed_core import __version__
from fed_core.config import from_tree, to_tree
from fed_core.errors import ConfigError, StudyError
from fed_core.extras import versions
from fed_core.simulation.ray_cluster import RayOptions
from fed_core.strategies.base import make_strategy
from fed_core.study import tuning
from fed_core.study.base import CellJob
from fed_core.study.cell import SCHEMA_VERSION, read_result
from fed_core.study.config import FOREIGN, Cell, StudyConfig, cells_of
from fed_core.study.kinds import kind_of
from fed_core.study.pool import Failure, MakeToolbox, Pool
from fed_core.study.ray_workers import RayWorkers
from fed_core.study.scenario import Scenario, StudySequence, held_out
from fed_core.study.workers import Workers
from fed_core.tasks.base import tasks
from fed_core.training.options import TrainConfig
from fed_core.wire.files import write_text

STUDY, DATA, TUNING, CHOICE = "study.json", "data", "tuning", "tuning.json"
#: May lie in a folder before its study.json: recordings that were prepared for it, and what a study of its own left.
_OWN = frozenset({DATA, TUNING, "recordings", "cells", "panels"})


@dataclass
class Progress:
    """How far a study is; an onlooker is called with it after every change.

    Attributes:
        stage: what is done.
        done: runs that are over.
        found: those among them that were on disk already.
        total: runs in all.
        running: (done, total) of each step that goes on, by name.
        failures: runs that could not be carried out.
    """

    stage: str = ""
    done: int = 0
    found: int = 0
    total: int = 0
    running: dict[str, tuple[int, int]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


class Study:
    """Runs a study in a folder.

    Args:
        config: what is compared.
        folder: of the study; an interrupted one there goes on.
        make_toolbox: a module's function that makes the networks' toolbox.
        data: folder of prepared recordings; None = rendered.
        jobs: processes.
        ray: how Ray's processes do the work; None = processes of this machine do.
        command: how it was started, for the report.
        on_progress: called after every change.
    """

    def __init__(
        self,
        config: StudyConfig,
        folder: Path,
        make_toolbox: MakeToolbox,
        *,
        data: Path | None = None,
        jobs: int = 1,
        ray: RayOptions | None = None,
        command: str = "",
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._config, self._folder, self._make = config, folder.absolute(), make_toolbox
        self._data, self._jobs, self._ray = data, jobs, ray
        self._command, self._on_progress = command, on_progress
        self._progress = Progress()
        self._recorded: Scenario | None = None
        self._check_settings()
        self._same_as_before()

    def run(self) -> Progress:
        """Carry out what is missing; returns how it ended.

        Raises:
            StudyError: the study cannot go on at all; a single run that fails is in the progress instead.
        """
        if self._data is not None:  # before anything is written or started
            self._recorded = kind_of(self._config).recorded(self._config, self._data)
        self._begin()
        with self._pool() as workers:
            self._jobs = workers.count
            chosen = self._tune(workers)
            config = self._config if chosen is None else tuning.with_choice(self._config, chosen["chosen"])
            scenarios = {seed: self._scenario(workers, seed) for seed in range(config.seeds)}
            self._describe(config, scenarios, chosen)
            cells = cells_of(config)
            self._stage("runs", len(cells))
            self._carry_out(workers, self._folder, config, scenarios, cells)
        return self._progress

    def _pool(self) -> Pool:
        if self._ray is None:
            return Workers(self._jobs, self._make, self._on_step)
        return RayWorkers(self._ray, self._make, self._folder, self._on_step)

    # ---- stages --------------------------------------------------------------------------------------------------

    def _tune(self, workers: Pool) -> dict[str, Any] | None:
        """Choose the tuned option, on clients of seed 0."""
        if not self._config.tuning.values:
            return None
        folder = self._folder / TUNING
        if (folder / CHOICE).exists():
            return _read_choice(folder / CHOICE)
        config = tuning.tuning_config(self._config)
        scenario = held_out(self._scenario(workers, 0, clients_only=True), self._config.tuning.held_out)
        cells = cells_of(config)
        self._stage(f"tuning {self._config.tuning.strategy}.{self._config.tuning.parameter}", len(cells))
        results = self._carry_out(workers, folder, config, {0: scenario}, cells)
        if len(results) < len(cells):
            first = self._progress.failures[0]
            raise StudyError(f"tuning failed, {first.what}: {first.text}")
        outcome = tuning.outcome(self._config, results)
        write_text(folder / CHOICE, json.dumps(outcome, indent=1))
        return outcome

    def _scenario(self, workers: Pool, seed: int, *, clients_only: bool = False) -> Scenario:
        """Return the scenario of a seed; what is rendered lies on disk afterwards."""
        kind, folder = kind_of(self._config), self._folder / DATA / f"seed{seed}"
        if self._recorded is not None:
            return self._recorded
        pieces = kind.pieces(self._config, seed, clients_only=clients_only)
        self._stage(f"recordings of {folder.name}", len(pieces))
        for _ in workers.write(pieces, folder):
            self._progress.done += 1
            self._on_progress(self._progress)
        return kind.rendered(self._config, seed, folder)

    def _carry_out(
        self,
        workers: Pool,
        folder: Path,
        config: StudyConfig,
        scenarios: dict[int, Scenario],
        cells: Sequence[Cell],
    ) -> dict[Cell, dict[str, Any]]:
        first = min(scenarios)
        jobs = [CellJob(c, config, scenarios[c.seed], folder, panels=c.seed == first) for c in cells]
        results = {job.cell: found for job in jobs if (found := read_result(job)) is not None}
        self._progress.done = self._progress.found = len(results)
        self._on_progress(self._progress)
        for cell, answer in workers.run([job for job in jobs if job.cell not in results]):
            self._progress.done += 1
            self._progress.running.pop(cell.name, None)
            if isinstance(answer, Failure):
                self._progress.failures.append(answer)
            else:
                results[cell] = answer
            self._on_progress(self._progress)
        return results

    # ---- what belongs to it --------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse networks, training options and methods that would fail only after everything was prepared."""
        toolbox, task = self._make(), tasks.get(self._config.task)()
        for name, settings in self._config.models.items():
            with torch.device("meta"):
                task.check_network(toolbox.build(name, dict(settings.options)), name)
            from_tree(TrainConfig, self._config.train_of(name), f"train of {name}")
        for cell in cells_of(self._config):
            chosen = self._config.strategy_of(cell.label)
            make_strategy(chosen.name, chosen.options).check_training(self._config.train_of(cell.model))

    def _begin(self) -> None:
        """Write down whose folder this is, before anything else lies in it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StudyError(f"cannot make the folder {self._folder}: {err.strerror}; name another with --out") from err
        if not (self._folder / STUDY).exists():
            tree = {
                "schema": SCHEMA_VERSION,
                "title": self._config.title,
                "task": self._config.task,
                "fixed": self._fixed(),
            }
            write_text(self._folder / STUDY, json.dumps(tree, indent=1))

    def _same_as_before(self) -> None:
        """Refuse a folder of something else, or of other settings; more seeds, networks or strategies are welcome."""
        path = self._folder / STUDY
        if not path.exists():
            others = sorted(child.name for child in self._folder.glob("[!.]*") if child.name not in _OWN)
            if others:
                text = f"{self._folder} is not empty and holds no study, but {', '.join(others[:3])}"
                raise ConfigError(f"{text}; name a new folder with --out")
            return
        try:
            before = json.loads(path.read_text())["fixed"]
        except (ValueError, KeyError, TypeError) as err:
            raise ConfigError(f"{path} is broken; use another folder with --out") from err
        now = json.loads(json.dumps(self._fixed()))
        changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
        if changed:
            text = f"{self._folder} holds a study with other settings ({', '.join(changed)})"
            raise ConfigError(f"{text}; use another folder with --out")

    def _fixed(self) -> dict[str, Any]:
        """Return the settings that all runs of a folder share."""
        tree: dict[str, Any] = to_tree(self._config)
        fixed = {key: value for key, value in tree.items() if key not in ("seeds", "models", "ablations", "title")}
        fixed["data"] = None if self._data is None else str(self._data.absolute())
        for name, settings in tree["models"].items():
            fixed[f"models.{name}"] = {key: settings[key] for key in ("options", "train", "rounds")}
        return fixed

    def _describe(self, config: StudyConfig, scenarios: dict[int, Scenario], chosen: dict[str, Any] | None) -> None:
        """Write what a report says about the study as a whole."""
        first = scenarios[min(scenarios)]
        tree = {
            "schema": SCHEMA_VERSION,
            "study": config.scenario,
            "task": config.task,
            "title": config.title,
            "command": self._command,
            "synthetic": first.synthetic,
            "models": list(config.models),
            "strategies": list(dict.fromkeys(cell.label for cell in cells_of(config))),
            "cells": [[cell.model, cell.label, cell.seed] for cell in cells_of(config)],
            "seeds": list(range(config.seeds)),
            "rounds": config.rounds,
            "options": {key: value for key, value in to_tree(config).items() if key not in FOREIGN[config.task]},
            "fixed": self._fixed(),
            "clients": [_row(client, config) for client in first.clients],
            "tests": [_scored_row(test, config) for test in first.tests],
            "tuning": chosen,
            "versions": {
                "fed_perception": __version__,
                "python": platform.python_version(),
                **versions("torch", "numpy", "transformers"),
            },
            "machine": f"{os.cpu_count()} CPUs, {_processor()}, {self._jobs} processes",
        }
        write_text(self._folder / STUDY, json.dumps(tree, indent=1))

    def _stage(self, name: str, total: int) -> None:
        self._progress.stage, self._progress.total = name, total
        self._progress.done = self._progress.found = 0
        self._progress.running.clear()
        self._on_progress(self._progress)

    def _on_step(self, what: str, done: int, total: int) -> None:
        self._progress.running[what] = (done, total)
        self._on_progress(self._progress)


def _read_choice(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as err:
        raise StudyError(f"cannot read {path}: {err}; delete it to tune again") from err
    return found


def _row(sequence: StudySequence, config: StudyConfig) -> dict[str, Any]:
    return {
        "name": sequence.name,
        "platform": sequence.platform,
        "environment": sequence.environment,
        "frames": len(tasks.get(config.task)().open(sequence.source, Path())),
    }


def _scored_row(sequence: StudySequence, config: StudyConfig) -> dict[str, Any]:
    row = _row(sequence, config)
    return {**row, **kind_of(config).scoring(sequence, row["frames"], config)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return sys.platform
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), sys.platform)
