from pathlib import Path

import pytest

from fed_core.study.report.depth.claims import NOTE, judge_claims, not_asked
from fed_core.study.report.results import read_study
from fed_core.study.report.verdicts import (
    NO_DATA,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Comparison,
    comparison_table,
    verdict_table,
)
from tests.core.study.report.depth.folder import write_cell, write_seeds, write_study

HPE = ["fedavg", "fedprox", "feddyn", "scaffold", "pacfl", "fedclust", "hard", "fedepth", "centralised"]


def comparisons(folder: Path) -> dict[str, Comparison]:
    return {c.statement: c for part in judge_claims(read_study(folder)) for c in part.comparisons}


def test_figures_of_a_comparison(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=["fedavg", "centralised"])
    write_seeds(tmp_path, "fedavg", [0.30, 0.32, 0.34])
    write_seeds(tmp_path, "centralised", [0.20, 0.20, 0.20])

    found = comparisons(tmp_path)["centralised better than fedavg"]

    # 0.10, 0.12, 0.14.
    assert found.difference.text() == "0.120 ± 0.020"
    assert (found.in_favour, found.verdict) == (3, REPRODUCED)
    assert found.ratio == pytest.approx(0.96 / 0.60)


def test_hpe_is_asked_for_claims_1_and_3(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=HPE)
    for label in HPE:
        write_seeds(tmp_path, label, [0.3, 0.3])

    parts = judge_claims(read_study(tmp_path))

    assert {part.claim for part in parts} == {1, 3}
    assert [len(part.comparisons) for part in parts] == [4, 4, 2, 6, 6, 6, 6, 1]
    assert {part.verdict("adabins_s") for part in parts} == {UNDECIDED}


def test_fedclust_is_asked_of_adabins_only(tmp_path: Path) -> None:
    write_study(tmp_path, models=["adabins_s", "newcrfs_s"], strategies=["fedavg", "pacfl", "fedclust"])
    for model in ("adabins_s", "newcrfs_s"):
        for label, value in (("fedavg", 0.3), ("pacfl", 0.2), ("fedclust", 0.4)):
            write_seeds(tmp_path, label, [value, value + 0.01], model=model)

    (part,) = [p for p in judge_claims(read_study(tmp_path)) if "FedClust degrades" in p.text]

    assert part.models == ["adabins_s"]
    assert part.verdict("adabins_s") == REPRODUCED


def test_faster_and_steadier_are_judged_on_curves(tmp_path: Path) -> None:
    write_study(tmp_path)
    for seed in (0, 1, 2):
        write_cell(tmp_path, "fedavg", seed, 0.4, curve=(0.9, 0.8, 0.6, 0.4, 0.5, 0.4))
        write_cell(tmp_path, "fedepth", seed, 0.3, curve=(0.9, 0.3, 0.3, 0.3, 0.3, 0.31 + seed / 100))

    found = comparisons(tmp_path)

    assert found["fedepth fewer rounds to own best than fedavg"].difference.mean == 2.0  # round 4 against round 2
    assert found["fedepth fewer rounds to own best than fedavg"].verdict == REPRODUCED
    assert found["fedepth fewer rounds to FedAvg's last than fedavg"].difference.mean == 2.0
    steadier = [c for statement, c in found.items() if "SD of the last third" in statement]
    assert [c.verdict for c in steadier] == [REPRODUCED]


def test_bmr_is_asked_for_claim_2_across_networks(tmp_path: Path) -> None:
    models = ["adabins_s", "newcrfs_s"]
    write_study(tmp_path, study="depth-bmr", models=models, strategies=["fedavg", "pacfl", "centralised"])
    for model, values in (("adabins_s", (0.6, 0.2, 0.3)), ("newcrfs_s", (0.5, 0.3, 0.1))):
        for label, value in zip(("fedavg", "pacfl", "centralised"), values, strict=True):
            write_seeds(tmp_path, label, [value, value + 0.01, value], model=model)

    parts = judge_claims(read_study(tmp_path))

    assert {part.claim for part in parts} == {2}
    struggles = parts[-1]
    assert struggles.models == ["adabins_s / newcrfs_s"]
    assert struggles.verdict("adabins_s / newcrfs_s") == REPRODUCED
    assert struggles.comparisons[0].ratio == pytest.approx(0.91 / 0.31)


@pytest.mark.parametrize(("hard_tau", "verdict"), [(0.5, REPRODUCED), (0.6, UNDECIDED)])
def test_soft_against_hard_needs_equal_tau(tmp_path: Path, hard_tau: float, verdict: str) -> None:
    write_study(tmp_path, strategies=["hard", "fedepth"])
    write_seeds(tmp_path, "hard", [0.30, 0.31, 0.32], tau=hard_tau)
    write_seeds(tmp_path, "fedepth", [0.20, 0.20, 0.20], tau=0.5)

    (part,) = [p for p in judge_claims(read_study(tmp_path)) if p.claim == 3]

    assert part.verdict("adabins_s") == verdict
    assert ("τ differs, seed 0, 1, 2" in part.comparisons[0].statement) == (hard_tau != 0.5)


def test_what_is_not_finished_is_no_data_and_what_is_not_planned_is_not_asked(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=["fedavg", "scaffold", "fedepth"])
    write_seeds(tmp_path, "fedavg", [0.30, 0.31, 0.32])
    write_seeds(tmp_path, "fedepth", [0.20, 0.21, 0.22])

    found = comparisons(tmp_path)

    assert found["fedepth better than fedavg"].verdict == REPRODUCED
    assert found["fedepth better than scaffold"].verdict == NO_DATA
    assert "fedepth better than pacfl" not in found
    best = next(p for p in judge_claims(read_study(tmp_path)) if "best federated" in p.text)
    assert best.verdict("adabins_s") == UNDECIDED


def test_tables_of_the_claims(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=["fedavg", "pacfl"])
    write_seeds(tmp_path, "fedavg", [0.30, 0.31, 0.32])
    write_seeds(tmp_path, "pacfl", [0.40, 0.42, 0.44])
    parts = judge_claims(read_study(tmp_path))

    verdict = [entry.text for entry in verdict_table(parts).rows[0]]
    comparison = [entry.text for entry in comparison_table(parts, NOTE).rows[0]]

    assert verdict[1:] == ["adabins_s", NOT_REPRODUCED, "0", "0", "1", "0"]
    assert comparison == [
        "1. pacfl better than fedavg",
        "adabins_s",
        "-0.1100 ± 0.0100",
        "0.74",
        "0 of 3",
        NOT_REPRODUCED,
    ]


def test_strategies_that_the_study_lacks_are_named(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=HPE, models=["adabins_s"])
    assert not_asked(read_study(tmp_path)) == ""

    write_study(tmp_path, study="depth-bmr", strategies=["fedavg", "pacfl", "centralised", "feddyn"])
    expected = "Not in this study, so nothing is said about them: adabins_s: fedprox, scaffold."
    study = read_study(tmp_path)
    assert not_asked(study) == expected
    assert verdict_table(judge_claims(study), expected).note.endswith(expected)
