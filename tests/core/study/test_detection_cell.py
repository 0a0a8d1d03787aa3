"""A detection run from end to end: matrix, masks, nothing of the test in training, the same after an interruption."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fed_core.config import from_tree
from fed_core.data.nuscenes.source import open_source
from fed_core.scenes.domains import DomainOptions, generate
from fed_core.study.base import CellJob
from fed_core.study.cell import run_cell
from fed_core.study.config import Cell, StudyConfig
from fed_core.study.detection import evaluation
from fed_core.study.detection.kind import DetectionKind
from fed_core.study.scenario import Scenario
from fed_core.training import jobs
from fed_models.toolbox import toolbox

pytestmark = [pytest.mark.usefixtures("fresh_process"), pytest.mark.slow, pytest.mark.timeout(400)]
TAU = 0.98
CKA = f"fedcka:rule=threshold+tau={TAU}+frames=1"
DOMAINS = {"boston_day_clear", "singapore_night_rain"}


def config(*labels: str) -> StudyConfig:
    tree = {
        "title": "small",
        "scenario": "detection-domains",
        "rounds": 3,
        "seeds": 1,
        "train": {"batch_size": 2, "lr": 2e-3, "augment": False},
        "detection": {"score_step": 2, "max_boxes": 20, "reader": {"sweeps": 0}},
        "models": {"cmt_tiny": {"strategies": list(labels)}},
    }
    return from_tree(StudyConfig, tree)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    options = DomainOptions(
        domains=("A", "E"), train_scenes=(2, 0, 0, 0, 1), val_scenes=(1, 0, 0, 0, 1), keyframes=2, sweeps=0,
        width=48, height=32, beams=10, azimuths=90,
    )  # fmt: skip
    data = generate(tmp_path_factory.mktemp("domains") / "data", options)
    return DetectionKind().recorded(config("fedavg"), data)


def run(scenario: Scenario, folder: Path, label: str, *, panels: bool = False, **options: Any) -> Any:
    job = CellJob(Cell("cmt_tiny", label, 0), config(label), scenario, folder, panels)
    return run_cell(job, toolbox(), **options)


def lines(folder: Path, label: str) -> list[Any]:
    path = folder / Cell("cmt_tiny", label, 0).folder / "rounds.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_one_model_has_equal_rows_and_is_scored_once(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored: list[str] = []
    score = evaluation.score

    def note(job: Any, what: Any) -> Any:
        scored.append(what.sequence.name)
        return score(job, what)

    monkeypatch.setattr(evaluation, "score", note)

    result = run(scenario, tmp_path, "fedavg", panels=True)

    assert result["one_model"]
    a, e = (result["matrix"]["nds"][name] for name in sorted(DOMAINS))
    assert a == e and set(a) == DOMAINS
    # Validation in rounds 2 and 3 (only A has scenes for it), G on both domains, V of each on its own.
    assert sorted(scored) == sorted(
        ["boston_day_clear_validation"] * 2 + ["boston_day_clear_test", "singapore_night_rain_test"] * 2
    )
    rounds = lines(tmp_path, "fedavg")
    assert [line["evaluated"] for line in rounds] == [False, True, True]
    assert rounds[1]["validation"]["singapore_night_rain"] is None
    assert rounds[-1]["macro"]["nds"] == result["macro"]["validation_nds"]
    assert result["domains"]["boston_day_clear"]["scenes"] == 1
    assert "car" in result["domains"]["boston_day_clear"]["classes"]
    assert result["units"] == []
    assert result["personal"]["boston_day_clear"]["entries"] == 0
    for name in DOMAINS:
        for kind in ("bev", "cameras"):
            assert (tmp_path / Cell("cmt_tiny", "fedavg", 0).folder / "panels" / f"{name}_{kind}.png").exists()
        assert (tmp_path / "panels" / "seed0" / f"{name}_cameras.png").exists()


@dataclass(frozen=True)
class Followed:
    """A run with FedCKA, and the frames that its training and its comparisons drew from."""

    folder: Path
    result: dict[str, Any]
    trained: frozenset[str]
    compared: frozenset[str]


@pytest.fixture(scope="module")
def followed(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    drawn: dict[str, set[str]] = {"train": set(), "probe": set()}
    train, probe = jobs.train, jobs._probe_batches

    def noted_train(task: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        drawn["train"] |= set(dataset.tokens)
        return train(task, dataset, *args, **kwargs)

    def noted_probe(task: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        drawn["probe"] |= set(dataset.tokens)
        return probe(task, dataset, *args, **kwargs)

    folder = tmp_path_factory.mktemp("followed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "train", noted_train)
        patch.setattr(jobs, "_probe_batches", noted_probe)
        result = run(scenario, folder, CKA)
    return Followed(folder, result, frozenset(drawn["train"]), frozenset(drawn["probe"]))


def test_masks_and_scores_of_layers_are_kept(followed: Followed) -> None:
    result = followed.result

    first, *rounds = lines(followed.folder, CKA)
    assert first["masks"] == first["cka"] == {}
    units, layers = result["units"], result["layers"]
    names = {layer["name"] for layer in layers}
    for line in rounds:
        assert set(line["masks"]) == set(line["cka"]) == DOMAINS
        assert set(line["chance"]) <= names
        for client, mask in line["masks"].items():
            assert len(mask) == len(units) and set(line["cka"][client]) <= names
            for layer in layers:  # the mask is what the rule makes of the score
                (unit,) = layer["units"]
                score = line["cka"][client].get(layer["name"])
                assert mask[unit] == ("0" if score is not None and score < TAU else "1")
    client, last = "boston_day_clear", rounds[-1]
    assert result["personal"][client]["units"] == last["masks"][client].count("0") > 0
    assert last["told"]["personal_ratio"][client] == pytest.approx(result["personal"][client]["share"])
    assert last["upload_bytes"] < first["upload_bytes"]
    assert last["download_bytes"] == first["download_bytes"]  # the whole global model in every round
    assert not result["one_model"]
    # The headline is read off figures of held-out training scenes.
    assert last["macro"]["nds"] == result["macro"]["validation_nds"]


def test_no_frame_of_the_test_is_in_any_draw_of_training_or_cka(scenario: Scenario, followed: Followed) -> None:
    opened: dict[str, Any] = {s.name: open_source(s.source, Path()) for s in (*scenario.clients, *scenario.tests)}
    tokens = {name: {seq.token(k) for k in range(len(seq))} for name, seq in opened.items()}

    assert followed.trained == followed.compared == set().union(*(tokens[c.name] for c in scenario.clients))
    for test in scenario.tests:  # held-out training scenes, too
        assert not followed.trained & tokens[test.name]


def test_interrupted_run_ends_with_the_same_masks_and_figures(
    scenario: Scenario, followed: Followed, tmp_path: Path
) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(scenario, tmp_path, CKA, on_round=stop)
    again = run(scenario, tmp_path, CKA)

    whole = followed.result
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}
    masks = [[line["masks"] for line in lines(folder, CKA)] for folder in (followed.folder, tmp_path)]
    assert masks[0] == masks[1]


def test_one_pooled_model_is_scored_on_every_domain(scenario: Scenario, tmp_path: Path) -> None:
    result = run(scenario, tmp_path, "centralised")

    assert set(result["clients"]) == DOMAINS
    assert result["one_model"] and result["personal"] == {}
    assert list(lines(tmp_path, "centralised")[0]["losses"]) == ["pool"]
