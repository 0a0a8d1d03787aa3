from pathlib import Path

import pytest

from fed_core.errors import DataError
from fed_core.study.report.results import folder_name, read_metric, read_study
from tests.core.study.report.depth.folder import write_cell, write_seeds, write_study


def test_planned_runs_without_a_result_are_missing(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "fedavg", [0.3, 0.3, 0.3])
    write_cell(tmp_path, "fedepth", 1, 0.2)

    study = read_study(tmp_path)

    assert study.missing == (("adabins_s", "fedepth", 0), ("adabins_s", "fedepth", 2))
    assert study.values("adabins_s", "fedepth", lambda cell: cell.macro("abs_rel")) == {1: 0.2}


def test_a_list_of_cells_is_the_plan(tmp_path: Path) -> None:
    write_study(tmp_path, cells=[["adabins_s", "fedavg", 0], ["adabins_s", "fedepth:link=min", 0]])
    write_cell(tmp_path, "fedavg", 0, 0.3)

    assert read_study(tmp_path).missing == (("adabins_s", "fedepth:link=min", 0),)


def test_runs_beyond_the_plan_count_too(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "moon", 0, 0.3, model="another")

    study = read_study(tmp_path)

    assert study.models == ["adabins_s", "another"]
    assert study.labels == ["fedavg", "fedepth", "moon"]
    assert study.finished("another") == ["moon"]


def test_a_broken_result_is_missing(tmp_path: Path) -> None:
    write_study(tmp_path, seeds=[0], strategies=["fedavg"])
    cell = write_cell(tmp_path, "fedavg", 0, 0.3)
    (cell / "result.json").write_text('{"schema": 1, "mod')

    assert read_study(tmp_path).missing == (("adabins_s", "fedavg", 0),)


def test_a_cut_line_and_a_repeated_round_do_no_harm(tmp_path: Path) -> None:
    write_study(tmp_path)
    cell = write_cell(tmp_path, "fedavg", 0, 0.3, curve=(0.9, 0.8))
    with (cell / "rounds.jsonl").open("a") as file:
        file.write('{"round": 2, "macro": {"abs_rel": 0.7}}\n{"round": 3, "mac')

    (run,) = read_study(tmp_path).of("adabins_s", "fedavg")

    assert run.curve("abs_rel") == [(1, 0.9), (2, 0.7)]


def test_no_study_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"study.json is missing or no JSON object; give the folder that `fedperc study"
    ):
        read_study(tmp_path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    write_study(tmp_path, schema=9)

    with pytest.raises(DataError, match="has schema 9, this version reads 1; use the version that wrote it"):
        read_study(tmp_path)


def test_metrics_have_two_names_and_may_be_missing() -> None:
    assert read_metric({"rmse": 2}, "rmse_m") == 2.0
    assert read_metric({"rmse_m": 3.0}, "rmse_m") == 3.0
    assert read_metric({"abs_rel": float("nan")}, "abs_rel") is None
    assert read_metric(None, "abs_rel") is None


def test_folder_of_a_label() -> None:
    assert folder_name("fedepth:tau_quantile=0.1+bn=moments") == "fedepth_tau_quantile=0.1_bn=moments"
