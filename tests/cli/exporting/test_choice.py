"""Which model is exported: by hand, with losses 8 / round for ann and one less for bob."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fed_cli.exporting.choice import Chosen, choose
from fed_cli.exporting.runs import find_runs
from fed_core.errors import ConfigError, DataError, FedError, StoreError, UnknownNameError
from tests.cli.reports import folders
from tests.cli.reports.folders import run_config, write_run

CLUSTERS = {"ann": (0,), "bob": (1,)}


def chosen(path: Path, model: str | None = None, robot: str | None = None) -> Chosen:
    return choose(find_runs(path), model, robot)


def demo(folder: Path, scores: dict[str, tuple[list[int], dict[str, float]]]) -> Path:
    """Write a demo of fedepth and fedavg; ``scores`` are chosen clusters and AbsRel by method, by sequence."""
    for name, clusters in (("fedepth", CLUSTERS), ("fedavg", {})):
        write_run(folder / "aggregator" / name, run_config(name), clusters=clusters)
    write_run(folder / "aggregator" / "initial", run_config("fedavg", rounds=0))
    rows = [
        {"name": name, "clusters": clusters, "abs_rel": figures, "delta1": figures, "frames": 3}
        for name, (clusters, figures) in scores.items()
    ]
    (folder / "demo.json").write_text(json.dumps({"robots": [], "test": []}))
    (folder / "summary.json").write_text(json.dumps({"strategy": "fedepth", "sequences": rows}))
    return folder


SCORES: dict[str, Any] = {
    "street": ([0], {"initial": 0.1, "fedavg": 0.5, "fedepth": 0.25}),
    "flat": ([0, 1], {"initial": 0.1, "fedavg": 0.5, "fedepth": 0.75}),
}


def test_without_scores_the_model_with_the_lowest_loss_is_best(tmp_path: Path) -> None:
    found = chosen(write_run(tmp_path / "run", clusters=CLUSTERS))
    assert (found.key, found.robot) == ("cluster/1", "")  # bob's: 8 / 2 - 1
    assert found.why == (
        "lowest loss of the last training, 3 (mean of bob, weighted by samples); no unseen sequence was scored"
    )


def test_a_model_of_one_robot_counts_its_loss_alone(tmp_path: Path) -> None:
    found = find_runs(write_run(tmp_path / "run"))
    run = found.runs[0]
    keys = ("global", "robot/ann", "robot/bob")  # as FedTP keeps them; there are no clusters
    run = replace(run, plan=replace(run.plan, models=keys))
    best = choose(replace(found, runs=(run,)), None, None)
    assert best.key == "robot/bob" and "3 (mean of bob, " in best.why


def test_the_only_model_is_taken_without_ado(tmp_path: Path) -> None:
    found = chosen(write_run(tmp_path / "run"))
    assert (found.key, found.why) == ("global", "the run has no other")


@pytest.fixture
def norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the head of the runs' network a batch normalisation."""
    specs = [replace(spec, module="BatchNorm2d") for spec in folders.SIGNATURE.tensors[1:]]
    changed = replace(folders.SIGNATURE, tensors=(*folders.SIGNATURE.tensors[:1], *specs))
    monkeypatch.setattr(folders, "SIGNATURE", changed)


@pytest.mark.usefixtures("norms")
def test_of_a_method_that_keeps_layers_the_best_is_a_robots(tmp_path: Path) -> None:
    found = chosen(write_run(tmp_path / "run", run_config("fedbn")))
    assert (found.key, found.robot, found.label) == ("", "bob", "model of robot bob")
    assert found.why.startswith("lowest loss of the last training, 3 (of bob)")


def test_scores_of_unseen_sequences_come_first(tmp_path: Path) -> None:
    """cluster/0 served both, (0.25 + 0.75) / 2; cluster/1 the second, 0.75; fedavg both, 0.5; untrained ones never."""
    found = chosen(demo(tmp_path, SCORES))
    assert (found.run.folder.name, found.key) == ("fedepth", "cluster/0")
    assert found.why == "best mean AbsRel, 0.500, on the unseen sequences that it served (street, flat; summary.json)"


def test_the_other_method_may_be_better(tmp_path: Path) -> None:
    scores = {name: (row[0], {**row[1], "fedavg": 0.2}) for name, row in SCORES.items()}
    found = chosen(demo(tmp_path, scores))
    assert (found.run.folder.name, found.key) == ("fedavg", "global")


