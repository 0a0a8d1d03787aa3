"""Figures of a depth run: every unseen sequence after every round."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fed_core.bookkeeping import RunBook
from fed_core.errors import StudyError
from fed_core.metrics.depth import mean_metrics
from fed_core.roles.messages import FleetPlan
from fed_core.strategies.base import Strategy, make_strategy
from fed_core.study.base import Line, Moment, Run, Scores
from fed_core.study.config import parse_label
from fed_core.study.depth import evaluation, pictures
from fed_core.study.depth.evaluation import SequenceScore, TestBench, UnseenSequence
from fed_core.tasks.base import tasks


class DepthScores(Scores):
    """Scores the models that each unseen sequence chooses.

    Args:
        run: what is scored. A method that keeps layers on each robot raises StudyError, for no robot owns an unseen
            sequence.
    """

    def __init__(self, run: Run) -> None:
        _check_travels(run)
        self._run, config = run, run.job.config
        unseen = [UnseenSequence(test, config, run.toolbox.describe) for test in run.job.scenario.tests]
        task = tasks.get(config.task)()
        self._bench = TestBench(unseen, run.network, run.job.cell.model, run.toolbox, task, mirror=config.mirror)

    def round(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return the figures of a round."""
        scores = self._score(moment.plan, moment.book)
        return {
            "macro": evaluation.macro(scores),
            "by_cell": evaluation.by_cell(scores),
            "sequences": {score.sequence.name: mean_metrics(score.images) for score in scores},
            "fallback_rate": evaluation.fallback_rate(scores),
            "second_eigenvalue": moment.closed.log.get("second_eigenvalue"),
            "model_distance_mean": moment.closed.log.get("model_distance_mean"),
            "num_clusters": len(moment.plan.models),
        }

    def result(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return the figures of the final models."""
        scores, job = self._score(moment.plan, moment.book, everything=True), self._run.job
        if job.panels:
            pictures.save_predictions(scores, self._run.folder / "panels")
            pictures.save_truth(self._bench.unseen, job.folder / "panels" / f"seed{job.cell.seed}")
        return {
            "sequences": [_sequence(score) for score in scores],
            "macro": evaluation.macro(scores),
            "micro": evaluation.micro(scores),
            "by_cell": evaluation.by_cell(scores),
            "fallback_rate": evaluation.fallback_rate(scores),
            **_clusters(moment),
            "variants": self._variants(moment),
        }

    def _score(
        self, plan: FleetPlan, book: RunBook, strategy: Strategy | None = None, *, everything: bool = False
    ) -> list[SequenceScore]:
        return self._bench.score(plan, book.store, strategy or self._run.strategy, everything=everything)

    def _variants(self, moment: Moment) -> dict[str, Any]:
        """Return the figures of other choices on the same models, for options that act at inference only."""
        ablations, cell, chosen = self._run.job.config.ablations, self._run.job.cell, self._run.chosen
        if cell.label != chosen.name or cell.label != "fedepth" or cell.model != ablations.model:
            return {}
        found = {}
        for label in ablations.choices:
            options = {**chosen.options, **parse_label(f"{cell.label}:{label}")[1]}
            scores = self._score(moment.plan, moment.book, make_strategy(chosen.name, options))
            found[label] = {"macro": evaluation.macro(scores), "fallback_rate": evaluation.fallback_rate(scores)}
        return found


def _clusters(moment: Moment) -> dict[str, Any]:
    """Return who belongs where; the figures of the clustering are in the log of the round that made it."""
    members = {robot_id: list(ids) for robot_id, ids in moment.closed.clusters.items()}
    log = moment.book.figures()
    numbers = {key: log.get(key) for key in ("tau", "noise_floor", "singletons", "within_cluster_max", "top_share")}
    counts = [len(ids) for ids in members.values()]
    return {
        "memberships": members,
        "num_clusters": len(moment.plan.models),
        "memberships_mean": float(np.mean(counts)) if counts else None,
        **numbers,
    }


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


def _check_travels(run: Run) -> None:
    """Refuse a method whose models are not whole."""
    signature = run.toolbox.signature(run.network, run.job.cell.model)
    kept = len(signature.names) - len(run.strategy.travels(signature))
    if kept:
        text = (
            f"{run.chosen.name} keeps {kept} tensors on each robot, and no robot owns an unseen sequence of this study"
        )
        raise StudyError(f"{text}; take another method, or a study of bev or detection-domains")
