"""One run of a study: figures that follow from its parts, and the same ones after an interruption."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.errors import DataError
from fed_core.study.base import CellJob
from fed_core.study.cell import run_cell
from fed_core.study.config import Cell, StudyConfig
from fed_core.study.depth.evaluation import TestBench
from fed_core.study.scenario import Scenario, from_stores
from fed_core.tasks.depth.task import DepthTask
from fed_core.training import jobs
from tests.core.study.small import config, write_stores
from tests.core.training.tiny import tiny, toolbox

pytestmark = pytest.mark.usefixtures("fresh_process")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return from_stores(write_stores(tmp_path_factory.mktemp("stores")))


def run(scenario: Scenario, folder: Path, label: str, study: StudyConfig | None = None, **options: Any) -> Any:
    job = CellJob(Cell("tiny", label, 0), study or config(label), scenario, folder)
    return run_cell(job, toolbox(), **options)


def lines(folder: Path, label: str) -> list[Any]:
    path = folder / Cell("tiny", label, 0).folder / "rounds.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()]


def without_times(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without_times(value) for key, value in tree.items() if key not in ("seconds", "train_s")}
    return [without_times(item) for item in tree] if isinstance(tree, list) else tree


def test_result_is_the_mean_of_its_sequences(scenario: Scenario, tmp_path: Path) -> None:
    result = run(scenario, tmp_path, "fedepth")

    sequences = result["sequences"]
    assert [sequence["name"] for sequence in sequences] == ["unseen_bright", "unseen_dark"]
    assert [sequence["frames"] for sequence in sequences] == [8, 8]  # two of ten frames choose
    abs_rel = [sequence["metrics"]["abs_rel"] for sequence in sequences]
    assert result["macro"]["abs_rel"] == pytest.approx(np.mean(abs_rel))
    assert result["by_cell"]["arm/dark"]["abs_rel"] == pytest.approx(abs_rel[1])
    assert set(result["memberships"]) == {client.name for client in scenario.clients}
    rounds = lines(tmp_path, "fedepth")
    assert [line["round"] for line in rounds] == [1, 2, 3]
    assert rounds[-1]["macro"] == pytest.approx(result["macro"])
    assert rounds[-1]["loss"] < rounds[0]["loss"]
    assert [line["lr"] for line in rounds] == pytest.approx([0.01, 0.00775, 0.00325])  # cosine, down to a tenth
    assert not (tmp_path / Cell("tiny", "fedepth", 0).folder / "run").exists()


def test_bytes_are_those_of_six_models_each_round(scenario: Scenario, tmp_path: Path) -> None:
    result = run(scenario, tmp_path, "fedavg")

    per_model = result["upload_bytes"] / (6 * 3)
    assert per_model == pytest.approx(result["parameters"] * 4, rel=2.0)  # header and buffers on top of so few weights
    assert result["download_bytes"] == result["upload_bytes"]
    assert result["fallback_rate"] is None


def test_interrupted_run_ends_with_the_same_figures(scenario: Scenario, tmp_path: Path) -> None:
    whole = run(scenario, tmp_path / "whole", "fedepth")

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(scenario, tmp_path / "cut", "fedepth", on_round=stop)
    with (tmp_path / "cut" / Cell("tiny", "fedepth", 0).folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "mac')
    trained: list[int] = []
    cut = run(scenario, tmp_path / "cut", "fedepth", on_round=lambda done, total: trained.append(done))

    assert without_times(cut) == without_times(whole)
    assert without_times(lines(tmp_path / "cut", "fedepth")) == without_times(lines(tmp_path / "whole", "fedepth"))
    assert trained == [2, 3]  # the plan of round 3 is published again, its predecessor is not trained again


def test_finished_run_is_only_read(scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(scenario, tmp_path, "fedavg")
    monkeypatch.setattr(jobs, "JOBS", {})

    assert run(scenario, tmp_path, "fedavg") == first


def test_run_whose_result_was_deleted_is_scored_anew(scenario: Scenario, tmp_path: Path) -> None:
    first = run(scenario, tmp_path, "fedavg")
    folder = tmp_path / Cell("tiny", "fedavg", 0).folder
    (folder / "result.json").unlink()
    (folder / "rounds.jsonl").write_text('{"round": 1, "of": "other code"}\n' * 3)

    assert without_times(run(scenario, tmp_path, "fedavg")) == without_times(first)
    assert [line["round"] for line in lines(tmp_path, "fedavg")] == [1, 2, 3]


def test_centralised_pools_all_frames_on_one_robot(scenario: Scenario, tmp_path: Path) -> None:
    result = run(scenario, tmp_path, "centralised")

    assert result["num_clusters"] == 1
    assert lines(tmp_path, "centralised")[0]["upload_bytes"] * 6 == pytest.approx(
        run(scenario, tmp_path, "fedavg")["upload_bytes"] / 3, rel=1e-6
    )


def test_choices_at_inference_are_scored_on_the_same_models(scenario: Scenario, tmp_path: Path) -> None:
    more = {"model": "tiny", "strategies": ["fedepth:link=min"], "choices": ["link=min", "link=mean"]}
    study = config("fedepth", ablations=more, strategy_options={"fedepth": {"tau_quantile": 0.5}})

    variants = run(scenario, tmp_path, "fedepth", study)["variants"]
    trained_so = run(scenario, tmp_path, "fedepth:link=min", study)

    assert variants["link=min"]["macro"] == pytest.approx(trained_so["macro"])
    main = json.loads((tmp_path / Cell("tiny", "fedepth", 0).folder / "result.json").read_text())
    assert variants["link=mean"]["macro"] == pytest.approx(main["macro"])


def test_descriptors_of_fewer_frames_are_made_of_fewer_frames(scenario: Scenario, tmp_path: Path) -> None:
    study = config("fedepth:descriptor_frames=3", "fedepth")

    few, all_frames = (run(scenario, tmp_path, label, study) for label in ("fedepth:descriptor_frames=3", "fedepth"))

    assert few["noise_floor"] == pytest.approx(2 * (1 / 3 + 1 / 3))
    assert all_frames["noise_floor"] == pytest.approx(2 * (1 / 9 + 1 / 9))


def test_too_short_unseen_sequence_is_told(scenario: Scenario, tmp_path: Path) -> None:
    test = scenario.tests[0]
    short = replace(scenario, tests=(replace(test, source=replace(test.source, stop=2)),))

    with pytest.raises(DataError, match="'unseen_bright' has 2 frames; 2 choose its models, none is left to score"):
        run(short, tmp_path, "fedavg")


def test_mirrored_prediction_is_the_mean_of_both_views(scenario: Scenario, tmp_path: Path) -> None:
    """A network that reads one column only: the mirror image shows it the other side."""

    class Columns(DepthTask):
        def predict(self, network: Any, rgb: Any) -> Any:
            return np.broadcast_to(np.arange(rgb.shape[1], dtype=np.float32) + rgb[0, 0, 0], rgb.shape[:2])

    bench = TestBench([], tiny(), "tiny", toolbox(), Columns(), mirror=True)
    rgb = np.zeros((2, 3, 3), np.uint8)
    rgb[0, 2] = 10

    # As it is: 0 1 2. Mirrored it begins with 10, so 10 11 12, and turned back 12 11 10.
    np.testing.assert_array_equal(bench._predict(rgb), np.broadcast_to([6.0, 6.0, 6.0], (2, 3)))
