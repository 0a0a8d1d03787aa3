"""Parts of bench_aggregate: seeded models on disk, peak anonymous memory, a FeDepth round of a large model."""

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.aggregation import AggregationJob, run_aggregation
from fed_core.roles.messages import RunConfig, UpdateReport
from fed_core.store.blobs import BlobStore
from fed_core.strategies.base import GLOBAL, RobotInfo, RobotPlan, make_strategy
from fed_core.types import BlobRef, Descriptor, ModelSignature, TensorSpec
from fed_core.wire.codec import TensorWriter

NUM_ROBOTS, NUM_FILES = 41, 3
TENSOR_MB = 16
#: Robots stand on a line, in places that are 10 apart, and some halfway between two places; within 6 of each other
#: they are alike. That gives a handful of overlapping clusters.
PLACES, TAU = 6, 6.0**2


def signature(model_mb: int) -> ModelSignature:
    """Return a model of equal layers of 16 MB."""
    count = max(1, model_mb // TENSOR_MB)
    shape = (1024, TENSOR_MB * 1024 // 4)
    return ModelSignature(
        "large",
        tuple(TensorSpec(f"layer{n}.weight", shape, "float32", True, f"layer{n}", "Linear") for n in range(count)),
    )


def write_model(store: BlobStore, model: ModelSignature, seed: int) -> BlobRef:
    """Write seeded weights, one tensor at a time."""
    rng, path = np.random.default_rng(seed), store.scratch()
    with TensorWriter(path, model.tensors) as writer:
        for spec in model.tensors:
            writer.write(spec.name, rng.standard_normal(spec.shape, np.float32))
        writer.finish()
    return store.put_file(path)


def described(position: float) -> Descriptor:
    """Return one feature of unit variance: the affinity of two robots is their squared distance."""
    tensors = {"mean": np.array([position], np.float32), "variance": np.ones(1, np.float32)}
    return Descriptor("gaussian", tensors, 256, "bench")


def first_step(store: BlobStore, model: ModelSignature) -> AggregationJob:
    """Return the job of round 0: 41 described robots and the initial model."""
    names = tuple(f"robot{number:02d}" for number in range(NUM_ROBOTS))
    told = {
        name: described(10.0 * (n % PLACES) + (5.0 if n % 8 == 7 else 0.3 * (n // 8))) for n, name in enumerate(names)
    }
    return AggregationJob(
        run_id="bench",
        run=RunConfig("fedepth", {"tau": TAU}, "depth", "large", {}, {}, total_rounds=2, seed=0),
        round=0,
        signature=model,
        robots={name: RobotInfo(name, 100 + n, told[name]) for n, name in enumerate(names)},
        blobs={GLOBAL: write_model(store, model, 0)},
        plans={name: RobotPlan((GLOBAL,)) for name in names},
        memory=None,
        reports=(),
        joined=(),
        participants=names,
    )


def reports(store: BlobStore, model: ModelSignature, job: AggregationJob) -> tuple[UpdateReport, ...]:
    """Return an update of every robot, each under a name of its own."""
    files = [write_model(store, model, seed) for seed in range(1, NUM_FILES + 1)]
    found = []
    for place, name in enumerate(job.robots):
        source = files[place % NUM_FILES]
        link = BlobRef(f"{place:064x}", source.size_bytes)  # nothing here checks digests again
        os.link(store.path(source.digest), store.path(link.digest))
        blobs = {"weights": link}
        found.append(UpdateReport(name, "bench", "bench", 1, job.run.digest, 100 + place, 0.5, 1.0, blobs))
    return tuple(found)


def anonymous_mb() -> float:
    """Return the anonymous resident memory of this process in MB (10^6 bytes)."""
    match = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))
    return int(match[1]) * 1024 / 1e6 if match else 0.0


@contextmanager
def peak_mb() -> Iterator[list[float]]:
    """Give a list whose one number is the largest anonymous memory inside the block."""
    peak, stop = [anonymous_mb()], threading.Event()

    def sample() -> None:
        while not stop.wait(0.002):
            peak[0] = max(peak[0], anonymous_mb())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def large_round(folder: Path, model_mb: int) -> dict[str, Any]:
    """Return memory and time of a FeDepth round of 41 updates of a large model."""
    model = signature(model_mb)
    largest_mb = max(spec.size_bytes for spec in model.tensors) / 1e6
    store, strategy = BlobStore(folder), make_strategy("fedepth", {"tau": TAU})
    start = first_step(store, model)
    begun = run_aggregation(start, strategy, store)
    job = replace(start, round=1, memory=begun.memory, plans=begun.plan.robots, blobs=begun.plan.blobs)
    job = replace(job, reports=reports(store, model, start))
    before_mb, start_s = anonymous_mb(), time.perf_counter()
    with peak_mb() as peak:
        outcome = run_aggregation(job, strategy, store)
    growth_mb = peak[0] - before_mb
    return {
        "peak_vs_largest_tensor": round(growth_mb / largest_mb, 2),
        "peak_mb": round(growth_mb, 1),
        "largest_tensor_mb": round(largest_mb, 1),
        "model_mb": round(model.size_bytes / 1e6, 1),
        "updates": NUM_ROBOTS,
        "clusters": len(outcome.plan.models),
        "seconds": round(time.perf_counter() - start_s, 1),
    }