def test_a_run_of_a_demo_knows_its_scores(tmp_path: Path) -> None:
    found = chosen(demo(tmp_path, SCORES) / "aggregator" / "fedavg")
    assert (found.run.folder.name, found.key) == ("fedavg", "global")
    assert found.why.startswith("best mean AbsRel, 0.500, on the unseen sequences that it served (street, flat")
    assert found.run.robot_folder("ann") == tmp_path / "robots" / "ann"


@pytest.mark.parametrize(
    ("name", "method", "key"),
    [
        ("cluster/1", "fedepth", "cluster/1"),
        ("fedepth/cluster/1", "fedepth", "cluster/1"),
        ("fedavg/global", "fedavg", "global"),
        ("fedavg", "fedavg", "global"),
    ],
)
def test_models_of_a_demo_by_name(name: str, method: str, key: str, tmp_path: Path) -> None:
    found = chosen(demo(tmp_path, SCORES), model=name)
    assert (found.run.folder.name, found.key) == (method, key)


def test_an_unknown_model_lists_those_that_there_are(tmp_path: Path) -> None:
    folder = demo(tmp_path, SCORES)
    known = "fedavg/global, fedepth/cluster/0, fedepth/cluster/1"
    with pytest.raises(UnknownNameError, match=f"no model of {folder} is called 'cluster/7'; known: {known}$"):
        chosen(folder, model="cluster/7")
    run = write_run(tmp_path / "alone")
    with pytest.raises(UnknownNameError, match=f"no model of {run} is called 'best'; known: global$"):
        chosen(run, model="best")


def test_an_unknown_robot_lists_those_that_there_are(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(UnknownNameError, match=f"no robot of {run} is called 'eve'; known: ann, bob$"):
        chosen(run, robot="eve")
    with pytest.raises(ConfigError, match="--model and --robot name different models; give one of them"):
        chosen(run, model="global", robot="ann")


def test_a_summary_of_another_run_is_one_line(tmp_path: Path) -> None:
    folder = demo(tmp_path, {"street": ([9], {"fedepth": 0.1})})
    with pytest.raises(
        StoreError, match="summary.json does not fit the run .*fedepth: IndexError.*; it is broken or of"
    ):
        chosen(folder)


def test_a_run_without_a_closed_round_has_no_model(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", closed=0)
    with pytest.raises(StoreError, match=f"no round of {run} has closed yet, so there is no trained model; wait for"):
        find_runs(run)


def test_a_study_keeps_no_models(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(DataError, match="is a run of a study, which keeps scores and no models; name a run or a demo"):
        find_runs(tmp_path)


def test_no_run_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist; name the folder of a run"):
        find_runs(tmp_path / "no")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match="holds no run, demo or study"):
        find_runs(tmp_path)


def test_a_model_whose_file_is_gone_is_one_line(tmp_path: Path) -> None:
    found = chosen(write_run(tmp_path / "run"))
    with pytest.raises(StoreError, match=r"model global of .*run is gone: .*blobs/\w+ does not exist$"):
        found.weights()


def test_a_damaged_model_is_one_line(tmp_path: Path) -> None:
    found = chosen(write_run(tmp_path / "run"))
    path = tmp_path / "run" / "blobs" / found.run.plan.blobs["global"].digest
    path.parent.mkdir()
    path.write_bytes(b"x")
    with pytest.raises(StoreError, match=r"model global of .*run is damaged: .* has another digest than its name$"):
        found.weights()


@pytest.mark.usefixtures("norms")
def test_what_a_robot_keeps_elsewhere_is_one_line(tmp_path: Path) -> None:
    found = chosen(write_run(tmp_path / "run", run_config("fedbn")), robot="ann")
    text = f"what ann keeps to itself is not in {tmp_path}/run/robots/ann; export where the robot's folder lies$"
    with pytest.raises(FedError, match=text):
        found.weights()


def test_a_method_around_one_that_keeps_nothing_keeps_nothing(tmp_path: Path) -> None:
    """So a robot's folder is not asked for; here the model itself is the first thing that is missing."""
    config = replace(run_config("fedavg"), strategy="robust")
    found = chosen(write_run(tmp_path / "run", config), robot="ann")
    with pytest.raises(StoreError, match=r"^model global of .*run is gone: "):
        found.weights()
