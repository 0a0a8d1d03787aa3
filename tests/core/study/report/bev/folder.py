"""A folder of a bev study made by hand, for tests of its report."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fed_core.study.report.results import folder_name

CLIENTS = ("bus", "truck", "car_a", "car_b")
MODEL = "sinbevt_s"
#: IoU of the map that looks at no image.
CONSTANT = 0.15
FEDDWA_DALOSS, FEDBEVT_DALOSS = "daloss:inner=feddwa", "daloss:inner=fedbevt"


def write_study(folder: Path, **changes: Any) -> Path:
    """Write ``study.json``: one network, FedBEVT and FedDWA without and with DALoss, seeds 0, 1 and 2."""
    tests = [
        {"name": f"{name}_{split}", "owner": name, "split": split, "platform": name.split("_")[0], "frames": 8}
        for name in CLIENTS
        for split in ("test", "validation")
    ]
    tree = {
        "schema": 1,
        "task": "bev",
        "study": "bev",
        "title": "A small study of maps",
        "command": "fedperc study bev --out runs/small",
        "synthetic": True,
        "models": [MODEL],
        "strategies": ["fedbevt", FEDBEVT_DALOSS, "feddwa", FEDDWA_DALOSS],
        "seeds": [0, 1, 2],
        "rounds": 3,
        "options": {"train": {"lr": 0.001}},
        "clients": [
            {"name": name, "platform": name.split("_")[0], "environment": "uc2", "frames": 40} for name in CLIENTS
        ],
        "tests": tests,
        "tuning": None,
        "versions": {"torch": "2.13.0"},
        "machine": "2 CPUs",
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(tree))
    return folder


def write_cell(
    folder: Path,
    label: str,
    seed: int,
    ious: Sequence[float | None],
    lines: Sequence[Mapping[str, Any]] = (),
    **changes: Any,
) -> Path:
    """Write one finished run.

    Args:
        folder: of the study.
        label: of the run.
        seed: of the run.
        ious: IoU of the honest round of every client, as a share; the best is 0.1 higher, the mean of the last ten
            0.02 lower, that of the frames 0.05 lower, that after training 0.01 higher.
        lines: of ``rounds.jsonl``.
        changes: of the result; ``model`` changes the folder, too.
    """
    model = str(changes.pop("model", MODEL))
    tree = {
        "schema": 1,
        "model": model,
        "strategy": label.split(":")[0],
        "label": label,
        "options": {},
        "seed": seed,
        "rounds": 3,
        "parameters": 1_200_000,
        "clients": {name: client(iou) for name, iou in zip(CLIENTS, ious, strict=True)},
        "macro": macro(ious),
        "upload_bytes": 24_000_000,
        "download_bytes": 48_000_000,
        "seconds": {"train": 60.0, "evaluate": 30.0, "total": 120.0},
        **changes,
    }
    target = folder / "cells" / folder_name(model) / folder_name(label) / f"seed{seed}"
    target.mkdir(parents=True, exist_ok=True)
    (target / "result.json").write_text(json.dumps(tree))
    (target / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


def client(iou: float | None) -> dict[str, Any]:
    """The figures of one client; all follow from one IoU."""

    def moved(by: float) -> float | None:
        return None if iou is None else iou + by

    return {
        "best": {"round": 2, "iou_global": moved(0.1), "iou_frame": moved(0.05)},
        "honest": {"round": 3, "iou_global": iou, "iou_frame": moved(-0.05), "validation_iou": iou},
        "last": {"round": 3, "iou_global": iou, "iou_frame": moved(-0.05)},
        "last10": {"count": 3, "iou_global": moved(-0.02), "iou_frame": moved(-0.05)},
        "trained": {"iou_global": moved(0.01), "iou_frame": moved(-0.04)},
        "constant": {"iou_global": CONSTANT, "iou_frame": CONSTANT},
    }


def macro(ious: Sequence[float | None]) -> dict[str, float | None]:
    """The means over the clients that have a figure."""
    known = [iou for iou in ious if iou is not None]
    mean = sum(known) / len(known) if known else None

    def moved(by: float) -> float | None:
        return None if mean is None else mean + by

    return {
        "iou_global": mean,
        "iou_frame": moved(-0.05),
        "best_iou_global": moved(0.1),
        "last10_iou_global": moved(-0.02),
        "trained_iou_global": moved(0.01),
        "constant_iou_global": CONSTANT,
    }


def write_seeds(folder: Path, label: str, ious: Sequence[Sequence[float | None]], **changes: Any) -> None:
    """Write a finished run for each row of IoUs, with seeds 0, 1, ..."""
    for seed, row in enumerate(ious):
        write_cell(folder, label, seed, row, **changes)


def line(turn: int, ious: Sequence[float | None] | None, **figures: Any) -> dict[str, Any]:
    """One line of ``rounds.jsonl``; without IoUs it was not evaluated."""
    scored = {} if ious is None else {
        name: {"test": {"iou_global": iou, "iou_frame": iou}, "validation": {"iou_global": iou, "iou_frame": iou}}
        for name, iou in zip(CLIENTS, ious, strict=True)
    }  # fmt: skip
    means = {} if ious is None else {"iou_global": macro(ious)["iou_global"], "iou_frame": macro(ious)["iou_global"]}
    return {
        "round": turn,
        "evaluated": ious is not None,
        "clients": scored,
        "macro": means,
        "loss": 1.0 / turn,
        **figures,
    }


def by_client(*values: float) -> dict[str, float]:
    """A figure of every robot."""
    return dict(zip(CLIENTS, values, strict=True))


def write_panels(folder: Path, cell: Path, name: str, cells: int = 32) -> None:
    """Write cameras and truth (a vehicle ahead at the right, nobody looks at the last rows) and one run's map."""
    truth = np.zeros((cells, cells), np.uint8)
    truth[cells // 8 : cells // 4, cells * 5 // 8 : cells * 11 // 16] = 255
    truth[-cells // 4 :] = 128
    shared = folder / "panels" / "seed0"
    for path in (shared, cell / "panels"):
        path.mkdir(parents=True, exist_ok=True)
    for camera in (0, 1, 2, 3):
        shade = np.full((cells, cells, 3), 60 + 40 * camera, np.uint8)
        Image.fromarray(shade).save(shared / f"{name}_camera{camera}.png")
    Image.fromarray(truth).save(shared / f"{name}_mask.png")
    noise = np.random.default_rng(0).integers(0, 60, (cells, cells))
    Image.fromarray(np.clip(truth * 0.7 + noise, 0, 255).astype(np.uint8)).save(cell / "panels" / f"{name}.png")
