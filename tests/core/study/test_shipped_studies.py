"""The study files that come with the package load, and their networks and training take their settings."""

from pathlib import Path

import pytest
import torch

from fed_core.config import from_tree, read_yaml
from fed_core.study.config import SCENARIOS, cells_of, load_study
from fed_core.training.options import TrainConfig
from fed_models import build

FOLDER = Path(__file__).parents[3] / "config" / "studies"
FILES = sorted((file for file in FOLDER.glob("*.yaml") if "scenario" in read_yaml(file)), key=lambda file: file.stem)


def test_all_scenarios_come_small_and_in_paper_size() -> None:
    assert [file.stem for file in FILES] == [f"{name}{size}" for name in sorted(SCENARIOS) for size in ("", "-paper")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shipped_study_can_start(file: Path) -> None:
    study = load_study(file)

    assert len(cells_of(study)) >= 30
    for name, settings in study.models.items():
        from_tree(TrainConfig, {**study.train, **settings.train}, name)
        with torch.device("meta"):
            network = build(name, dict(settings.options))
        if study.task == "depth":
            assert network.input_size == (settings.options["height"], settings.options["width"])


def test_bev_study_compares_directions_side_by_side_and_answers_the_claims() -> None:
    """All three directions on every seed, and what the claims compare (feddwa spec 10, 14)."""
    for name in ("bev", "bev-paper"):
        study = load_study(FOLDER / f"{name}.yaml")
        (settings,) = study.models.values()
        directions = {"feddwa", "feddwa:dwa_direction=inverse", "feddwa:dwa_direction=uniform"}
        compared = {"fedavg", "fedprox", "scaffold", "fedrep", "fedtp", "fedbevt", "local", "centralised"}
        wrapped = {"daloss:inner=fedbevt", "daloss:inner=feddwa"}
        assert directions | compared | wrapped <= set(settings.strategies)
        assert study.seeds == 3
