"""Strategies on stored blobs: row by row, the same bytes for every order, in little memory."""

import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.aggregation import AggregationJob, run_aggregation
from fed_core.errors import FedError, StrategyError
from fed_core.roles.messages import RunConfig, UpdateReport
from fed_core.store.blobs import BlobStore
from fed_core.strategies.base import GLOBAL, Aggregate, RobotInfo, RobotPlan, ServerState, Strategy, make_strategy
from fed_core.types import Array, BlobRef, Memory, ModelSignature, TensorSpec
from fed_core.wire.codec import load_memory, write_tensors
from tests.core.strategies.harness import SIGNATURE, descriptor, initial, train

RUN = RunConfig("fedavg", {}, "depth", "toy", {}, {}, total_rounds=2, seed=0)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def put(store: BlobStore, tensors: Mapping[str, Array]) -> BlobRef:
    path = store.scratch()
    write_tensors(path, tensors)
    return store.put_file(path)


def report(store: BlobStore, robot_id: str, tensors: Mapping[str, Array], samples: int = 10) -> UpdateReport:
    blobs = {"weights": put(store, tensors)}
    return UpdateReport(robot_id, "i", "run", 1, RUN.digest, samples, 0.5, 1.0, blobs)


def job(store: BlobStore, reports: list[UpdateReport], **changes: Any) -> AggregationJob:
    robots = {r: RobotInfo(r, 10, descriptor(float(n))) for n, r in enumerate(("ana", "ben"))}
    known = AggregationJob(
        run_id="run",
        run=RUN,
        round=1,
        signature=SIGNATURE,
        robots=robots,
        blobs={GLOBAL: put(store, initial())},
        plans={r: RobotPlan((GLOBAL,)) for r in robots},
        memory=None,
        reports=reports,
        joined=(),
        participants=tuple(robots),
    )
    return replace(known, **changes)


def updates(store: BlobStore) -> list[UpdateReport]:
    return [report(store, r, train(r, initial(), 1), n) for r, n in (("ana", 30), ("ben", 10))]


def test_the_start_keeps_the_initial_model_and_stores_what_inference_needs(store: BlobStore) -> None:
    start = job(store, [], round=0)
    outcome = run_aggregation(start, make_strategy("fedepth", {}), store)
    assert outcome.plan.blobs == {GLOBAL: start.blobs[GLOBAL]}
    assert (outcome.plan.round, outcome.plan.finished, outcome.plan.participants) == (1, False, ("ana", "ben"))
    assert outcome.plan.serving is not None
    assert "robots" in str(load_memory(store.path(outcome.plan.serving.digest)))
    assert set(outcome.clusters) == {"ana", "ben"}


def test_a_round_stores_the_weighted_mean_and_the_last_one_is_final(store: BlobStore) -> None:
    outcome = run_aggregation(job(store, updates(store)), make_strategy("fedavg", {}), store)
    merged = store.open(outcome.plan.blobs[GLOBAL].digest)
    assert tuple(merged) == SIGNATURE.names
    ana, ben = (train(r, initial(), 1)["conv.weight"].astype(float) for r in ("ana", "ben"))
    np.testing.assert_allclose(merged["conv.weight"], 0.75 * ana + 0.25 * ben, rtol=1e-6)
    assert (outcome.plan.round, outcome.plan.finished) == (2, False)
    last = run_aggregation(job(store, updates(store), round=2), make_strategy("fedavg", {}), store)
    assert (last.plan.round, last.plan.finished) == (2, True)


@pytest.mark.parametrize("name", ["fedavg", "fedepth", "local"])
def test_the_order_of_arrival_changes_no_byte(store: BlobStore, name: str) -> None:
    strategy = make_strategy(name, {})
    start = run_aggregation(job(store, [], round=0), strategy, store)
    again = job(store, updates(store), memory=start.memory)
    backwards = replace(again, reports=again.reports[::-1], robots=dict(reversed(again.robots.items())))
    first, second = run_aggregation(again, strategy, store), run_aggregation(backwards, strategy, store)
    assert first == second  # digests of all models, of the memory and of what inference needs


def test_nothing_is_left_of_scratch_files(store: BlobStore) -> None:
    run_aggregation(job(store, updates(store)), make_strategy("fedavg", {}), store)
    assert [path.name for path in store.root.iterdir() if len(path.name) != 64] == []


