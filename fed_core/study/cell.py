"""One run of a study: a federation in this process, scored after every round, with its result on disk.

An interrupted run goes on from its journal, and ends with the same figures as one that was left alone.
"""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.config import from_tree
from fed_core.data.open import SourceConfig
from fed_core.errors import StudyError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation
from fed_core.strategies.base import make_strategy
from fed_core.study.base import CellJob, Moment, OnStep, Run
from fed_core.study.config import CENTRALISED, DESCRIPTOR_FRAMES, POOL, parse_label
from fed_core.study.descriptors import at_most
from fed_core.study.kinds import kind_of
from fed_core.study.provenance import code_digest, data_digest
from fed_core.training.jobs import Toolbox
from fed_core.training.options import TrainConfig
from fed_core.wire.files import write_text

RESULT, ROUNDS, RUN = "result.json", "rounds.jsonl", "run"
SCHEMA_VERSION = 1


def run_cell(job: CellJob, toolbox: Toolbox, on_round: OnStep = lambda done, total: None) -> dict[str, Any]:
    """Return the result of a run, which lies in its folder afterwards; a finished run is only read.

    Raises:
        FedError: the run cannot be carried out.
    """
    found = read_result(job)
    if found is not None:
        return found
    folder = job.folder / job.cell.folder
    folder.mkdir(parents=True, exist_ok=True)
    result = _CellRun(job, toolbox, on_round).run()
    shutil.rmtree(folder / RUN, ignore_errors=True)
    return result


def read_result(job: CellJob) -> dict[str, Any] | None:
    """Return the result of a run that is finished, else None; a broken file is an error."""
    path = job.folder / job.cell.folder / RESULT
    if not path.exists():
        return None
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as err:
        raise StudyError(f"cannot read {path}: {err}; delete it to run this cell again") from err
    return result


class _CellRun:
    def __init__(self, job: CellJob, toolbox: Toolbox, on_round: OnStep) -> None:
        self._job, self._on_round = job, on_round
        self._rounds = job.config.rounds_of(job.cell.model)
        self._folder = job.folder / job.cell.folder
        options = parse_label(job.cell.label)[1]
        toolbox = replace(toolbox, describe=at_most(toolbox.describe, int(options.get(DESCRIPTOR_FRAMES, 0))))
        self._chosen = job.config.strategy_of(job.cell.label)
        strategy = make_strategy(self._chosen.name, self._chosen.options)
        network = toolbox.build(job.cell.model, job.config.models[job.cell.model].options)
        self._parameters = sum(p.numel() for p in network.parameters())
        self._scores = kind_of(job.config).scores(
            Run(job, self._chosen, strategy, network.eval(), toolbox, self._folder)
        )
        self._train = from_tree(TrainConfig, job.config.train_of(job.cell.model), f"train of {job.cell.model}")
        self._code = code_digest()  # of the code as it runs, not as it is when the run ends
        run = self._folder / RUN
        if not run.exists():  # its result was deleted, or its run's folder: it starts anew
            (self._folder / ROUNDS).unlink(missing_ok=True)
        self._lines = _read_lines(self._folder / ROUNDS)
        self._result: dict[str, Any] = {}
        self._since_s = time.monotonic()
        self._simulation = Simulation(self._fleet(), Path(), run, toolbox, on_plan=self._on_plan, threads=1)

    def run(self) -> dict[str, Any]:
        """Run the federation; its last plan gives the result, while the run's store is still open."""
        self._simulation.run()
        write_text(self._folder / RESULT, json.dumps(self._result, indent=1))
        return self._result

    def _fleet(self) -> FleetConfig:
        job, config = self._job, self._job.config
        clients = job.scenario.clients
        robots = tuple(RobotEntry(client.name, client.source) for client in clients)
        if self._chosen.name == CENTRALISED:
            robots = (RobotEntry(POOL, SourceConfig(parts=tuple(client.source for client in clients))),)
        return FleetConfig(
            run="study",
            robots=robots,
            task=config.task,
            network=NamedOptions(job.cell.model, dict(config.models[job.cell.model].options)),
            strategy=self._chosen,
            rounds=self._rounds,
            seed=job.cell.seed,
            train=config.train_of(job.cell.model),
        )

    def _on_plan(self, plan: FleetPlan) -> None:
        """Score the models of the round that closed, unless that was done before an interruption."""
        closed = self._simulation.book.closed()
        if closed is None or closed.round == 0:
            return
        moment = Moment(closed, plan, self._simulation.book, self._folder / RUN / "robots")
        if closed.round > len(self._lines):
            trained_s = time.monotonic() - self._since_s
            line = self._line(moment, trained_s)
            with (self._folder / ROUNDS).open("a") as file:
                file.write(json.dumps(line) + "\n")
            self._lines.append(line)
        self._since_s = time.monotonic()
        if plan.finished:
            found = self._scores.result(moment, self._lines)
            self._result = {**self._head(), **found, **self._costs()}
        self._on_round(closed.round, self._rounds)

    def _line(self, moment: Moment, trained_s: float) -> dict[str, Any]:
        start_s, closed = time.monotonic(), moment.closed
        weights = [float(report.num_samples) for report in closed.reports]
        return {
            "round": closed.round,
            **self._scores.round(moment, self._lines),
            "lr": self._train.lr_of(closed.round, self._rounds),
            "loss": float(np.average([report.loss for report in closed.reports], weights=weights)),
            "upload_bytes": sum(blob.size_bytes for report in closed.reports for blob in report.blobs.values()),
            "download_bytes": _download_bytes(moment.plan),
            "train_s": trained_s,
            "seconds": trained_s + time.monotonic() - start_s,
        }

    def _head(self) -> dict[str, Any]:
        cell = self._job.cell
        return {
            "schema": SCHEMA_VERSION,
            "model": cell.model,
            "strategy": self._chosen.name,
            "label": cell.label,
            "options": dict(self._chosen.options),
            "seed": cell.seed,
            "rounds": self._rounds,
            "parameters": self._parameters,
            "code": self._code,
            "data": data_digest((*self._job.scenario.clients, *self._job.scenario.tests)),
        }

    def _costs(self) -> dict[str, Any]:
        train_s, total_s = (sum(line[key] for line in self._lines) for key in ("train_s", "seconds"))
        return {
            "upload_bytes": sum(line["upload_bytes"] for line in self._lines),
            "download_bytes": sum(line["download_bytes"] for line in self._lines),
            "seconds": {"train": train_s, "evaluate": total_s - train_s, "total": total_s},
        }


def _download_bytes(plan: FleetPlan) -> int:
    wanted = (plan.wanted_by(robot_id).values() for robot_id in plan.robots)
    return sum(size for blobs in wanted for size in {blob.digest: blob.size_bytes for blob in blobs}.values())


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rounds that are on disk; a last line that was cut off is dropped."""
    if not path.exists():
        return []
    lines: list[dict[str, Any]] = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
    return lines
