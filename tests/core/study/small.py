"""A study that runs in seconds: six robots in three domains that overlap in brightness, and a tiny network."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.config import from_tree
from fed_core.data.store import write_store
from fed_core.study.config import StudyConfig
from fed_core.types import DepthFrame
from tests.core.training import tiny

CLIENTS = {"bright_0": 0, "bright_1": 20, "middle_0": 70, "middle_1": 90, "dark_0": 150, "dark_1": 170}
TESTS = {"unseen_bright": 10, "unseen_dark": 160}


@dataclass
class Frames:
    name: str
    frames: list[DepthFrame]
    source: str = "test"

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: int) -> DepthFrame:
        return self.frames[index]


def recording(name: str, darker: int, count: int) -> Frames:
    made = tiny.frames(count, seed=darker)
    dark = [replace(f, rgb=np.clip(f.rgb.astype(int) - darker, 0, 255).astype(np.uint8)) for f in made]
    return Frames(name, dark)


def write_stores(folder: Path) -> Path:
    for role, names, count in (("client", CLIENTS, 9), ("test", TESTS, 10)):
        for name, darker in names.items():
            info = {"role": role, "platform": "arm", "environment": name.split("_")[role == "test"], "cap_m": "20"}
            write_store(recording(name, darker, count), folder / name, info=info)
    return folder


def config(*labels: str, **settings: Any) -> StudyConfig:
    model = {"options": {"height": 16, "width": 24}, "train": {"lr": 1e-2}, "strategies": list(labels)}
    tree = {
        "title": "small",
        "scenario": "depth-hpe",
        "rounds": 3,
        "seeds": 1,
        "train": {"batch_size": 3, "local_epochs": 2},
        "models": {"tiny": model},
        **settings,
    }
    return from_tree(StudyConfig, tree)
