"""Frames per second of the scene generator on one core, 160 x 120, best of five; worlds are built beforehand."""

import json
import os

# Before NumPy loads: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import time  # noqa: E402

import numpy as np  # noqa: E402
from machine import machine  # noqa: E402

from fed_core.scenes import ENVIRONMENTS, PLATFORMS, GeneratedSequence  # noqa: E402

REPEATS = 5
FRAMES = 15
SEED = 1


def frames_per_s(sequence: GeneratedSequence) -> float:
    """Return the best rate of ``REPEATS`` runs over frames spread along the path."""
    sequence[0]  # finds the path, builds the search tree
    indices = np.linspace(0, len(sequence) - 1, FRAMES).astype(int)
    best_s = float("inf")
    for _ in range(REPEATS):
        start_s = time.perf_counter()
        for index in indices:
            sequence[int(index)]
        best_s = min(best_s, time.perf_counter() - start_s)
    return FRAMES / best_s


def idle_control_s() -> float:
    """Return the best time of a fixed NumPy load: tells a slow machine from a slow generator."""
    values = np.random.default_rng(0).random(200_000, dtype=np.float32)
    best_s = float("inf")
    for _ in range(REPEATS):
        start_s = time.perf_counter()
        for _ in range(100):
            np.sqrt(values * values + np.float32(1.0)).sum()
        best_s = min(best_s, time.perf_counter() - start_s)
    return best_s


def main() -> None:
    """Measure all cells and print one JSON line."""
    figures: dict[str, float] = {}
    for environment in ENVIRONMENTS:
        rates, world = [], None
        for platform in PLATFORMS:
            sequence = GeneratedSequence(platform, environment, seed=SEED, num_frames=120)
            if world is None:
                start_s = time.perf_counter()
                world = sequence.world
                figures[f"world_s_{environment}"] = round(time.perf_counter() - start_s, 2)
            sequence.__dict__["world"] = world
            rates.append(frames_per_s(sequence))
            print(f"{environment:12s} {platform:7s} {rates[-1]:6.1f} frames/s", flush=True)
        figures[f"frames_per_s_core_{environment}"] = round(min(rates), 1)
    # The bound holds by day, in the slowest cell.
    day = [e for e in ENVIRONMENTS if not e.endswith("night")]
    figures["frames_per_s_core"] = min(figures[f"frames_per_s_core_{e}"] for e in day)
    figures["idle_control_s"] = round(idle_control_s(), 4)
    print(json.dumps({"bench": "generator", "figures": figures, "machine": machine()}))


if __name__ == "__main__":
    main()
