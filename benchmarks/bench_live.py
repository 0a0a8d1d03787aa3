"""The inference node under a camera of 640x480 at 30 Hz: what it adds to the network, what training does to it, memory.

Real processes over DDS on this host: an aggregator, a robot that trains rounds of adabins_s in its child process, the
inference node, and a camera that publishes rendered frames and notes when their depth arrives.

- ``overhead_p50_ms``, ``overhead_p99_ms``: from the begin of the image's callback to the end of publishing its depth,
  less the forward pass of that very frame; ``forward_vs_bare``: that forward pass over one of the same network and
  frames in a process of its own, measured by turns; ``over_bare_p50_ms``, ``over_bare_p99_ms``: less that bare one
  instead, so that what the node slows the network down by counts, too;
- ``image_copies``, ``depth_copies``: whole images that fit into the memory which NumPy and Python take at most from the
  callback to the network (``held_in_mb``: its input in the network's size, in steps), and from the prediction in the
  image's size to the published message;
- ``train_latency_ratio_p95``: latency (sent to received) with training over latency without, by turns: the median over
  the turns of p95 over p95; ``training_cpu``, ``idle_cpu``: CPUs that the training process got meanwhile;
- ``cold_start_s``: start of the process to the first depth received, with a cached model and no aggregator;
- ``rss_growth``: resident memory of the inference node in a soak with training beside: the median of the last two
  minutes over that of the second and third; ``rss_mb``, ``rss_peak_mb``: the median of all, and the most at any time
  (two networks, while one takes over from the other); ``own_growth``: the same without what is shared with others
  (the middleware's segments fill up to their size, 8 MB each);
- ``drops_agree``: in the soak the node counts as dropped as many frames as the subscriber misses.

``python benchmarks/bench_live.py`` takes 30 minutes, 20 of them the soak; ``--parts overhead,cold`` a few.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from live_fleet import Fleet
from machine import machine

PARTS = ("overhead", "copies", "cold", "training", "soak")
RATE_HZ, TURNS = 30.0, 6
IMAGE_BYTES, DEPTH_BYTES = 640 * 480 * 3, 640 * 480 * 4


def overhead(fleet: Fleet) -> dict[str, Any]:
    """Return what the node adds to the forward pass, and that pass against a bare one."""
    times = fleet.folder / "times.jsonl"
    bare: list[float] = []
    ours: list[list[float]] = []
    with fleet.inference(module="live_node", environment={"LIVE_TIMES": str(times)}):
        fleet.camera.until_depth()
        seen = 0
        stamps: list[list[int]] = []
        for turn in range(TURNS):
            told = fleet.camera.play(RATE_HZ, 10.0)
            stamps.append([int(stamp) for stamp in told["delays_ms"]])
            seen += len(stamps[-1])
            bare.append(fleet.bare_forward_ms())
            print(f"turn {turn + 1}: {len(stamps[-1])} frames, bare forward {bare[-1]:.2f} ms", flush=True)
    rows = {row["stamp"]: row for row in map(json.loads, times.read_text(encoding="utf-8").splitlines())}
    for turn in stamps:
        ours.append([rows[stamp]["forward_ms"] for stamp in turn if stamp in rows])
    added = np.array([row["total_ms"] - row["forward_ms"] for stamp in sum(stamps, []) if (row := rows.get(stamp))])
    totals = [[rows[stamp]["total_ms"] for stamp in turn if stamp in rows] for turn in stamps]
    over = [np.percentile(found, (50, 99)) - one for found, one in zip(totals, bare, strict=True) if found]
    over_p50, over_p99 = np.median(np.array(over), axis=0)
    by_turn = [np.median(found) / one for found, one in zip(ours, bare, strict=True) if found]
    return {
        "frames": len(added),
        "overhead_p50_ms": round(float(np.percentile(added, 50)), 2),
        "overhead_p99_ms": round(float(np.percentile(added, 99)), 2),
        "overhead_max_ms": round(float(added.max()), 2),
        "over_bare_p50_ms": round(float(over_p50), 2),
        "over_bare_p99_ms": round(float(over_p99), 2),
        "forward_p50_ms": round(float(np.median(sum(ours, []))), 2),
        "forward_vs_bare": round(float(np.median(by_turn)), 3),
    }


def copies(fleet: Fleet) -> dict[str, Any]:
    """Return how many images of memory are taken on the way in and out."""
    times = fleet.folder / "copies.jsonl"
    with fleet.inference(module="live_node", environment={"LIVE_TIMES": str(times), "LIVE_MEMORY": "1"}):
        fleet.camera.until_depth()
        fleet.camera.play(2.0, 10.0)
    rows = [json.loads(line) for line in times.read_text(encoding="utf-8").splitlines()][5:]
    return {
        "image_copies": int(np.median([row["held_in"] for row in rows]) // IMAGE_BYTES),
        "depth_copies": int(np.median([row["held_out"] for row in rows]) // DEPTH_BYTES),
        "held_in_mb": round(float(np.median([row["held_in"] for row in rows])) / 1e6, 3),
        "held_out_mb": round(float(np.median([row["held_out"] for row in rows])) / 1e6, 3),
    }


def cold(fleet: Fleet) -> dict[str, Any]:
    """Return the time from the start of the process to its first depth, of three."""
    found = []
    for _ in range(3):
        start = time.monotonic()
        with fleet.inference():
            fleet.camera.until_depth()
            found.append(time.monotonic() - start)
        print(f"cold start {found[-1]:.2f} s", flush=True)
    return {"cold_start_s": round(float(np.median(found)), 2), "cold_start_worst_s": round(max(found), 2)}


def training(fleet: Fleet) -> dict[str, Any]:
    """Return latency with training beside, over that without, by turns."""
    ratios, rows = [], []
    cpus: dict[bool, list[float]] = {False: [], True: []}
    with fleet.aggregator(), fleet.robot() as robot, fleet.inference():
        fleet.camera.until_depth()
        for turn in range(TURNS):
            pair = []
            for trains in (False, True) if turn % 2 else (True, False):
                robot.train(trains)
                start, before_s = time.monotonic(), robot.trainer_cpu_s()
                delays = list(fleet.camera.play(RATE_HZ, 15.0)["delays_ms"].values())
                cpus[trains].append((robot.trainer_cpu_s() - before_s) / (time.monotonic() - start))
                pair.append((trains, np.percentile(delays, (50, 95)), len(delays)))
            figures = {trains: found for trains, found, _ in pair}
            ratios.append(figures[True][1] / figures[False][1])
            rows.append([*figures[False], *figures[True]])
            print(f"turn {turn + 1}: idle p50 {rows[-1][0]:.1f} p95 {rows[-1][1]:.1f} ms, "
                  f"training {rows[-1][2]:.1f} and {rows[-1][3]:.1f} ms", flush=True)  # fmt: skip
    table = np.median(np.array(rows), axis=0)
    return {
        "train_latency_ratio_p95": round(float(np.median(ratios)), 3),
        "train_latency_ratio_p95_worst": round(float(max(ratios)), 3),
        "training_cpu": round(float(np.median(cpus[True])), 3),
        "idle_cpu": round(float(np.median(cpus[False])), 3),
        **dict(
            zip(("idle_p50_ms", "idle_p95_ms", "training_p50_ms", "training_p95_ms"), np.round(table, 2), strict=True)
        ),
    }


def soak(fleet: Fleet, minutes: float) -> dict[str, Any]:
    """Return how memory and counts behave while the camera runs and a robot trains rounds."""
    kinds: dict[str, list[tuple[float, int]]] = {"inference": [], "robot": [], "trainer": []}
    own: dict[str, list[tuple[float, int]]] = {kind: [] for kind in kinds}
    with fleet.aggregator(), fleet.robot() as robot, fleet.inference() as node:
        fleet.camera.until_depth()
        start, before = time.monotonic(), fleet.counts()
        fleet.camera.begin(RATE_HZ, 60.0 * minutes)
        told = None
        while told is None:
            told = fleet.camera.answer(5.0)
            now = time.monotonic() - start
            for kind, pid in (("inference", node.pid), ("robot", robot.pid), ("trainer", robot.trainer_pid())):
                if pid:
                    with suppress(psutil.NoSuchProcess):  # a training process may end at any time
                        found = psutil.Process(pid).memory_info()
                        kinds[kind].append((now, found.rss))
                        own[kind].append((now, found.rss - found.shared))
            if kinds["inference"]:
                print(f"{now / 60.0:5.1f} min  {kinds['inference'][-1][1] / 1e6:.1f} MB", end="\r", flush=True)
        after, rounds = fleet.counts(), fleet.rounds()
    missed = len(told["sent"]) - len(told["delays_ms"])
    dropped = after["dropped"] - before["dropped"]
    delays = np.array(list(told["delays_ms"].values()))
    return {
        "rss_growth": _growth(kinds["inference"]),
        "own_growth": _growth(own["inference"]),
        "own_growth_robot": _growth(own["robot"]),
        "own_growth_trainer": _growth(own["trainer"]),
        "rss_growth_robot": _growth(kinds["robot"]),
        "rss_growth_trainer": _growth(kinds["trainer"]),
        "rss_mb": round(float(np.median([size for _, size in kinds["inference"]])) / 1e6, 1),
        "rss_peak_mb": round(max(size for _, size in kinds["inference"]) / 1e6, 1),
        "soak_min": minutes,
        "soak_frames": len(told["sent"]),
        "soak_missed": missed,
        "soak_dropped": dropped,
        "drops_agree": missed == dropped,
        "soak_p50_ms": round(float(np.percentile(delays, 50)), 1),
        "soak_p99_ms": round(float(np.percentile(delays, 99)), 1),
        "soak_rounds": rounds,
    }


def _growth(rows: Sequence[tuple[float, int]]) -> float | None:
    """Return the median size of the last two minutes over that of the second and third."""
    early = [size for second, size in rows if 60.0 <= second < 180.0]
    late = [size for second, size in rows if second >= rows[-1][0] - 120.0]
    return round(float(np.median(late) / np.median(early)), 4) if early else None


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="which, by comma")
    parser.add_argument("--device", default="cpu", help="where networks run and train: cpu, cuda")
    parser.add_argument("--soak-min", type=float, default=20.0, help="length of the soak [min]")
    options = parser.parse_args()
    wanted = options.parts.split(",")
    work: dict[str, Callable[[Fleet], dict[str, Any]]] = {
        "overhead": overhead,
        "copies": copies,
        "cold": cold,
        "training": training,
        "soak": lambda fleet: soak(fleet, options.soak_min),
    }
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, Fleet(Path(folder), options.device) as fleet:
        for part in PARTS:
            if part in wanted:
                print(part, flush=True)
                figures |= work[part](fleet)
                print(json.dumps(figures), flush=True)
    print(json.dumps({"bench": "live", "figures": figures, "machine": machine()}))


if __name__ == "__main__":
    main()
