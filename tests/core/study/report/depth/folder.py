"""A study folder made by hand, for tests of the report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fed_core.study.report.results import folder_name

CLIENTS = ("ugv_forest_0", "uav_indoor_0")
TESTS = ("ugv_forest_test", "uav_indoor_test")


def metrics(abs_rel: float) -> dict[str, float]:
    """All metrics; those that are not AbsRel follow from it by simple factors."""
    names = ("sq_rel", "rmse_m", "rmse_log", "log10", "silog", "delta2", "delta3")
    return {"abs_rel": abs_rel, "delta1": 1.0 - abs_rel, **dict.fromkeys(names, 2.0 * abs_rel)}


def write_study(folder: Path, **changes: Any) -> Path:
    """Write ``study.json``: one model, FedAvg and FeDepth, seeds 0, 1 and 2."""
    tree = {
        "schema": 1,
        "study": "depth-hpe",
        "title": "A small study",
        "command": "fedperc study depth-hpe --out runs/small",
        "synthetic": True,
        "models": ["adabins_s"],
        "strategies": ["fedavg", "fedepth"],
        "seeds": [0, 1, 2],
        "rounds": 3,
        "options": {"train": {"lr": 0.001}},
        "clients": [_place(name) for name in CLIENTS],
        "tests": [_place(name) for name in TESTS],
        "tuning": None,
        "versions": {"torch": "2.13.0"},
        "machine": "2 CPUs",
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(tree))
    return folder


def write_cell(folder: Path, label: str, seed: int, abs_rel: float, **changes: Any) -> Path:
    """Write one finished run with a flat curve; ``model`` and ``curve`` change those, the rest changes the result."""
    model = str(changes.pop("model", "adabins_s"))
    curve: Sequence[float] = changes.pop("curve", (abs_rel,) * 3)
    tree = {
        "schema": 1,
        "model": model,
        "strategy": label.split(":")[0],
        "label": label,
        "seed": seed,
        "rounds": 3,
        "sequences": [sequence(name, abs_rel) for name in TESTS],
        "macro": metrics(abs_rel),
        "micro": metrics(abs_rel),
        "by_cell": {"ugv/forest": metrics(abs_rel + 0.1), "uav/indoor": metrics(abs_rel - 0.1)},
        "memberships": {name: [0] for name in CLIENTS},
        "num_clusters": 1,
        **changes,
    }
    target = folder / "cells" / folder_name(model) / folder_name(label) / f"seed{seed}"
    target.mkdir(parents=True, exist_ok=True)
    (target / "result.json").write_text(json.dumps(tree))
    lines = [json.dumps({"round": turn, "macro": metrics(value)}) for turn, value in enumerate(curve, 1)]
    (target / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    return target


def write_seeds(folder: Path, label: str, values: Sequence[float], **changes: Any) -> None:
    """Write a finished run for each value, with seeds 0, 1, ..."""
    for seed, value in enumerate(values):
        write_cell(folder, label, seed, value, **changes)


def write_panels(folder: Path, cell: Path, name: str, size: tuple[int, int] = (24, 40)) -> None:
    """Write image, truth (a ramp from 1 m, its first line unknown) and one run's prediction of a sequence."""
    truth = np.linspace(1.0, 40.0, size[0] * size[1]).reshape(size)
    truth[0] = 0.0
    shared = folder / "panels" / "seed0"
    for path in (shared, cell / "panels"):
        path.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), 90, np.uint8)).save(shared / f"{name}_rgb.png")
    Image.fromarray((truth * 256).astype(np.uint16)).save(shared / f"{name}_depth.png")
    Image.fromarray((truth * 200 + 256).astype(np.uint16)).save(cell / "panels" / f"{name}.png")


def sequence(name: str, abs_rel: float, **changes: Any) -> dict[str, Any]:
    """The result of one test sequence."""
    return {
        "name": name,
        "platform": name.split("_")[0],
        "environment": name.split("_")[1],
        "frames": 4,
        "metrics": metrics(abs_rel),
        "metrics_all": metrics(abs_rel),
        "metrics_near": None,
        "near_cap_m": None,
        "choice": {"keys": ["global"], "clusters": [], "distances": [], "threshold": None, "fallback": False},
        **changes,
    }


def _place(name: str) -> dict[str, Any]:
    platform, environment, _ = name.split("_")
    return {"name": name, "platform": platform, "environment": environment, "frames": 4}
