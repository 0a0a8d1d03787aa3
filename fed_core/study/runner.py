"""A whole study: tune on the clients, then every run, each once; what is finished on disk is never run again."""

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from fed_core import __version__
from fed_core.config import from_tree, to_tree
from fed_core.errors import ConfigError, StudyError
from fed_core.study import tuning
from fed_core.study.cell import SCHEMA_VERSION, CellJob, read_result
from fed_core.study.config import Cell, StudyConfig, cells_of
from fed_core.study.evaluation import prefix_length
from fed_core.study.generated import GENERATED
from fed_core.study.scenario import Scenario, StudySequence, from_stores, held_out
from fed_core.study.workers import Failure, MakeToolbox, Workers
from fed_core.training.local import TrainConfig
from fed_core.wire.files import write_text

STUDY, DATA, TUNING = "study.json", "data", "tuning"


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
        command: str = "",
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._config, self._folder, self._make = config, folder, make_toolbox
        self._data, self._jobs, self._command, self._on_progress = data, jobs, command, on_progress
        self._progress = Progress()
        self._check_settings()
        self._same_as_before()

    def run(self) -> Progress:
        """Carry out what is missing; returns how it ended.

        Raises:
            StudyError: the study cannot go on at all; a single run that fails is in the progress instead.
        """
        self._begin()
        with Workers(self._jobs, self._make, self._on_step) as workers:
            chosen = self._tune(workers)
            config = self._config if chosen is None else tuning.with_choice(self._config, chosen["chosen"])
            scenarios = self._prepare(workers, range(config.seeds))
            self._describe(config, scenarios, chosen)
            cells = cells_of(config)
            self._stage("runs", len(cells))
            self._carry_out(workers, self._folder, config, scenarios, cells)
        return self._progress

    # ---- stages --------------------------------------------------------------------------------------------------

    def _tune(self, workers: Workers) -> dict[str, Any] | None:
        """Choose the tuned option, on clients of seed 0."""
        if not self._config.tuning.values:
            return None
        folder = self._folder / TUNING
        if (folder / "tuning.json").exists():
            found: dict[str, Any] = json.loads((folder / "tuning.json").read_text())
            return found
        config = tuning.tuning_config(self._config)
        clients = self._clients(workers, 0)
        scenario = held_out(replace(self._scenario(0), clients=clients), self._config.tuning.held_out)
        cells = cells_of(config)
        self._stage(f"tuning {self._config.tuning.strategy}.{self._config.tuning.parameter}", len(cells))
        results = self._carry_out(workers, folder, config, {0: scenario}, cells)
        if len(results) < len(cells):
            first = self._progress.failures[0]
            raise StudyError(f"tuning failed, {first.what}: {first.text}")
        outcome = tuning.outcome(self._config, results)
        write_text(folder / "tuning.json", json.dumps(outcome, indent=1))
        return outcome

    def _prepare(self, workers: Workers, seeds: Sequence[int]) -> dict[int, Scenario]:
        ready = {}
        for seed in seeds:
            scenario, folder = self._scenario(seed), self._data_folder(seed)
            if not scenario.synthetic:  # prepared already
                ready[seed] = scenario
                continue
            stores = self._stored(workers, (*scenario.clients, *scenario.tests), folder)
            cut = len(scenario.clients)
            ready[seed] = replace(scenario, clients=stores[:cut], tests=stores[cut:])
        return ready

    def _clients(self, workers: Workers, seed: int) -> tuple[StudySequence, ...]:
        scenario = self._scenario(seed)
        if not scenario.synthetic:
            return scenario.clients
        return self._stored(workers, scenario.clients, self._data_folder(seed))

    def _stored(self, workers: Workers, sequences: Sequence[StudySequence], folder: Path) -> tuple[StudySequence, ...]:
        self._stage(f"recordings of {folder.name}", len(sequences))
        ready = {}
        for sequence in workers.prepare(sequences, folder):
            ready[sequence.name] = sequence
            self._progress.done = len(ready)
            self._on_progress(self._progress)
        return tuple(ready[sequence.name] for sequence in sequences)

    def _carry_out(
        self,
        workers: Workers,
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
            self._progress.running.pop(_name(cell), None)
            if isinstance(answer, Failure):
                self._progress.failures.append(answer)
            else:
                results[cell] = answer
            self._on_progress(self._progress)
        return results

    # ---- what belongs to it --------------------------------------------------------------------------------------

    def _scenario(self, seed: int) -> Scenario:
        if self._data is not None:
            return from_stores(self._data)
        return GENERATED[self._config.scenario](self._config, seed)

    def _data_folder(self, seed: int) -> Path:
        return self._folder / DATA / f"seed{seed}"

    def _check_settings(self) -> None:
        """Refuse networks and training options that would fail only after everything was prepared."""
        toolbox = self._make()
        for name, settings in self._config.models.items():
            with torch.device("meta"):
                toolbox.build(name, dict(settings.options))
            from_tree(TrainConfig, {**self._config.train, **settings.train}, f"train of {name}")

    def _begin(self) -> None:
        """Write down whose folder this is, before anything else lies in it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StudyError(f"cannot make the folder {self._folder}: {err.strerror}; name another with --out") from err
        if not (self._folder / STUDY).exists():
            tree = {"schema": SCHEMA_VERSION, "title": self._config.title, "fixed": self._fixed()}
            write_text(self._folder / STUDY, json.dumps(tree, indent=1))

    def _same_as_before(self) -> None:
        """Refuse to mix two studies in one folder; more seeds, networks or strategies are welcome."""
        path = self._folder / STUDY
        if not path.exists():
            return
        try:
            before = json.loads(path.read_text())["fixed"]
        except (ValueError, KeyError) as err:
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
            "title": config.title,
            "command": self._command,
            "synthetic": first.synthetic,
            "models": list(config.models),
            "strategies": list(dict.fromkeys(cell.label for cell in cells_of(config))),
            "cells": [[cell.model, cell.label, cell.seed] for cell in cells_of(config)],
            "seeds": list(range(config.seeds)),
            "rounds": config.rounds,
            "options": to_tree(config),
            "fixed": self._fixed(),
            "clients": [_row(client) for client in first.clients],
            "tests": [{**_row(test), **_scoring(test, config)} for test in first.tests],
            "tuning": chosen,
            "versions": _versions(),
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


def _name(cell: Cell) -> str:
    return f"{cell.model} {cell.label} seed {cell.seed}"


def _row(sequence: StudySequence) -> dict[str, Any]:
    frames = _num_frames(sequence)
    return {
        "name": sequence.name,
        "platform": sequence.platform,
        "environment": sequence.environment,
        "frames": frames,
    }


def _num_frames(sequence: StudySequence) -> int:
    from fed_core.data.open import open_source

    return len(open_source(sequence.source, Path()))


def _scoring(sequence: StudySequence, config: StudyConfig) -> dict[str, Any]:
    frames = _num_frames(sequence)
    prefix = prefix_length(frames, config, sequence.name)
    return {
        "cap_m": sequence.score.cap_m,
        "near_cap_m": sequence.score.near_cap_m or None,
        "crop": sequence.score.crop,
        "descriptor_frames": prefix,
        "scored_frames": len(range(prefix, frames, config.score_step)),
    }


def _versions() -> dict[str, str]:
    found = {"fed_perception": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return sys.platform
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), sys.platform)
