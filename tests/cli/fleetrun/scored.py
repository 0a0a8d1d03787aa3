"""A demo folder as the scoring nodes leave it, with figures that can be checked by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.config import from_tree
from fed_core.fleet import FleetConfig
from fed_core.store.journal import Journal, RoundRow
from fed_core.types import BlobRef

ABS_REL = {"fedepth": 0.25, "fedavg": 0.5, "initial": 1.0}


def fleet(strategy: str = "fedepth") -> FleetConfig:
    source = {"data": "x"}
    tree = {
        "run": "t",
        "rounds": 3,
        "seed": 7,
        "strategy": {"name": strategy},
        "robots": [{"id": name, "source": source} for name in ("a", "b", "c")],
        "test": [{"name": "unseen", "source": source}],
    }
    return from_tree(FleetConfig, tree, "fleet")


def write_scores(folder: Path) -> None:
    """Write the scores of three methods for one sequence of two kept frames."""
    truth = np.full((6, 8), 2.0, np.float32)
    truth[0] = np.nan
    for name, abs_rel in ABS_REL.items():
        place = folder / "scores" / name
        place.mkdir(parents=True)
        soft = name == "fedepth"
        run: dict[str, Any] = {
            "models": ["cluster/0", "cluster/1"] if soft else ["global"],
            "members": {"a": [0], "b": [0, 1], "c": [1]} if soft else {},
            "bytes": 100,
        }
        selection = {"clusters": [1], "distances": [9.0, 2.0], "threshold": 4.0, "fallback": False}
        score = {"metrics": {"abs_rel": abs_rel, "delta1": 1 - abs_rel / 2}, "selection": selection, "frames": 2}
        (place / "run.json").write_text(json.dumps(run))
        (place / "unseen.json").write_text(json.dumps(score))
        rgb = np.zeros((6, 8, 3), np.uint8)
        frames = {f"{key}_{i}": value for i in range(2) for key, value in (("rgb", rgb), ("predicted", truth + 1))}
        np.savez(place / "unseen.npz", **frames, truth_0=truth, truth_1=truth)


NDS = {"fedcka": 0.3, "fedavg": 0.2, "initial": 0.0}


def detection_fleet() -> FleetConfig:
    tree = {
        "run": "boxes",
        "task": "detection",
        "network": {"name": "cmt_tiny"},
        "rounds": 3,
        "strategy": {"name": "fedcka"},
        "robots": [{"id": name, "source": {"data": name}} for name in ("A", "B")],
        "test": [{"name": "unseen_A", "source": {"data": "x"}}],
    }
    return from_tree(FleetConfig, tree, "fleet")


def write_detection_scores(folder: Path) -> None:
    """Write the scores of three methods for a sequence of two kept frames, and a journal in which A keeps layers."""
    box = np.array([[0.0, 10.0, 0.0, 4.0, 2.0, 1.5, 0.5, 0, 1.0]])
    to_pixel = np.array([[20.0, 16, 0, 0], [0, 8, -20, 0], [0, 1, 0, 0]])
    for name, nds in NDS.items():
        place = folder / "scores" / name
        place.mkdir(parents=True)
        (place / "run.json").write_text(json.dumps({"models": ["global"], "members": {}, "bytes": 100}))
        selection = {"clusters": [], "distances": [], "threshold": None, "fallback": False}
        score = {"metrics": {"nds": nds, "map": nds / 2}, "selection": selection, "frames": 2}
        (place / "unseen_A.json").write_text(json.dumps(score))
        frame = {"points": np.zeros((5, 2), np.float32), "image": np.full((16, 32, 3), 90, np.uint8)}
        frame |= {"to_pixel": to_pixel, "true_boxes": box, "said_boxes": box[:0] if nds == 0 else box}
        np.savez(place / "unseen_A.npz", **{f"{key}_{k}": value for k in range(2) for key, value in frame.items()})
    _write_journal(folder / "aggregator" / "fedcka")


def _write_journal(folder: Path) -> None:
    folder.mkdir(parents=True)
    config = {"strategy": "fedcka", "network": "cmt_tiny", "total_rounds": 2}
    journal = Journal(folder / "journal.sqlite", "fedcka", config)
    for robot, masks in (("A", (None, [1, 0, 0, 1])), ("B", (None, None))):
        journal.save_robot(robot, {"num_samples": 6}, None)
        for number, mask in enumerate(masks, 1):
            journal.save_update(number, robot, {"mask": mask}, {"loss": 1.0})
    for number in (1, 2):
        row = RoundRow(number, {}, BlobRef("0" * 64, 1), {"A": (), "B": ()}, {})
        journal.commit_round(row, {"global": BlobRef(f"{number}" * 64, 1_000)})
    journal.close()


IOU = {"daloss": 0.4, "fedavg": 0.25, "initial": 0.1}


def bev_fleet() -> FleetConfig:
    tree = {
        "run": "maps",
        "task": "bev",
        "network": {"name": "fax_tiny"},
        "rounds": 3,
        "strategy": {"name": "daloss", "options": {"inner": "feddwa"}},
        "robots": [{"id": name, "source": {"data": name}} for name in ("bus", "car")],
        "test": [{"name": name, "source": {"data": "x"}} for name in ("unseen_bus", "unseen_car")],
    }
    return from_tree(FleetConfig, tree, "fleet")


def write_bev_scores(folder: Path) -> None:
    """Write the scores of three methods for two sequences of one kept frame; one of them has no vehicle by frame."""
    truth, known = np.zeros((4, 4), bool), np.ones((4, 4), bool)
    truth[1, 2], known[3] = True, False
    predicted = np.full((4, 4), 0.25, np.float32)
    for name, iou in IOU.items():
        place = folder / "scores" / name
        place.mkdir(parents=True)
        (place / "run.json").write_text(json.dumps({"models": ["global"], "members": {}, "bytes": 100}))
        for sequence, by_frame in (("unseen_bus", iou / 2), ("unseen_car", None)):
            selection = {"clusters": [], "distances": [], "threshold": None, "fallback": False}
            score = {"metrics": {"iou_global": iou, "iou_frame": by_frame}, "selection": selection, "frames": 1}
            (place / f"{sequence}.json").write_text(json.dumps(score))
            cameras = {f"camera{k}_0": np.full((6, 8, 3), 40 * k, np.uint8) for k in (0, 3)}
            np.savez(place / f"{sequence}.npz", **cameras, truth_0=truth, known_0=known, predicted_0=predicted)
