import math
from pathlib import Path

import pytest

from fed_core.study.report.detection.claims import judge_claims, not_asked
from fed_core.study.report.results import read_study
from fed_core.study.report.verdicts import NO_DATA, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Comparison, Part
from tests.core.study.report.detection.folder import HIGH, MODEL, by_client, line, own, write_cell, write_study


def parts(folder: Path) -> dict[int, Part]:
    return {part.claim: part for part in judge_claims(read_study(folder))}


def comparisons(part: Part) -> dict[str, Comparison]:
    return {c.statement: c for c in part.comparisons}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """FedCKA is best and lifts all three clients, FedAvg leaves E, FedMC none below and transfers better."""
    write_study(tmp_path, strategies=["local", "fedavg", "fedmc", HIGH], seeds=[0, 1])
    rounds = [line(1), line(2, ["1110", "1110", "1111"])]
    sent = [line(n, told={"upload_bytes": by_client(400, 300, 200)}) for n in (1, 2)]
    for seed in (0, 1):
        more = seed / 100
        write_cell(tmp_path, "local", seed, own(0.20, 0.20, 0.20 + more))
        write_cell(tmp_path, "fedavg", seed, own(0.25, 0.25, 0.15), [line(1), line(2)])
        write_cell(tmp_path, "fedmc", seed, own(0.25, 0.25, 0.25 + more, others=0.2), sent)
        write_cell(tmp_path, HIGH, seed, own(0.40, 0.40, 0.40 + more, others=0.15), rounds, validation=0.3)
    return tmp_path


def test_every_claim_has_a_verdict(folder: Path) -> None:
    found = parts(folder)

    assert {number: part.verdict(MODEL) for number, part in found.items()} == {
        1: REPRODUCED,
        2: REPRODUCED,
        3: NOT_REPRODUCED,  # FedMC leaves nobody below
        4: NOT_REPRODUCED,  # FedMC transfers better
        5: UNDECIDED,  # two seeds are one pair
        6: REPRODUCED,
        7: REPRODUCED,
    }


def test_best_mean_is_weighted_by_scenes(folder: Path) -> None:
    found = comparisons(parts(folder)[1])["FedCKA better than FedAvg: weighted mean NDS"]

    # 0.40 + 0 or 0.01 / 6, less (5 x 0.25 + 0.15) / 6 = 0.2333.
    assert found.difference.mean == pytest.approx(0.40 + 0.005 / 6 - 1.4 / 6)
    assert found.in_favour == 2


def test_every_client_is_compared_with_training_alone(folder: Path) -> None:
    found = comparisons(parts(folder)[2])

    assert list(found) == [f"FedCKA better than own-domain-only: {letter}" for letter in "ABE"]
    assert found["FedCKA better than own-domain-only: E"].difference.mean == pytest.approx(0.2)


def test_other_methods_are_judged_by_their_worst_client(folder: Path) -> None:
    found = comparisons(parts(folder)[3])

    fedavg, fedmc = (found[f"{name} leaves a client below own-domain-only"] for name in ("FedAvg", "FedMC"))
    assert fedavg.difference.mean == pytest.approx(0.055)  # 0.05 and 0.06
    assert fedmc.difference.mean == pytest.approx(-0.05)
    assert math.isnan(fedmc.ratio)


def test_transfer_is_judged_plain_and_weighted(folder: Path) -> None:
    found = comparisons(parts(folder)[4])

    assert found["FedCKA better than FedAvg on other domains: plain mean NDS"].difference.mean == pytest.approx(0.05)
    assert found["FedCKA better than FedMC on other domains: weighted mean NDS"].difference.mean == pytest.approx(-0.05)
    assert len(found) == 4


def test_same_layers_are_judged_where_any_are_personal(folder: Path) -> None:
    found = comparisons(parts(folder)[5])

    # One of four units, the same with both seeds: 1 less 0.25 / 1.75.
    assert list(found) == [f"personal units of two seeds alike beyond chance: {letter}" for letter in "AB"]
    first = found["personal units of two seeds alike beyond chance: A"]
    assert first.difference.mean == pytest.approx(1 - 1 / 7)


def test_uploads_are_shares_of_fedavgs(folder: Path) -> None:
    found = parts(folder)

    (close,) = found[6].comparisons
    # 2400 bytes with FedAvg; two clients keep 8 of 100 entries in round 2, all three send a byte of mask.
    ours = (1200 + 2 * (4 * 92 + 1) + 401) / 2400
    assert close.difference.mean == pytest.approx(ours - 0.9)
    (less,) = found[7].comparisons
    assert less.difference.mean == pytest.approx(ours - 1800 / 2400)


def test_missing_methods_are_no_data_and_unplanned_ones_not_asked(folder: Path) -> None:
    write_study(folder, strategies=["local", "fedavg", "feddyn", "fedmc", HIGH], seeds=[0, 1])

    found = parts(folder)

    assert comparisons(found[1])["FedCKA better than FedDyn: weighted mean NDS"].verdict == NO_DATA
    assert found[1].verdict(MODEL) == UNDECIDED
    assert not_asked(read_study(folder)) == "Not in this study: cmt_tiny: FedSelect."


def test_without_a_headline_nothing_is_claimed(tmp_path: Path) -> None:
    write_cell(write_study(tmp_path), "fedavg", 0, own(0.1, 0.1, 0.1))

    assert parts(tmp_path) == {}
