"""Carries out the aggregator's effects on its journal and blob store; the node and the simulator share it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.aggregation import AggregationJob
from fed_core.config import to_tree
from fed_core.errors import Refusal, RefusedError, StoreError, StrategyError, WireError
from fed_core.roles import events as ev
from fed_core.roles.membership import Snapshot
from fed_core.roles.messages import FleetPlan, Registration, RunConfig, UpdateReport
from fed_core.store.blobs import BlobStore
from fed_core.store.journal import Journal, RoundRow
from fed_core.strategies.averaging import constants
from fed_core.strategies.base import GLOBAL, RobotInfo, make_strategy
from fed_core.types import BlobRef, Json, ModelSignature, Tensors
from fed_core.wire.codec import check_update


@dataclass(frozen=True)
class ClosedRound:
    """What is known of a round that is over.

    Attributes:
        round: its number, 0 = the start.
        clusters: indices of every robot's clusters.
        log: the strategy's figures.
        reports: the updates that were counted, by robot id.
    """

    round: int
    clusters: Mapping[str, tuple[int, ...]]
    log: Mapping[str, Json]
    reports: tuple[UpdateReport, ...]


class RunBook:
    """One run on disk: ``<folder>/journal.sqlite`` and ``<folder>/blobs``.

    Args:
        folder: the run's folder, made if missing.
        run_id: name of the run.
        run: what the run has in common; a resumed run must have the same.
        keep_updates: let updates and models of all rounds stay, not only those that somebody may still need.
    """

    def __init__(self, folder: Path, run_id: str, run: RunConfig, *, keep_updates: bool = False) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StoreError(f"cannot make the run folder {folder}: {err.strerror}") from err
        self._run_id, self._run, self._keep_updates = run_id, run, keep_updates
        self._inputs: dict[str, Json] = {}
        self.store = BlobStore(folder / "blobs")
        self.strategy = make_strategy(run.strategy, run.strategy_options)
        self.strategy.check_training(run.train)
        self._initial: ev.InitialModel | None = None
        self._journal = Journal(folder / "journal.sqlite", run_id, to_tree(run))

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def snapshot(self) -> Snapshot:
        """Return the state of an interrupted run; an empty one for a new run."""
        row = self._journal.last_round()
        plan = FleetPlan.from_json(row.plan) if row else None
        reports = [UpdateReport.from_json(r) for r in self._journal.updates(plan.round)] if plan and row else []
        if plan and plan.finished:
            reports = []
        return Snapshot(
            initial=self.initial(),
            members=tuple((Registration(**r.registration), r.descriptor) for r in self._journal.robots()),
            plan=plan,
            clusters=row.clusters if row else {},
            reports=tuple(reports),
            counts=self._journal.counts(),
            quarantine=self._journal.quarantine(),
        )

    def initial(self) -> ev.InitialModel | None:
        """Return the initial model, or None before it was built."""
        if self._initial is None:
            tree = self._journal.model_info("initial")
            if tree is not None:
                self._initial = ev.InitialModel(BlobRef(**tree["blob"]), ModelSignature.from_json(tree["signature"]))
        return self._initial

    def save_initial(self, model: ev.InitialModel) -> None:
        """Keep the initial model."""
        self._journal.save_model_info("initial", {"blob": to_tree(model.blob), "signature": model.signature.to_json()})

    def save_robot(self, effect: ev.SaveRobot) -> None:
        """Keep a robot and its descriptor."""
        registration = effect.registration
        self._journal.save_robot(registration.robot_id, to_tree(registration), effect.descriptor)

    def save_quarantine(self, effect: ev.SaveQuarantine) -> None:
        """Keep why a robot is set aside, or that it is no more."""
        self._journal.save_quarantine(effect.robot_id, effect.text)

    def save_update(self, effect: ev.SaveUpdate) -> None:
        """Count an update."""
        report = effect.report
        metrics = {"loss": report.loss, "seconds": report.seconds, "num_samples": float(report.num_samples)}
        # A robot may send NaN as a figure; SQLite has no NaN, and the update itself was checked.
        figures = {name: value for name, value in {**metrics, **report.scalars}.items() if math.isfinite(value)}
        self._journal.save_update(report.round, report.robot_id, report.to_json(), figures)

    def commit(self, effect: ev.CommitRound) -> None:
        """Close a round."""
        outcome = effect.outcome
        last = self._journal.last_round()
        number = last.round + 1 if last else 0
        row = RoundRow(number, outcome.plan.to_json(), outcome.memory, outcome.clusters, outcome.log, self._inputs)
        self._journal.commit_round(row, outcome.plan.blobs)
        self.store.collect(self._referenced(outcome))

    def check(self, effect: ev.CheckUpdate) -> ev.UpdateChecked:
        """Compare an update's tensors with the signature and the constants of the initial model."""
        report, initial = effect.report, self.initial()
        if initial is None:
            raise StoreError("an update arrived before the initial model")
        try:
            _check_mask(report, initial.signature)
            uploads = self.strategy.uploads(initial.signature, report.mask)
            specs = [spec for spec in initial.signature.tensors if spec.name in uploads]
            weights = self.store.open(report.blobs["weights"].digest)
            check_update(weights, specs)
            self._check_constants(weights, initial)
            if "extras" in report.blobs:
                extras = self.store.open(report.blobs["extras"].digest)
                check_update(extras, extras.specs)
        except WireError as err:
            return ev.UpdateChecked(report, err.code, str(err))
        except StrategyError as err:  # a mask of another length
            return ev.UpdateChecked(report, Refusal.WRONG_TENSORS, str(err))
        return ev.UpdateChecked(report, Refusal.ACCEPTED)

    def _check_constants(self, weights: Tensors, initial: ev.InitialModel) -> None:
        names = constants(initial.signature) & set(weights)
        if not names:
            return
        first = self.store.open(initial.blob.digest)
        for name in sorted(names):
            if not np.array_equal(weights[name], first[name]):
                text = f"tensor {name!r} is a constant of the network, but differs from the initial model's"
                raise RefusedError(f"{text}; use one version of the network everywhere", Refusal.WRONG_TENSORS)

    def closed(self) -> ClosedRound | None:
        """Return the round that closed last (0 = the start), or None before it."""
        row = self._journal.last_round()
        if row is None:
            return None
        reports = tuple(UpdateReport.from_json(report) for report in self._journal.updates(row.round))
        return ClosedRound(row.round, row.clusters, row.log, reports)

    def figures(self) -> dict[str, Json]:
        """Return the strategy's figures of all rounds, the newest of each name."""
        found: dict[str, Json] = {}
        for row in self._journal.rounds():
            found.update(row.log)
        return found

    def plan_aggregation(self, effect: ev.StartAggregation) -> AggregationJob:
        """Return the job of an aggregation; :func:`~fed_core.aggregation.run_aggregation` may run in any thread."""
        samples = {}
        for member in self._journal.robots():
            if self.strategy.descriptor is not None and member.descriptor is None:
                continue  # registered, but cannot be planned for until its descriptor is here
            samples[member.registration["robot_id"]] = member.registration["num_samples"]
        self._inputs = {"samples": samples, "joined": list(effect.joined)}
        return self._job(effect.round, self._journal.last_round(), self._inputs, effect.reports, effect.alive)

    def closed_rounds(self) -> list[RoundRow]:
        """Return all rounds that are over, from 0, the start."""
        return self._journal.rounds()

    def plan_again(self, row: RoundRow, before: RoundRow | None) -> AggregationJob:
        """Return the job from which a closed round came.

        Args:
            row: the round.
            before: the one before it; None where it is round 0.

        Raises:
            StoreError: the journal does not tell what the job needs.
        """
        reports = tuple(UpdateReport.from_json(report) for report in self._journal.updates(row.round))
        try:
            return self._job(row.round, before, row.inputs, reports, FleetPlan.from_json(row.plan).participants)
        except KeyError as err:
            raise StoreError(f"round {row.round} in the journal has no {err}") from err

    def _job(
        self,
        number: int,
        before: RoundRow | None,
        inputs: Mapping[str, Any],
        reports: tuple[UpdateReport, ...],
        participants: tuple[str, ...],
    ) -> AggregationJob:
        initial = self.initial()
        if initial is None:
            raise StoreError("aggregation started before the initial model")
        plan = FleetPlan.from_json(before.plan) if before else None
        descriptors = {member.registration["robot_id"]: member.descriptor for member in self._journal.robots()}
        samples = inputs["samples"]
        return AggregationJob(
            run_id=self._run_id,
            run=self._run,
            round=number,
            signature=initial.signature,
            robots={robot_id: RobotInfo(robot_id, samples[robot_id], descriptors[robot_id]) for robot_id in samples},
            blobs=plan.blobs if plan else {GLOBAL: initial.blob},
            plans=plan.robots if plan else {},
            memory=before.memory if before else None,
            reports=reports,
            joined=inputs["joined"],
            participants=participants,
        )

    def _referenced(self, outcome: ev.RoundOutcome) -> set[str]:
        """Return the digests that stay: initial, current and memory blobs; with ``keep_updates`` all that counted."""
        plan = outcome.plan
        keep = {blob.digest for blob in plan.blobs.values()} | {outcome.memory.digest}
        initial = self.initial()
        if initial is not None:
            keep.add(initial.blob.digest)
        if plan.serving is not None:
            keep.add(plan.serving.digest)
        if self._keep_updates:
            keep |= {blob.digest for report in self._journal.reports() for blob in _blobs_of(report)}
        # Robots may still be reading the models of the round before.
        for row in self._journal.rounds(last=-1 if self._keep_updates else 2):
            old = FleetPlan.from_json(row.plan)
            keep |= {blob.digest for blob in old.blobs.values()} | {row.memory.digest}
            keep |= {old.serving.digest} if old.serving else set()
        return keep


def _blobs_of(report: Any) -> list[BlobRef]:
    return list(UpdateReport.from_json(report).blobs.values())


def _check_mask(report: UpdateReport, signature: ModelSignature) -> None:
    """Refuse a mask of another model, also one that happens to have as many units."""
    if report.mask is not None and report.model_digest != signature.digest:
        told = (
            f"the mask belongs to model {report.model_digest[:12] or '(none)'}, this run learns {signature.digest[:12]}"
        )
        raise RefusedError(f"{told}; use one network and version everywhere", Refusal.WRONG_MODEL)
