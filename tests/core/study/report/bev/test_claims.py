from pathlib import Path

import pytest

from fed_core.strategies.feddwa import FedDWA
from fed_core.study.report.bev.claims import CLAIMS_NOTE, CONTROLS_NOTE, NOTE, judge_claims, judge_controls, not_asked
from fed_core.study.report.results import read_study
from fed_core.study.report.verdicts import (
    NO_DATA,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Comparison,
    Part,
    comparison_table,
)
from tests.core.study.report.bev.folder import (
    FEDBEVT_DALOSS,
    FEDDWA_DALOSS,
    MODEL,
    write_cell,
    write_seeds,
    write_study,
)

#: Bus, truck, car A, car B with FedBEVT, for three seeds.
FEDBEVT = [[0.10, 0.10, 0.20, 0.20], [0.11, 0.10, 0.20, 0.20], [0.12, 0.10, 0.20, 0.20]]


def moved(rows: list[list[float]], *by: float) -> list[list[float]]:
    """The same runs, each client's IoU moved."""
    return [[iou + more for iou, more in zip(row, by, strict=True)] for row in rows]


def parts(folder: Path) -> dict[int, Part]:
    study = read_study(folder)
    return {part.claim: part for part in (*judge_claims(study), *judge_controls(study))}


def comparisons(part: Part) -> dict[str, Comparison]:
    return {c.statement: c for c in part.comparisons}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """FedDWA adds 2, 8, 2 and 2 points to FedBEVT; DALoss adds 1 to FedDWA, and takes 1 of FedBEVT's bus."""
    write_study(tmp_path)
    feddwa = moved(FEDBEVT, 0.02, 0.08, 0.02, 0.02)
    write_seeds(tmp_path, "fedbevt", FEDBEVT)
    write_seeds(tmp_path, FEDBEVT_DALOSS, moved(FEDBEVT, -0.01, 0.01, 0.01, 0.01))
    write_seeds(tmp_path, "feddwa", feddwa)
    write_seeds(tmp_path, FEDDWA_DALOSS, moved(feddwa, 0.01, 0.01, 0.01, 0.01))
    return tmp_path


def test_claims_are_judged_for_every_client_and_their_mean(folder: Path) -> None:
    found = parts(folder)

    assert {number: part.verdict(MODEL) for number, part in found.items()} == {
        1: REPRODUCED,
        2: REPRODUCED,
        3: NOT_REPRODUCED,  # the bus loses
        4: REPRODUCED,
        5: REPRODUCED,
    }
    first = comparisons(found[1])
    assert list(first) == [
        f"FedDWA better than FedBEVT: {client}" for client in ("bus", "truck", "car_a", "car_b", "mean")
    ]
    # In points, and 18 % / 10 %; the mean is (2 + 8 + 2 + 2) / 4.
    assert first["FedDWA better than FedBEVT: truck"].difference.mean == pytest.approx(8.0)
    assert first["FedDWA better than FedBEVT: truck"].ratio == pytest.approx(1.8)
    assert first["FedDWA better than FedBEVT: mean"].difference.mean == pytest.approx(3.5)
    assert comparisons(found[3])["FedBEVT + DALoss better than FedBEVT: bus"].verdict == NOT_REPRODUCED


def test_the_best_is_compared_with_every_other_main_method(folder: Path) -> None:
    statements = [c.statement for c in parts(folder)[4].comparisons]

    assert len(statements) == 3 * 5
    assert {s.split(": ")[0].split("better than ")[1] for s in statements} == {"FedBEVT", "FedBEVT + DALoss", "FedDWA"}


def test_gains_are_ratios_to_fedbevt(folder: Path) -> None:
    found = comparisons(parts(folder)[5])

    # Truck 18 / 10, car A 22 / 20: 1.8 - 1.1.
    assert found["gain of FedDWA on truck above that on car_a"].difference.mean == pytest.approx(0.7)
    assert found["gain of FedDWA on truck above that on bus"].in_favour == 3
    assert len(found) == 6


def test_a_gain_over_nothing_is_no_figure(folder: Path) -> None:
    write_cell(folder, "fedbevt", 1, [0.11, 0.0, 0.20, 0.20])

    found = comparisons(parts(folder)[5])

    assert found["gain of FedDWA on truck above that on bus"].difference.count == 2


def test_a_fleet_without_a_truck_is_not_asked_for_its_gain(folder: Path) -> None:
    write_study(folder, clients=[{"name": "bus", "platform": "bus"}])

    assert set(parts(folder)) == {1, 2, 3, 4}


def test_controls_tell_whether_the_divergence_does_anything(tmp_path: Path) -> None:
    uniform, inverse = "feddwa:dwa_direction=uniform", "feddwa:dwa_direction=inverse"
    labels = ["fedprox", "scaffold", "feddwa", uniform, inverse, "daloss:inner=fedavg", FEDBEVT_DALOSS]
    write_study(tmp_path, strategies=labels)
    for label, by in zip(labels, (0.0, 0.0, 0.01, 0.02, -0.02, 0.0, 0.03), strict=True):
        write_seeds(tmp_path, label, moved(FEDBEVT, by, by, by, by))

    found = parts(tmp_path)

    assert {number: part.verdict(MODEL) for number, part in found.items() if number > 5} == {
        6: REPRODUCED,
        7: NOT_REPRODUCED,
        8: REPRODUCED,
        9: UNDECIDED,  # the same figures
        10: REPRODUCED,
    }
    assert found[6].comparisons[0].statement == "FedDWA better than SCAFFOLD: bus"


def test_notes_name_the_defaults_by_which_feddwa_is_more_than_its_weights() -> None:
    assert (FedDWA().opt_state, FedDWA().agg_weight) == ("persist", "uniform")
    for note in (CLAIMS_NOTE, CONTROLS_NOTE):
        assert "the optimiser's moments" in note and "counts robots equally" in note


def test_one_seed_and_missing_runs_decide_nothing(tmp_path: Path) -> None:
    write_study(tmp_path, seeds=[0])
    write_cell(tmp_path, "fedbevt", 0, FEDBEVT[0])
    write_cell(tmp_path, "feddwa", 0, moved(FEDBEVT, 0.02, 0.02, 0.02, 0.02)[0])

    found = parts(tmp_path)

    assert found[1].verdict(MODEL) == UNDECIDED
    assert found[2].verdict(MODEL) == NO_DATA


def test_a_null_figure_is_a_seed_less(folder: Path) -> None:
    write_cell(folder, "feddwa", 2, [None, 0.18, 0.22, 0.22])

    found = comparisons(parts(folder)[1])

    assert found["FedDWA better than FedBEVT: bus"].difference.count == 2
    assert found["FedDWA better than FedBEVT: truck"].difference.count == 3


def test_differences_are_shown_in_points(folder: Path) -> None:
    table = comparison_table([parts(folder)[1]], NOTE, digits=2)

    assert [entry.text for entry in table.rows[0]] == [
        "1. FedDWA better than FedBEVT: bus",
        MODEL,
        "2.00 ± 0.00",
        "1.18",  # (12 + 13 + 14) / (10 + 11 + 12)
        "3 of 3",
        REPRODUCED,
    ]
    assert "IoU in points" in table.note


def test_methods_that_the_study_lacks_are_named(folder: Path) -> None:
    expected = (
        "Not in this study, so nothing is said about them: sinbevt_s: FedProx; SCAFFOLD; FedDWA, uniform; "
        "FedDWA, inverse."
    )

    assert not_asked(read_study(folder)) == expected
