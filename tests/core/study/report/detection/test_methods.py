from pathlib import Path

import pytest

from fed_core.study.report.detection import methods
from fed_core.study.report.results import read_study
from tests.core.study.report.detection.folder import GROW, HIGH, LOW, MODEL, own, write_cell, write_study

DEBIASED = f"{HIGH}+estimator=debiased"


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("local", "Own domain only"),
        ("fedavg", "FedAvg"),
        ("moon", "moon"),
        ("moon:mu=2", "moon, mu = 2"),
        ("fedrep:mode=joint", "FedRep, joint"),
        ("fedrep:mode=alternate", "FedRep, alternate"),
        (HIGH, "FedCKA, τ = 0.5"),
        (GROW, "FedCKA, ρ = 0.1 from round 2"),
        (DEBIASED, "FedCKA, τ = 0.5, debiased"),
        ("fedcka:rule=threshold+tau=0.5+layers=block", "FedCKA, τ = 0.5, layers = block"),
        ("fedcka:rule=threshold+tau=0.5+layers=owner", "FedCKA, τ = 0.5"),  # the default
        ("fedcka", "FedCKA"),
        ("fedcka:no option", "fedcka:no option"),
    ],
)
def test_a_label_has_a_name_for_people(label: str, name: str) -> None:
    assert methods.name_of(label) == name


def finished(folder: Path, **validation: float) -> Path:
    """The three settings with one validation score each, FedAvg and a changed option."""
    write_cell(folder, "fedavg", 0, own(0.1, 0.1, 0.1))
    for label, key in ((LOW, "low"), (HIGH, "high"), (GROW, "grow"), (DEBIASED, "debiased")):
        write_cell(folder, label, 0, own(0.2, 0.2, 0.2), validation=validation.get(key))
    return folder


def test_headline_follows_held_out_scenes_and_no_changed_option_takes_part(tmp_path: Path) -> None:
    study = read_study(finished(write_study(tmp_path, seeds=[0]), low=0.1, high=0.2, grow=0.15, debiased=0.9))

    assert methods.headline(study, MODEL) == HIGH
    assert methods.shown(study, MODEL, HIGH) == "FedCKA, τ = 0.5 (headline)"
    assert methods.shown(study, MODEL, LOW) == "FedCKA, τ = 0.25"
    assert methods.federated(study, MODEL) == ["fedavg", HIGH]
    assert methods.settings(study, MODEL) == [LOW, HIGH, GROW]
    assert methods.changed(study, MODEL) == {HIGH: [DEBIASED]}


def test_without_a_score_there_is_no_headline_and_all_settings_are_shown(tmp_path: Path) -> None:
    study = read_study(finished(write_study(tmp_path, seeds=[0])))

    assert methods.headline(study, MODEL) is None
    assert methods.federated(study, MODEL) == ["fedavg", LOW, HIGH, GROW]


def test_what_the_study_file_ablates_is_not_in_the_main_table(tmp_path: Path) -> None:
    labels = ["fedrep:mode=joint", "fedrep:mode=alternate"]
    options = {"models": {MODEL: {"strategies": labels[:1]}}, "ablations": {"strategies": labels[1:]}}
    write_study(tmp_path, seeds=[0], strategies=labels, options=options)
    for label in labels:
        write_cell(tmp_path, label, 0, own(0.1, 0.1, 0.1))
    study = read_study(tmp_path)

    assert methods.planned(study, MODEL) == methods.federated(study, MODEL) == labels[:1]
    assert methods.changed(study, MODEL) == {labels[0]: labels[1:]}
