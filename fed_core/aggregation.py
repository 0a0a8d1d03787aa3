"""Carries out a strategy's server half on stored blobs, tensor by tensor.

Peak memory is robots x largest tensor: each row that the strategy yields goes to the open files of its keys before the
next one is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fed_core.errors import StrategyError
from fed_core.roles.events import RoundOutcome
from fed_core.roles.messages import FleetPlan, RunConfig, UpdateReport
from fed_core.store.blobs import BlobStore
from fed_core.strategies.base import Aggregate, RobotInfo, RobotPlan, ServerState, Strategy, Update
from fed_core.types import BlobRef, Memory, ModelSignature, Tensors
from fed_core.wire.codec import SpoolWriter, TensorWriter, load_memory, save_memory


@dataclass(frozen=True)
class AggregationJob:
    """Everything one aggregation needs.

    Attributes:
        run_id: name of the run.
        run: what the run has in common.
        round: the round that ends; 0 = the start.
        signature: the model.
        robots: all registered robots.
        blobs: current keys ("global" at the start).
        plans: what each robot started the ending round from.
        memory: what the strategy returned last time, None at the start.
        reports: counted updates.
        joined: robots that registered since the strategy last ran.
        participants: robots that train next.
    """

    run_id: str
    run: RunConfig
    round: int
    signature: ModelSignature
    robots: Mapping[str, RobotInfo]
    blobs: Mapping[str, BlobRef]
    plans: Mapping[str, RobotPlan]
    memory: BlobRef | None
    reports: Sequence[UpdateReport]
    joined: Sequence[str]
    participants: Sequence[str]


def run_aggregation(job: AggregationJob, strategy: Strategy, store: BlobStore) -> RoundOutcome:
    """Return what follows round ``job.round``; its tensors are in ``store``, on disk."""
    state = _state(job, store)
    if job.round == 0:
        aggregate = strategy.begin(state)
    else:
        for robot_id in sorted(job.joined):
            _, memory = strategy.join(state.robots[robot_id], state)
            state = replace(state, memory=memory)
        aggregate = strategy.aggregate([_update(report, store) for report in job.reports], state)
    blobs = _store_rows(aggregate, job, strategy, store)
    plan = _plan(job, aggregate, blobs, store)
    return RoundOutcome(plan, _store_memory(aggregate.memory, store), dict(aggregate.clusters), dict(aggregate.log))


def _state(job: AggregationJob, store: BlobStore) -> ServerState:
    return ServerState(
        round=job.round,
        robots=dict(sorted(job.robots.items())),
        memory=load_memory(store.path(job.memory.digest)) if job.memory else Memory(),
        blobs=_LazyBlobs(job.blobs, store),
        signature=job.signature,
        plans=job.plans,
    )


class _LazyBlobs(Mapping[str, Tensors]):
    """Opens a blob when its key is asked for."""

    def __init__(self, blobs: Mapping[str, BlobRef], store: BlobStore) -> None:
        self._blobs, self._store = blobs, store

    def __getitem__(self, key: str) -> Tensors:
        return self._store.open(self._blobs[key].digest)

    def __iter__(self) -> Iterator[str]:
        return iter(self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)


def _update(report: UpdateReport, store: BlobStore) -> Update:
    extras = report.blobs.get("extras")
    return Update(
        robot_id=report.robot_id,
        num_samples=report.num_samples,
        weights=store.open(report.blobs["weights"].digest),
        extras=store.open(extras.digest) if extras else {},
        scalars=report.scalars,
        mask=report.mask,
    )


def _store_rows(aggregate: Aggregate, job: AggregationJob, strategy: Strategy, store: BlobStore) -> dict[str, BlobRef]:
    """Write the rows, one file per key, and return all keys that live on.

    Keys that inference may load hold exactly the travelling tensors, so their header is known beforehand.
    """
    travels = strategy.travels(job.signature)
    specs = tuple(spec for spec in job.signature.tensors if spec.name in travels)
    unknown = sorted(set(aggregate.kept) - set(job.blobs))
    if unknown:
        raise StrategyError(f"strategy keeps keys that do not exist: {', '.join(unknown)}")
    found = {key: job.blobs[key] for key in aggregate.kept}
    paths: dict[str, Path] = {}
    with ExitStack() as stack:
        writers: dict[str, TensorWriter | SpoolWriter] = {}
        for name, arrays in aggregate.rows:
            for key, array in arrays.items():
                if key in found:
                    raise StrategyError(f"strategy both keeps and rewrites {key!r}")
                if key not in writers:
                    paths[key] = store.scratch()
                    stack.callback(paths[key].unlink, missing_ok=True)
                    plain = key in aggregate.models
                    writers[key] = TensorWriter(paths[key], specs) if plain else SpoolWriter(paths[key])
                    stack.enter_context(writers[key])
                writers[key].write(name, array)
        for key, writer in writers.items():
            writer.finish()
            found[key] = store.put_file(paths[key])
    return found


def _store_memory(memory: Memory, store: BlobStore) -> BlobRef:
    path = store.scratch()
    save_memory(path, memory)
    return store.put_file(path)


def _plan(job: AggregationJob, aggregate: Aggregate, blobs: dict[str, BlobRef], store: BlobStore) -> FleetPlan:
    missing = {key for plan in aggregate.plans.values() for key in (*plan.load, *plan.extras)} | set(aggregate.models)
    if missing - set(blobs):
        raise StrategyError(f"strategy names keys that it did not produce: {', '.join(sorted(missing - set(blobs)))}")
    lost = sorted(set(job.participants) - set(aggregate.plans))
    if lost:
        raise StrategyError(f"strategy has no plan for {', '.join(lost)}, whose updates the next round waits for")
    serving = aggregate.serving
    return FleetPlan(
        run_id=job.run_id,
        config=job.run,
        round=min(job.round + 1, job.run.total_rounds),
        finished=job.round >= job.run.total_rounds,
        robots=dict(aggregate.plans),
        participants=tuple(job.participants),
        blobs=blobs,
        models=tuple(aggregate.models),
        serving=_store_memory(serving, store) if serving.tensors or serving.values else None,
    )
