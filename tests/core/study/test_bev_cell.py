"""A bird's eye run: whose model is scored, and the same figures after an interruption."""

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import DataError
from fed_core.scenes.driving import DrivingOptions, generate
from fed_core.study.base import CellJob
from fed_core.study.bev.kind import BevKind
from fed_core.study.cell import run_cell
from fed_core.study.client_models import ClientModels
from fed_core.study.config import Cell, StudyConfig
from fed_core.study.scenario import Scenario
from fed_models.toolbox import toolbox

pytestmark = [pytest.mark.usefixtures("fresh_process"), pytest.mark.slow, pytest.mark.timeout(400)]


def config(*labels: str) -> StudyConfig:
    tree = {
        "title": "small",
        "scenario": "bev",
        "rounds": 3,
        "seeds": 1,
        "train": {"batch_size": 2, "lr": 2e-3, "augment": False},
        "bev": {"score_step": 2, "reader": {"map_size": 32}},
        "models": {"fax_tiny": {"strategies": list(labels)}},
    }
    return from_tree(StudyConfig, tree)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    options = DrivingOptions(
        frames=8, test_frames=2, width=64, height=48, map_size=32, clients=("bus", "truck"), scene_frames=2,
        min_visible_px=1,
    )  # fmt: skip
    data = generate(tmp_path_factory.mktemp("streets") / "data", options)
    return BevKind().recorded(config("fedavg"), data)


def run(scenario: Scenario, folder: Path, label: str, *, panels: bool = False, **options: Any) -> Any:
    job = CellJob(Cell("fax_tiny", label, 0), config(label), scenario, folder, panels)
    return run_cell(job, toolbox(), **options)


def lines(folder: Path, label: str) -> list[Any]:
    path = folder / Cell("fax_tiny", label, 0).folder / "rounds.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_second_and_last_round_are_scored_and_told(scenario: Scenario, tmp_path: Path) -> None:
    result = run(scenario, tmp_path, "daloss:inner=feddwa", panels=True)

    rounds = lines(tmp_path, "daloss:inner=feddwa")
    assert [line["evaluated"] for line in rounds] == [False, True, True]
    assert set(rounds[1]["clients"]) == set(result["clients"]) == {"bus", "truck"}
    for line in rounds:
        assert sum(line["weights"].values()) == pytest.approx(1.0)
        assert set(line["divergence"]) == set(line["q_over_s"]) == set(line["drift"]) == {"bus", "truck"}
    assert rounds[-1]["loss"] < rounds[0]["loss"]
    for name, found in result["clients"].items():
        assert found["last"]["round"] == 3
        assert found["honest"]["round"] in (2, 3)
        assert 0.0 <= found["trained"]["iou_global"] <= 1.0
        assert 0.0 <= found["constant"]["iou_global"] <= 1.0
        grey = cv2.imread(str(tmp_path / f"panels/seed0/{name}_mask.png"), cv2.IMREAD_UNCHANGED)
        assert grey.shape == (32, 32)
        assert set(np.unique(grey)) <= {0, 128, 255}
        shown = cv2.imread(str(tmp_path / Cell("fax_tiny", "daloss:inner=feddwa", 0).folder / f"panels/{name}.png"), -1)
        assert shown.shape == (32, 32)
        assert (tmp_path / f"panels/seed0/{name}_camera3.png").exists()


def test_private_layers_are_scored_with_the_client_that_owns_them(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: dict[str, dict[str, Any]] = {}
    load = ClientModels.load_next

    def note(self: ClientModels, client: str, moment: Any) -> None:
        load(self, client, moment)
        arrays = toolbox().state_arrays(self._run.network)
        loaded[client] = {name: array.copy() for name, array in arrays.items()}

    monkeypatch.setattr(ClientModels, "load_next", note)

    run(scenario, tmp_path, "fedbevt")

    differing = {name for name, array in loaded["bus"].items() if not np.array_equal(array, loaded["truck"][name])}
    network = toolbox().build("fax_tiny", {})
    private = toolbox().signature(network, "fax_tiny").parts["camera"]
    assert differing == set(private)  # CaP: everything else is the fleet's


def test_broken_frames_are_left_out_and_a_sequence_of_nothing_else_is_named(scenario: Scenario, tmp_path: Path) -> None:
    root = Path(scenario.tests[0].source.data).parents[1]
    for name, count in (("one", 1), ("none", 2)):
        shutil.copytree(root, tmp_path / name)
        for path in sorted((tmp_path / name / "test" / "client_1").rglob("*.yaml"))[-count:]:
            path.write_text("camera0: {")
    one, none = (BevKind().recorded(config("fedavg"), tmp_path / name) for name in ("one", "none"))

    result = run(one, tmp_path / "out", "fedavg", panels=True)

    assert (tmp_path / "out" / "panels/seed0/bus_mask.png").exists()
    assert result["clients"]["bus"]["last"]["iou_global"] is not None
    with pytest.raises(DataError, match="bus_test: no usable sample"):
        run(none, tmp_path / "out", "fedbevt")


def test_one_pooled_model_is_scored_on_every_client(scenario: Scenario, tmp_path: Path) -> None:
    result = run(scenario, tmp_path, "centralised")

    assert set(result["clients"]) == {"bus", "truck"}
    assert list(lines(tmp_path, "centralised")[0]["losses"]) == ["pool"]


def test_interrupted_run_ends_with_the_same_figures(scenario: Scenario, tmp_path: Path) -> None:
    whole = run(scenario, tmp_path / "whole", "fedbevt", panels=True)

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(scenario, tmp_path / "cut", "fedbevt", panels=True, on_round=stop)
    again = run(scenario, tmp_path / "cut", "fedbevt", panels=True)

    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}
    panel = Cell("fax_tiny", "fedbevt", 0).folder / "panels/bus.png"
    assert (tmp_path / "cut" / panel).read_bytes() == (tmp_path / "whole" / panel).read_bytes()
