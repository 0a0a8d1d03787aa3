"""Every method on rendered worlds, from the first frame to the report (fedepth spec 15.15)."""

import json
from pathlib import Path

import pytest

from fed_core.config import from_tree
from fed_core.strategies.base import strategies
from fed_core.study.config import Cell, StudyConfig, cells_of
from fed_core.study.depth.generated import _scenario
from fed_core.study.depth.kind import DepthKind
from fed_core.study.kinds import KINDS
from fed_core.study.report import write_report
from fed_core.study.runner import Study
from fed_core.study.scenario import Scenario, ScoreRule
from fed_models.toolbox import toolbox

#: Three domains of which neighbours share the world or the platform.
DOMAINS = (("legged", "indoor"), ("uav", "indoor"), ("uav", "forest"))

#: Methods that need the classes or the named parts of a bird's eye network.
BIRDS_EYE = {"daloss", "fedbevt", "feddwa", "fedrep", "fedtp"}
#: Methods that keep layers on the robots, of which none owns an unseen sequence.
OWN_LAYERS = {"fedbn"}


def three_domains(config: StudyConfig, seed: int) -> Scenario:
    return _scenario(DOMAINS, config.generated, seed, lambda environment: ScoreRule())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_methods_learn_on_six_clients_in_three_domains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "depth-hpe", DepthKind(three_domains))
    names = [name for name in strategies.names() if name not in BIRDS_EYE | OWN_LAYERS]
    model = {
        "options": {"height": 64, "width": 96, "patch": 4},
        "train": {"lr": 3e-3, "batch_size": 4},
        "strategies": names,
    }
    tree = {
        "title": "six clients in three domains",
        "scenario": "depth-hpe",
        "rounds": 3,
        "seeds": 1,
        "models": {"adabins_s": model},
        "generated": {"frames": 8, "test_frames": 12, "width": 96, "height": 64},
    }
    config = from_tree(StudyConfig, tree)

    progress = Study(config, tmp_path, toolbox, jobs=2).run()

    assert progress.failures == []
    assert {"fedavg", "fedprox", "feddyn", "scaffold", "pacfl", "fedclust", "hard", "fedepth"} <= set(names)
    for cell in cells_of(config):
        folder = tmp_path / cell.folder
        lines = [json.loads(text) for text in (folder / "rounds.jsonl").read_text().splitlines()]
        result = json.loads((folder / "result.json").read_text())
        assert [line["round"] for line in lines] == [1, 2, 3], cell
        assert lines[-1]["loss"] < lines[0]["loss"], cell
        assert len(result["sequences"]) == 3, cell
    members = json.loads((tmp_path / Cell("adabins_s", "fedepth", 0).folder / "result.json").read_text())["memberships"]
    assert len(members) == 6 and all(members.values())
    for path in write_report(tmp_path):
        text = path.read_text()
        assert all(name in text for name in names)


@pytest.mark.parametrize("name", sorted(OWN_LAYERS))
def test_methods_with_layers_of_the_robots_own_are_refused_before_training(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "depth-hpe", DepthKind(three_domains))
    tree = {
        "title": "own layers",
        "scenario": "depth-hpe",
        "rounds": 1,
        "seeds": 1,
        "models": {"adabins_s": {"options": {"height": 64, "width": 96, "patch": 4}, "strategies": [name]}},
        "generated": {"frames": 2, "test_frames": 5, "width": 96, "height": 64},
    }

    (failure,) = Study(from_tree(StudyConfig, tree), tmp_path, toolbox, jobs=1).run().failures

    assert failure.what == f"adabins_s {name} seed 0"
    assert "keeps 175 tensors on each robot, and no robot owns an unseen sequence of this study" in failure.text
    assert not list(tmp_path.glob("cells/**/rounds.jsonl"))
