"""What a simulation costs beside its training: over the bare trainer, in memory over rounds, and beside Flower's.

Prints JSON; progress goes to standard error. Each part is a process of its own (``simulate_parts.py``,
``flower_simulation.py``), and those that are compared take turns:

- ``overhead``: eight clients whose training takes seconds, in one process with the bare trainer on the same samples; of
  each round (seconds of the round - seconds of the bare trainings) / seconds of the bare trainings, the median.
- ``rss_growth``: a thousand tiny clients; anonymous and shared memory of all processes after the last round over that
  after the second; the larger one of the engines.
- ``vs_flower``: eight clients, the same network, samples, steps and CPUs, both on Ray; our seconds over Flower's, from
  the start of the process to its end, which is what a user waits for, the median of the turns.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
PARTS, FLOWER = "simulate_parts.py", "flower_simulation.py"
TURNS = 3
#: Most seconds of a part.
LIMIT_S = 600.0


def run(*command: str) -> tuple[dict[str, Any], float]:
    """Return the JSON that a program of this folder ends with, and the seconds it ran."""
    paths = [str(ROOT), str(ROOT / "models"), *filter(None, [os.environ.get("PYTHONPATH")])]
    quiet = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0"}
    print(f"[{time.strftime('%H:%M:%S')}] {' '.join(command)}", file=sys.stderr, flush=True)
    began_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(HERE / command[0]), *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if command[0] == FLOWER else None,  # it talks a lot
        env={**os.environ, **quiet, "RAY_USAGE_STATS_ENABLED": "0"},
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr or ''}")
    seconds = time.perf_counter() - began_s
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer, seconds


def overhead(folder: Path) -> dict[str, Any]:
    """Return what rounds take beyond the bare trainings."""
    found, _ = run(PARTS, "overhead", str(folder))
    rounds, bares = np.array(found["rounds"]), np.array(found["bares"])  # turn, clock
    beside = (bares[:-1] + bares[1:]) / 2  # a bare turn lies before and after each round
    shares = rounds / beside - 1
    return {
        "overhead": round(float(np.median(shares[:, 0])), 4),
        "by_round": shares[:, 0].round(4).tolist(),
        "overhead_cpu_time": round(float(np.median(shares[:, 1])), 4),
        "cpu_time_by_round": shares[:, 1].round(4).tolist(),
        "round_seconds": rounds[:, 0].round(3).tolist(),
        "bare_seconds": bares[:, 0].round(3).tolist(),
    }


def growth(folder: Path) -> dict[str, Any]:
    """Return how the memory of many clients' rounds grows, by engine."""
    return {engine: run(PARTS, "growth", str(folder), engine)[0] for engine in ("local", "ray")}


def beside_flower(folder: Path) -> dict[str, Any]:
    """Return the turns of our engines and of Flower's simulation at the same work."""
    turns: dict[str, list[dict[str, Any]]] = {"ray": [], "flower": [], "local": []}
    for number in range(TURNS):
        for who in list(turns) if number % 2 == 0 else reversed(list(turns)):
            if who == "flower":
                found, seconds = run(FLOWER, str(folder))
            else:
                found, seconds = run(PARTS, "ours", str(folder), who)
            turns[who].append({**found, "process_seconds": round(seconds, 2)})
            rounds = sum(found["round_seconds"])
            print(f"  {who}: {seconds:.1f} s in all, {rounds:.1f} s of rounds", file=sys.stderr, flush=True)
    samples = {turn["samples"] for each in turns.values() for turn in each}
    if len(samples) != 1:
        raise SystemExit(f"not the same work: {samples} samples")
    return turns


def ratios(turns: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return our seconds over Flower's, turn by turn: of whole processes, and of rounds alone."""
    found: dict[str, Any] = {}
    for who in ("ray", "local"):
        pairs = list(zip(turns[who], turns["flower"], strict=True))
        whole = [ours["process_seconds"] / theirs["process_seconds"] for ours, theirs in pairs]
        rounds = [sum(ours["round_seconds"]) / sum(theirs["round_seconds"]) for ours, theirs in pairs]
        found[who] = {
            "with_start": round(float(np.median(whole)), 3),
            "with_start_by_turn": np.round(whole, 3).tolist(),
            "rounds_alone": round(float(np.median(rounds)), 3),
            "rounds_alone_by_turn": np.round(rounds, 3).tolist(),
        }
    return found


def main() -> None:
    """Run all parts and print one JSON object."""
    folder = Path(tempfile.mkdtemp(prefix="bench-simulate-"))
    began_s = time.perf_counter()
    try:
        run(PARTS, "write", str(folder))
        bare, many, turns = overhead(folder), growth(folder), beside_flower(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    compared = ratios(turns)
    figures = {
        "overhead": bare["overhead"],
        "rss_growth": round(max(each["growth"] for each in many.values()), 4),
        "vs_flower": compared["ray"]["with_start"],
    }
    details = {"overhead": bare, "rss_growth": many, "vs_flower": {**compared, "turns": turns}}
    versions = {name: version(name) for name in ("flwr", "ray", "torch", "numpy")}
    told = {"bench": "simulate", **figures, "parts": details, "versions": versions, "machine": machine()}
    print(json.dumps({**told, "seconds": round(time.perf_counter() - began_s)}, indent=1))


if __name__ == "__main__":
    main()
