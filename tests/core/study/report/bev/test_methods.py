from pathlib import Path

import pytest

from fed_core.study.report.bev.methods import directions, federated, method_of, name_of, planned, references
from fed_core.study.report.results import read_study
from tests.core.study.report.bev.folder import FEDDWA_DALOSS, MODEL, write_cell, write_study

INVERSE_DALOSS = "daloss:inner=feddwa+inner_options={dwa_direction: inverse}"


@pytest.mark.parametrize(
    ("label", "name", "base"),
    [
        ("fedavg", "FedAvg", "fedavg"),
        ("scaffold", "SCAFFOLD", "scaffold"),
        ("moon", "moon", "moon"),
        ("feddwa:dwa_direction=inverse", "FedDWA, inverse", "feddwa"),
        ("feddwa:cv_space=update+cv_update=II", "FedDWA, cv_space = update, cv_update = II", "feddwa"),
        ("daloss", "FedAvg + DALoss", "daloss"),
        ("daloss:inner=fedbevt", "FedBEVT + DALoss", "daloss:inner=fedbevt"),
        ("daloss:inner=feddwa+C=10.0", "FedDWA + DALoss, C = 10", "daloss:inner=feddwa"),
        (INVERSE_DALOSS, "FedDWA + DALoss, inverse", "daloss:inner=feddwa"),
        ("feddwa:no option", "feddwa:no option", "feddwa:no option"),
    ],
)
def test_a_label_has_a_name_for_people_and_a_base(label: str, name: str, base: str) -> None:
    method = method_of(label)

    assert (method.name, method.base) == (name, base)
    assert method.is_main == (label == base)
    assert name_of(label) == name


@pytest.mark.parametrize(
    ("label", "direction"),
    [
        ("feddwa", "increasing"),
        (FEDDWA_DALOSS, "increasing"),
        (INVERSE_DALOSS, "inverse"),
        ("feddwa:dwa_direction=uniform", "uniform"),
        ("feddwa:dwa_direction=uniform+eta_g=0.5", ""),
        ("fedavg", ""),
    ],
)
def test_direction_of_the_weights_where_nothing_else_is_changed(label: str, direction: str) -> None:
    assert method_of(label).direction == direction


def test_main_methods_run_with_every_seed_and_are_a_federation(tmp_path: Path) -> None:
    labels = ["local", "fedavg", "feddwa", "feddwa:eta_g=0.5"]
    cells = [[MODEL, label, seed] for label in labels for seed in (0, 1)] + [[MODEL, "daloss:inner=fedavg", 0]]
    write_study(tmp_path, strategies=[*labels, "daloss:inner=fedavg"], cells=cells)
    for label in ("local", "feddwa", "daloss:inner=fedavg"):
        write_cell(tmp_path, label, 0, [0.1, 0.1, 0.1, 0.1])
    study = read_study(tmp_path)

    assert planned(study, MODEL) == ["fedavg", "feddwa"]
    assert federated(study, MODEL) == ["feddwa"]
    assert references(study, MODEL) == ["local"]


def test_directions_need_something_to_stand_beside(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=["feddwa", "feddwa:dwa_direction=inverse", FEDDWA_DALOSS])
    for label in ("feddwa", "feddwa:dwa_direction=inverse", FEDDWA_DALOSS):
        write_cell(tmp_path, label, 0, [0.1, 0.1, 0.1, 0.1])

    found = directions(read_study(tmp_path), MODEL)

    assert found == {"feddwa": {"increasing": "feddwa", "inverse": "feddwa:dwa_direction=inverse"}}
