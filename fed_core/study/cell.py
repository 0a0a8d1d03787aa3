"""One run of a study: a federation in this process, scored after every round, with its result on disk.

An interrupted run goes on from its journal, and ends with the same figures as one that was left alone.
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.bookkeeping import ClosedRound
from fed_core.data.open import SourceConfig
from fed_core.errors import StudyError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.metrics.depth import mean_metrics
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation
from fed_core.strategies.base import Strategy, make_strategy
from fed_core.study import evaluation, pictures
from fed_core.study.config import CENTRALISED, DESCRIPTOR_FRAMES, Cell, StudyConfig, parse_label
from fed_core.study.descriptors import at_most
from fed_core.study.evaluation import SequenceScore, TestBench, UnseenSequence
from fed_core.study.scenario import Scenario
from fed_core.tasks.base import tasks
from fed_core.training.jobs import Toolbox
from fed_core.wire.files import write_text

RESULT, ROUNDS, RUN = "result.json", "rounds.jsonl", "run"
SCHEMA_VERSION = 1
#: Called with rounds done and rounds in all.
OnRound = Callable[[int, int], None]


@dataclass(frozen=True)
class CellJob:
    """What a run needs.

    Attributes:
        cell: network, strategy and seed.
        config: the study.
        scenario: its clients and unseen sequences, prepared.
        folder: of the study.
        panels: keep pictures.
    """

    cell: Cell
    config: StudyConfig
    scenario: Scenario
    folder: Path
    panels: bool = False


def run_cell(job: CellJob, toolbox: Toolbox, on_round: OnRound = lambda done, total: None) -> dict[str, Any]:
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
    def __init__(self, job: CellJob, toolbox: Toolbox, on_round: OnRound) -> None:
        self._job, self._on_round = job, on_round
        self._rounds = job.config.rounds_of(job.cell.model)
        self._folder = job.folder / job.cell.folder
        options = parse_label(job.cell.label)[1]
        self._toolbox = replace(toolbox, describe=at_most(toolbox.describe, int(options.get(DESCRIPTOR_FRAMES, 0))))
        self._chosen = job.config.strategy_of(job.cell.label)
        self._strategy: Strategy = make_strategy(self._chosen.name, self._chosen.options)
        settings = job.config.models[job.cell.model]
        network = toolbox.build(job.cell.model, settings.options)
        self._parameters = sum(p.numel() for p in network.parameters())
        unseen = [UnseenSequence(test, job.config, toolbox.describe) for test in job.scenario.tests]
        task = tasks.get(job.config.task)()
        self._bench = TestBench(unseen, network, job.cell.model, toolbox, task, mirror=job.config.mirror)
        self._lines = _read_lines(self._folder / ROUNDS)
        self._result: dict[str, Any] = {}
        self._since_s = time.monotonic()
        run = self._folder / RUN
        self._simulation = Simulation(self._fleet(), Path(), run, self._toolbox, on_plan=self._on_plan, threads=1)

    def run(self) -> dict[str, Any]:
        """Run the federation; its last plan gives the result, while the run's store is still open."""
        self._simulation.run()
        write_text(self._folder / RESULT, json.dumps(self._result, indent=1))
        return self._result

    def _finish(self, plan: FleetPlan) -> None:
        scores = self._score(plan, everything=True)
        result = {**self._head(), **self._figures(scores), **self._clusters(), **self._costs()}
        result["variants"] = self._variants(plan)
        if self._job.panels:
            pictures.save_predictions(scores, self._folder / "panels")
            pictures.save_truth(self._bench.unseen, self._job.folder / "panels" / f"seed{self._job.cell.seed}")
        self._result = result

    # ---- the federation ------------------------------------------------------------------------------------------

    def _fleet(self) -> FleetConfig:
        job, config = self._job, self._job.config
        clients = job.scenario.clients
        robots = tuple(RobotEntry(client.name, client.source) for client in clients)
        if self._chosen.name == CENTRALISED:
            robots = (RobotEntry("pool", SourceConfig(parts=tuple(client.source for client in clients))),)
        settings = config.models[job.cell.model]
        return FleetConfig(
            run="study",
            robots=robots,
            task=config.task,
            network=NamedOptions(job.cell.model, dict(settings.options)),
            strategy=self._chosen,
            rounds=self._rounds,
            seed=job.cell.seed,
            train={**config.train, **settings.train},
        )

    def _on_plan(self, plan: FleetPlan) -> None:
        """Score the models of the round that closed, unless that was done before an interruption."""
        closed = self._simulation.book.closed()
        if closed is None or closed.round == 0:
            return
        if closed.round > len(self._lines):
            trained_s = time.monotonic() - self._since_s
            line = self._line(closed, plan, trained_s)
            with (self._folder / ROUNDS).open("a") as file:
                file.write(json.dumps(line) + "\n")
            self._lines.append(line)
        self._since_s = time.monotonic()
        if plan.finished:
            self._finish(plan)
        self._on_round(closed.round, self._rounds)

    def _line(self, closed: ClosedRound, plan: FleetPlan, trained_s: float) -> dict[str, Any]:
        start_s = time.monotonic()
        scores = self._score(plan)
        weights = [float(report.num_samples) for report in closed.reports]
        return {
            "round": closed.round,
            "macro": evaluation.macro(scores),
            "by_cell": evaluation.by_cell(scores),
            "sequences": {score.sequence.name: mean_metrics(score.images) for score in scores},
            "loss": float(np.average([report.loss for report in closed.reports], weights=weights)),
            "fallback_rate": evaluation.fallback_rate(scores),
            "second_eigenvalue": _logged(closed, "second_eigenvalue"),
            "model_distance_mean": _logged(closed, "model_distance_mean"),
            "num_clusters": len(plan.models),
            "upload_bytes": sum(blob.size_bytes for report in closed.reports for blob in report.blobs.values()),
            "download_bytes": self._download_bytes(plan),
            "train_s": trained_s,
            "seconds": trained_s + time.monotonic() - start_s,
        }

    def _download_bytes(self, plan: FleetPlan) -> int:
        wanted = (plan.wanted_by(robot_id).values() for robot_id in plan.robots)
        return sum(size for blobs in wanted for size in {blob.digest: blob.size_bytes for blob in blobs}.values())

    def _score(
        self, plan: FleetPlan, strategy: Strategy | None = None, *, everything: bool = False
    ) -> list[SequenceScore]:
        store = self._simulation.book.store
        return self._bench.score(plan, store, strategy or self._strategy, everything=everything)

    # ---- the result ----------------------------------------------------------------------------------------------

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
        }

    def _figures(self, scores: list[SequenceScore]) -> dict[str, Any]:
        return {
            "sequences": [_sequence(score) for score in scores],
            "macro": evaluation.macro(scores),
            "micro": evaluation.micro(scores),
            "by_cell": evaluation.by_cell(scores),
            "fallback_rate": evaluation.fallback_rate(scores),
        }

    def _clusters(self) -> dict[str, Any]:
        """Return who belongs where; the figures of the clustering are in the log of the round that made it."""
        closed = self._simulation.book.closed()
        members = {robot_id: list(ids) for robot_id, ids in closed.clusters.items()} if closed else {}
        log = self._simulation.book.figures()
        numbers = {key: log.get(key) for key in ("tau", "noise_floor", "singletons", "within_cluster_max", "top_share")}
        counts = [len(ids) for ids in members.values()]
        return {
            "memberships": members,
            "num_clusters": self._lines[-1]["num_clusters"],
            "memberships_mean": float(np.mean(counts)) if counts else None,
            **numbers,
        }

    def _costs(self) -> dict[str, Any]:
        train_s, total_s = (sum(line[key] for line in self._lines) for key in ("train_s", "seconds"))
        return {
            "upload_bytes": sum(line["upload_bytes"] for line in self._lines),
            "download_bytes": sum(line["download_bytes"] for line in self._lines),
            "seconds": {"train": train_s, "evaluate": total_s - train_s, "total": total_s},
        }

    def _variants(self, plan: FleetPlan) -> dict[str, Any]:
        """Return the figures of other choices on the same models, for options that act at inference only."""
        ablations, cell = self._job.config.ablations, self._job.cell
        if cell.label != self._chosen.name or cell.label != "fedepth" or cell.model != ablations.model:
            return {}
        found = {}
        for label in ablations.choices:
            options = {**self._chosen.options, **parse_label(f"{cell.label}:{label}")[1]}
            scores = self._score(plan, make_strategy(self._chosen.name, options))
            found[label] = {"macro": evaluation.macro(scores), "fallback_rate": evaluation.fallback_rate(scores)}
        return found


def _sequence(score: SequenceScore) -> dict[str, Any]:
    choice, sequence = score.choice, score.sequence
    return {
        "name": sequence.name,
        "platform": sequence.platform,
        "environment": sequence.environment,
        "frames": len(score.images),
        "metrics": mean_metrics(score.images),
        "metrics_all": mean_metrics([*score.prefix, *score.images]),
        "metrics_near": mean_metrics(score.near) if score.near else None,
        "near_cap_m": sequence.score.near_cap_m or None,
        "choice": {
            "keys": list(choice.keys),
            "clusters": list(choice.clusters),
            "distances": list(choice.distances),
            "threshold": choice.threshold if np.isfinite(choice.threshold) else None,
            "fallback": choice.fallback,
        },
    }


def _logged(closed: ClosedRound, name: str) -> Any:
    return closed.log.get(name)


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
