"""What it takes to make one model of many updates: time beside reading their bytes, and memory (RssAnon).

``vs_memory_bound``: one pass of multiply-and-add in float32 over the same mapped files (PyTorch, one thread, blocks in
the cache), over our weighted mean (float64), in processor time so that other load counts little, best of
seven; ``vs_numpy_pass`` the same with NumPy's multiply and add. ``peak_growth_4_to_64``: peak memory of a process that
averages 64 updates over one that averages 4. ``<rule>_peak_vs_updates``: growth of the peak by that rule over the
updates' own bytes. ``large``: a FeDepth round of 41 updates of a 1 GB model, whose growth stays below 2 x 41 largest
tensors; the updates are hard links to three files, so the disk holds 3 GB of them.

``python benchmarks/bench_aggregate.py [--mb 125] [--large 1024]``; ``--large 0`` leaves that part out. Each part runs
in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

# Before NumPy loads: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"


import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from aggregate_parts import anonymous_mb, large_round, peak_mb, signature, write_model  # noqa: E402
from machine import machine  # noqa: E402

from fed_core.store.blobs import BlobStore  # noqa: E402
from fed_core.strategies.base import GLOBAL, RobotInfo, RobotPlan, ServerState, Update, make_strategy  # noqa: E402
from fed_core.types import Memory, ModelSignature  # noqa: E402
from fed_core.wire.codec import TensorFile  # noqa: E402

RULES = ("median", "trimmed_mean", "krum")
#: Updates that are timed; rules are measured with as many.
UPDATES = 8
_BLOCK = 2**16


def updates(files: list[TensorFile], count: int) -> list[Update]:
    """Return updates of so many robots, which share the files."""
    return [Update(f"robot{n:02d}", 100 + n, files[n % len(files)]) for n in range(count)]


def consume(options: dict[str, Any] | None, sent: list[Update], files: list[TensorFile], model: ModelSignature) -> int:
    """Aggregate by FedAvg (None) or a robust rule, row by row as the aggregator does, and return the tensors."""
    robots = {update.robot_id: RobotInfo(update.robot_id, update.num_samples) for update in sent}
    plans = {name: RobotPlan((GLOBAL,)) for name in robots}
    state = ServerState(1, robots, Memory(), {GLOBAL: files[-1]}, model, plans)
    strategy = make_strategy("fedavg", {}) if options is None else make_strategy("robust", options)
    return sum(1 for _ in strategy.aggregate(sent, state).rows)


def bound_s(sent: list[Update], model: ModelSignature) -> float:
    """Return the processor time of reading the same bytes with one multiply-and-add each."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # it is only read
    start_s = time.process_time()
    for name in model.names:
        parts = [torch.from_numpy(update.weights[name].reshape(-1)) for update in sent]
        total = torch.empty_like(parts[0])
        for low in range(0, total.numel(), _BLOCK):
            out = total[low : low + _BLOCK].zero_()
            for part in parts:
                out.add_(part[low : low + _BLOCK], alpha=1.0 / len(parts))
    return time.process_time() - start_s


def numpy_s(sent: list[Update], model: ModelSignature) -> float:
    """Return the processor time of the same in NumPy, which knows no fused multiply-and-add."""
    start_s, share = time.process_time(), np.float32(1.0 / len(sent))
    for name in model.names:
        parts = [update.weights[name].reshape(-1) for update in sent]
        total, walk = np.empty_like(parts[0]), np.empty(_BLOCK, np.float32)
        for low in range(0, total.size, _BLOCK):
            out = total[low : low + _BLOCK]
            out[:] = 0.0
            for part in parts:
                out += np.multiply(part[low : low + _BLOCK], share, out=walk[: out.size])
    return time.process_time() - start_s


def part(what: str, folder: Path, model_mb: int) -> dict[str, Any]:
    """Measure one part in this process."""
    if what == "large":
        return large_round(folder, model_mb)
    store, model = BlobStore(folder), signature(model_mb)
    files = [store.open(path.name) for path in sorted(folder.iterdir()) if len(path.name) == 64]
    if what == "speed":
        sent = updates(files, UPDATES)
        consume(None, sent, files, model)  # the pages are in the cache now
        ours, bound, plain = [], [], []
        for _ in range(7):
            bound.append(bound_s(sent, model))
            plain.append(numpy_s(sent, model))
            start_s = time.process_time()
            consume(None, sent, files, model)
            ours.append(time.process_time() - start_s)
        best = min(ours)
        return {
            "mean_s": round(best, 3),
            "bound_s": round(min(bound), 3),
            "vs_memory_bound": round(min(bound) / best, 3),
            "vs_numpy_pass": round(min(plain) / best, 3),
        }
    rule, count = what.split("-")
    sent = updates(files, int(count))
    before_mb, start_s = anonymous_mb(), time.perf_counter()
    with peak_mb() as peak:
        consume(None if rule == "mean" else {"rule": rule}, sent, files, model)
    return {"peak_mb": peak[0], "growth_mb": peak[0] - before_mb, "seconds": time.perf_counter() - start_s}


def apart(what: str, folder: Path, model_mb: int) -> dict[str, Any]:
    """Measure one part in a process of its own."""
    command = [sys.executable, __file__, "--part", what, "--folder", str(folder), "--mb", str(model_mb)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def figures(folder: Path, model_mb: int) -> dict[str, Any]:
    """Return what is told of ordinary models."""
    store, model = BlobStore(folder), signature(model_mb)
    for seed in range(4):
        write_model(store, model, seed)
    found = apart("speed", folder, model_mb)
    few, many = apart("mean-4", folder, model_mb), apart("mean-64", folder, model_mb)
    found["peak_growth_4_to_64"] = round(many["peak_mb"] / few["peak_mb"], 3)
    found["mean_64_peak_mb"] = round(many["peak_mb"], 1)
    for rule in RULES:
        told = apart(f"{rule}-{UPDATES}", folder, model_mb)
        found[f"{rule}_peak_vs_updates"] = round(told["growth_mb"] * 1e6 / (UPDATES * model.size_bytes), 3)
        found[f"{rule}_peak_mb"], found[f"{rule}_s"] = round(told["growth_mb"], 1), round(told["seconds"], 2)
    return {**found, "updates": UPDATES, "model_mb": round(model.size_bytes / 1e6, 1)}


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=125)
    parser.add_argument("--large", type=int, default=1024)
    parser.add_argument("--part", default="")
    parser.add_argument("--folder", type=Path, default=Path())
    args = parser.parse_args()
    if args.part:
        print(json.dumps(part(args.part, args.folder, args.mb)))
        return
    with tempfile.TemporaryDirectory(prefix="bench_aggregate_") as name:
        found = figures(Path(name), args.mb)
    if args.large:
        with tempfile.TemporaryDirectory(prefix="bench_aggregate_") as name:
            found["large"] = apart("large", Path(name), args.large)
    print(json.dumps({"bench": "aggregate", "figures": found, "machine": machine()}))


if __name__ == "__main__":
    main()
