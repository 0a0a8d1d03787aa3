"""A folder of a detection study made by hand, for tests of its report."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fed_core.metrics.detection.scores import plain_mean, transfer, weighted_mean
from fed_core.study.report.results import folder_name

CLIENTS = ("boston_day_clear", "boston_day_rain", "singapore_night_rain")
SCENES = dict(zip(CLIENTS, (3, 2, 1), strict=True))
MODEL = "cmt_tiny"
LOW, HIGH, GROW = (
    "fedcka:rule=threshold+tau=0.25",
    "fedcka:rule=threshold+tau=0.5",
    "fedcka:rule=percentage+rho=0.1+start_round=2",
)
#: Name, entries and module of the units; each is a layer, too.
UNITS = (
    ("img_backbone.conv1", 60, "Conv2d"),
    ("img_backbone.bn1", 8, "BatchNorm2d"),
    ("pts_bbox_head.transformer.attention", 24, "QueryAttention"),
    ("pts_bbox_head.task_heads.0", 8, "Linear"),
)
ENTRIES = 100


def write_study(folder: Path, **changes: Any) -> Path:
    """Write ``study.json``: references, FedAvg, FedMC and three settings of FedCKA, seeds 0 and 1."""
    labels = ["local", "centralised", "fedavg", "fedmc", LOW, HIGH, GROW]
    tests = [
        {"name": f"{name}_{split}", "owner": name, "split": split, "platform": "city", "environment": "x", "scenes": 1}
        for name in CLIENTS
        for split in ("test", "validation")
    ]
    tree = {
        "schema": 1,
        "task": "detection",
        "study": "detection-domains",
        "title": "A small study of boxes",
        "command": "fedperc study detection-domains --out runs/small",
        "synthetic": True,
        "models": [MODEL],
        "strategies": labels,
        "seeds": [0, 1],
        "rounds": 3,
        "options": {"train": {"lr": 0.001}},
        "clients": [{"name": n, "platform": n.split("_")[0], "environment": "x", "frames": 40} for n in CLIENTS],
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
    matrix: Sequence[Sequence[float]],
    lines: Sequence[Mapping[str, Any]] = (),
    **changes: Any,
) -> Path:
    """Write one finished run.

    Args:
        folder: of the study.
        label: of the run.
        seed: of the run.
        matrix: NDS of every client (row) on every domain; mAP is half of it, CAP twice; V has 0.01 less.
        lines: of ``rounds.jsonl``.
        changes: of the result; ``validation`` is the NDS on held-out scenes, 0 without.
    """
    clients = changes.pop("clients", CLIENTS)
    scenes = {name: SCENES.get(name, 1) for name in clients}
    nds = {c: dict(zip(clients, map(float, row), strict=True)) for c, row in zip(clients, matrix, strict=True)}
    grids = {"nds": nds, "map": _times(nds, 0.5), "cap": _times(nds, 2.0)}
    masked = label.startswith("fedcka")
    tree = {
        "schema": 1,
        "model": MODEL,
        "strategy": label.split(":")[0],
        "label": label,
        "options": {},
        "seed": seed,
        "rounds": 3,
        "parameters": 300_000,
        "domains": {c: {"scenes": scenes[c], "frames": 8, "classes": ["car"], "named": ["bus"]} for c in clients},
        "matrix": grids,
        **_means(grids, scenes, changes.pop("validation", 0.0)),
        "one_model": label == "fedavg",
        "entries": ENTRIES,
        "units": units() if masked else [],
        "layers": [{"name": name, "units": [place]} for place, (name, _, _) in enumerate(UNITS)] if masked else [],
        "personal": {} if label in ("local", "centralised") else {c: kept(0) for c in clients},
        "upload_bytes": 4_000_000,
        "download_bytes": 8_000_000,
        "seconds": {"train": 60.0, "evaluate": 30.0, "total": 120.0},
        **changes,
    }  # fmt: skip
    target = folder / "cells" / MODEL / folder_name(label) / f"seed{seed}"
    target.mkdir(parents=True, exist_ok=True)
    (target / "result.json").write_text(json.dumps(tree))
    (target / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


def units() -> list[dict[str, Any]]:
    """The units of the masks."""
    return [{"name": n, "entries": e, "module": m, "tensors": [f"{n}.weight"]} for n, e, m in UNITS]


def kept(entries: int, count: int | None = None) -> dict[str, Any]:
    """What a client keeps."""
    return {"units": count, "entries": entries, "share": entries / ENTRIES}


def own(*values: float, others: float = 0.1) -> list[list[float]]:
    """A matrix with these figures on the diagonal and one figure elsewhere."""
    return [[value if row == column else others for column in range(len(values))] for row, value in enumerate(values)]


def line(turn: int, mask: str | Sequence[str] = "", scores: Sequence[float] = (), **figures: Any) -> dict[str, Any]:
    """One line of ``rounds.jsonl``; ``mask`` of all clients or one of each, 1 = shared."""
    masks = [mask] * len(CLIENTS) if isinstance(mask, str) else mask
    cka = dict(zip((name for name, _, _ in UNITS), scores, strict=False))
    return {
        "round": turn,
        "evaluated": True,
        "validation": {},
        "macro": {"nds": 0.1 * turn, "map": 0.05 * turn},
        "losses": dict.fromkeys(CLIENTS, 1.0 / turn),
        "masks": {client: bits for client, bits in zip(CLIENTS, masks, strict=True) if bits},
        "cka": dict.fromkeys(CLIENTS, cka) if cka else {},
        "chance": dict.fromkeys(cka, 0.2),
        "told": {},
        "log": {},
        "loss": 1.0 / turn,
        **figures,
    }


def by_client(*values: Any) -> dict[str, Any]:
    """A figure of every robot."""
    return dict(zip(CLIENTS, values, strict=True))


def write_panels(folder: Path, cell: Path, client: str, seed: int = 0) -> None:
    """Write the pictures of one client: cameras with true boxes, and one run's boxes from above and in the cameras."""
    shared = folder / "panels" / f"seed{seed}"
    for path in (shared, cell / "panels"):
        path.mkdir(parents=True, exist_ok=True)
    strip = np.full((32, 160, 3), 90, np.uint8)
    Image.fromarray(strip).save(shared / f"{client}_cameras.png")
    Image.fromarray(strip).save(cell / "panels" / f"{client}_cameras.png")
    Image.fromarray(np.full((400, 400, 3), 40, np.uint8)).save(cell / "panels" / f"{client}_bev.png")


def _times(grid: Mapping[str, Mapping[str, float]], factor: float) -> dict[str, dict[str, float]]:
    return {client: {d: factor * value for d, value in row.items()} for client, row in grid.items()}


def _means(grids: Mapping[str, Any], scenes: Mapping[str, int], validation: float | None) -> dict[str, Any]:
    across = {name: transfer(grids[name], scenes) for name in ("nds", "map")}
    parts = ("own_mean", "own_weighted", "other_mean", "other_weighted")
    own = {name: {client: row[client] for client, row in grid.items()} for name, grid in grids.items()}
    return {
        "transfer": {name: {part: getattr(found, part) for part in parts} for name, found in across.items()},
        "macro": {
            **{name: weighted_mean(values, scenes) for name, values in own.items()},
            "plain_nds": plain_mean(own["nds"]),
            "other_nds": across["nds"].other_mean,
            "other_weighted_nds": across["nds"].other_weighted,
            "trained_nds": weighted_mean(own["nds"], scenes) - 0.01,
            "validation_nds": validation,
        },
    }