@dataclass(frozen=True)
class Scripted(Strategy):
    """Returns what a test wants."""

    outcome: Any = None

    def aggregate(self, updates: Any, state: ServerState) -> Aggregate:
        plans = {robot_id: RobotPlan((GLOBAL,)) for robot_id in state.robots}
        known = Aggregate(rows=(), plans=plans, models=(GLOBAL,), kept=(GLOBAL,))
        return replace(known, **self.outcome)


def rows(*keys: str, names: tuple[str, ...] = SIGNATURE.names) -> Iterator[tuple[str, dict[str, Array]]]:
    for name in names:
        yield name, {key: initial()[name] for key in keys}


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"plans": {r: RobotPlan(("cluster/7",)) for r in ("ana", "ben")}}, "did not produce: cluster/7"),
        ({"models": ("a", "b")}, "names keys that it did not produce: a, b"),
        ({"plans": {"ana": RobotPlan((GLOBAL,))}}, "no plan for ben, whose updates the next round waits for"),
        ({"kept": (GLOBAL, "ghost")}, "keeps keys that do not exist: ghost"),
        ({"rows": rows(GLOBAL)}, "both keeps and rewrites 'global'"),
        ({"rows": rows(GLOBAL, names=SIGNATURE.names[:-1]), "kept": ()}, "'dct.basis' was promised and never written"),
        ({"rows": rows(GLOBAL, names=SIGNATURE.names[1:]), "kept": ()}, "expected tensor 'conv.weight'"),
    ],
)
def test_a_strategy_that_breaks_its_word_is_stopped(store: BlobStore, outcome: dict[str, Any], words: str) -> None:
    with pytest.raises(FedError, match=words):
        run_aggregation(job(store, updates(store)), Scripted(outcome), store)
    assert [path.name for path in store.root.iterdir() if len(path.name) != 64] == []


def test_keys_that_are_no_models_may_hold_anything(store: BlobStore) -> None:
    extra = [("drift", {"control": np.arange(3.0)}), ("other", {"control": np.ones(2, np.int64)})]
    outcome = run_aggregation(job(store, updates(store)), Scripted({"rows": extra}), store)
    control = store.open(outcome.plan.blobs["control"].digest)
    assert {name: control[name].tolist() for name in control} == {"drift": [0.0, 1.0, 2.0], "other": [1, 1]}


def test_memory_comes_back_in_the_next_round(store: BlobStore) -> None:
    seen: list[Memory] = []

    @dataclass(frozen=True)
    class Counting(Scripted):
        def aggregate(self, updates: Any, state: ServerState) -> Aggregate:
            seen.append(state.memory)
            count = int(str(state.memory.values.get("count", 0))) + 1
            return replace(super().aggregate(updates, state), memory=Memory({"c": np.full(2, count)}, {"count": count}))

    strategy = Counting({})
    first = run_aggregation(job(store, updates(store)), strategy, store)
    run_aggregation(job(store, updates(store), memory=first.memory), strategy, store)
    assert seen[0] == Memory()
    assert seen[1].values == {"count": 1}
    np.testing.assert_array_equal(seen[1].tensors["c"], [1, 1])


def test_updates_without_any_robot_are_an_error(store: BlobStore) -> None:
    with pytest.raises(StrategyError, match="no update arrived in this round"):
        run_aggregation(job(store, []), make_strategy("fedavg", {}), store)


def test_memory_stays_far_below_the_size_of_the_models(store: BlobStore) -> None:
    # 4 robots x 24 tensors of 512 KiB: 48 MiB of updates; a row of all robots in float64 is 4 MiB.
    specs = tuple(TensorSpec(f"w{n}", (2**17,), "float32", True, f"w{n}", "Linear") for n in range(24))
    signature = ModelSignature("wide", specs)
    names = ("ana", "ben", "cleo", "dan")
    models = [{s.name: np.full(s.shape, k, np.float32) for s in specs} for k in range(4)]
    reports = [report(store, name, model) for name, model in zip(names, models, strict=True)]
    start = put(store, models[0])
    del models
    wide = job(store, reports, signature=signature, blobs={GLOBAL: start})
    wide = replace(wide, robots={r: RobotInfo(r, 10) for r in names}, participants=names)
    tracemalloc.start()
    try:
        outcome = run_aggregation(wide, make_strategy("fedavg", {}), store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * 2**20, f"{peak / 2**20:.1f} MiB"
    assert float(store.open(outcome.plan.blobs[GLOBAL].digest)["w23"][-1]) == 1.5
