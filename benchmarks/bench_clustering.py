"""One-shot clustering of 1,000 robots with 2,048 features: what the aggregator does before round 1, and its memory.

``seconds`` and ``peak_gb`` (whole process) are of FeDepth's first step: affinity, tau, overlapping clusters, figures.
The parts, PACFL's angles and the hard partition are measured beside it. Each figure is the best of three, one thread.
"""

import json
import os

# Before NumPy loads: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import re  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from machine import machine  # noqa: E402

from fed_core.clustering.hard import by_agglomeration  # noqa: E402
from fed_core.clustering.soft import by_rows  # noqa: E402
from fed_core.clustering.threshold import by_quantile  # noqa: E402
from fed_core.similarity import jeffreys, subspace  # noqa: E402
from fed_core.similarity.gaussian import Gaussians  # noqa: E402
from fed_core.strategies.base import GLOBAL, RobotInfo, ServerState, make_strategy  # noqa: E402
from fed_core.types import Descriptor, Memory, ModelSignature  # noqa: E402

NUM_ROBOTS, NUM_FEATURES, NUM_DOMAINS = 1000, 2048, 8
REPEATS = 3


def descriptors(rng: np.random.Generator) -> list[Descriptor]:
    """Return robots around eight domains; every tenth lies between two of them."""
    centres = rng.normal(size=(NUM_DOMAINS, NUM_FEATURES))
    found = []
    for robot in range(NUM_ROBOTS):
        first, second = rng.integers(NUM_DOMAINS, size=2)
        share = 0.5 if robot % 10 == 0 else 1.0
        mean = share * centres[first] + (1.0 - share) * centres[second] + 0.3 * rng.normal(size=NUM_FEATURES)
        variance = rng.uniform(0.5, 2.0, NUM_FEATURES)
        tensors = {"mean": mean.astype(np.float32), "variance": variance.astype(np.float32)}
        found.append(Descriptor("gaussian", tensors, 256, "bench"))
    return found


def best_s(work: Callable[[], Any]) -> float:
    """Return the shortest time of three calls."""
    seconds = []
    for _ in range(REPEATS):
        start_s = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start_s)
    return min(seconds)


def peak_gb() -> float:
    """Return the largest resident memory of this process so far in GB."""
    match = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))
    return int(match[1]) * 1024 / 1e9 if match else 0.0


def main() -> None:
    """Measure and print one JSON line."""
    rng = np.random.default_rng(0)
    told = descriptors(rng)
    robots = {f"r{number:04d}": RobotInfo(f"r{number:04d}", 100, one) for number, one in enumerate(told)}
    state = ServerState(0, robots, Memory(), {GLOBAL: {}}, ModelSignature("bench", ()))
    start = make_strategy("fedepth", {})
    log = dict(start.begin(state).log)
    figures: dict[str, float] = {"peak_gb": round(peak_gb(), 3)}
    figures["seconds"] = round(best_s(lambda: start.begin(state)), 2)

    group = Gaussians.stack(told)
    floor = jeffreys.variance_floor(group.variance)
    affinity = jeffreys.affinity(group, floor)
    tau = by_quantile(affinity, 0.2)
    figures["affinity_s"] = round(best_s(lambda: jeffreys.affinity(group, floor)), 2)
    figures["rows_s"] = round(best_s(lambda: by_rows(affinity, tau)), 3)
    figures["partition_s"] = round(best_s(lambda: by_agglomeration(affinity, tau)), 3)
    bases, _ = np.linalg.qr(rng.normal(size=(NUM_ROBOTS, NUM_FEATURES, subspace.NUM_DIRECTIONS)))
    spaces = subspace.Subspaces(np.ascontiguousarray(bases.transpose(0, 2, 1)), group.num_frames)
    figures["angles_s"] = round(best_s(lambda: subspace.affinity(spaces)), 2)
    figures["num_clusters"] = float(str(log["num_clusters"]))
    figures["angles_peak_gb"] = round(peak_gb(), 3)
    print(json.dumps({"bench": "clustering", "figures": figures, "machine": machine()}))


if __name__ == "__main__":
    main()
