"""The study files that come with the package load, and their networks and training take their settings."""

from pathlib import Path

import pytest
import torch

from fed_core.config import from_tree
from fed_core.study.config import cells_of, load_study
from fed_core.training.local import TrainConfig
from fed_models import build

FOLDER = Path(__file__).parents[3] / "config" / "studies"
FILES = sorted(FOLDER.glob("depth-*.yaml"), key=lambda file: file.stem)


def test_both_scenarios_come_small_and_in_paper_size() -> None:
    assert [file.stem for file in FILES] == ["depth-bmr", "depth-bmr-paper", "depth-hpe", "depth-hpe-paper"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shipped_study_can_start(file: Path) -> None:
    study = load_study(file)

    assert len(cells_of(study)) >= 30
    for name, settings in study.models.items():
        from_tree(TrainConfig, {**study.train, **settings.train}, name)
        with torch.device("meta"):
            network = build(name, dict(settings.options))
        assert network.input_size == (settings.options["height"], settings.options["width"])
