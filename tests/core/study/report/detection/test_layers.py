from pathlib import Path

import numpy as np
import pytest

from fed_core.study.report.detection import layers, traffic
from fed_core.study.report.results import Cell, read_study
from tests.core.study.report.detection.folder import (
    CLIENTS,
    ENTRIES,
    HIGH,
    MODEL,
    UNITS,
    by_client,
    kept,
    line,
    own,
    write_cell,
    write_study,
)


def cell_of(folder: Path, label: str = HIGH) -> Cell:
    (found,) = read_study(folder).of(MODEL, label)
    return found


def test_history_holds_scores_and_what_stays(tmp_path: Path) -> None:
    rounds = [line(1), line(2, "1110", (0.9, 0.8, 0.7, 0.1)), line(3, "1011", (0.9, 0.2, 0.7))]
    write_cell(write_study(tmp_path), HIGH, 0, own(0.1, 0.1, 0.1), rounds)

    found = layers.history(cell_of(tmp_path), CLIENTS[0])

    assert found.rounds == [1, 2, 3]
    np.testing.assert_array_equal(found.masked, [False, True, True])
    np.testing.assert_array_equal(found.personal.T, [[0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]])
    assert np.isnan(found.scores[:, 0]).all() and np.isnan(found.scores[3, 2])
    np.testing.assert_allclose(found.scores[:3, 2], [0.9, 0.2, 0.7])


def test_a_layer_of_several_units_stays_where_all_of_them_do(tmp_path: Path) -> None:
    pairs = [{"name": "a", "units": [0, 1]}, {"name": "b", "units": [1]}, {"name": "c", "units": []}]
    rounds = [line(1, "0111"), line(2, "0011")]
    write_cell(write_study(tmp_path), HIGH, 0, own(0.1, 0.1, 0.1), rounds, layers=pairs)

    found = layers.history(cell_of(tmp_path), CLIENTS[0])

    np.testing.assert_array_equal(found.personal, [[0, 1], [0, 1], [0, 0]])


def test_last_masks_are_those_of_the_last_round_that_has_any(tmp_path: Path) -> None:
    rounds = [line(1, "1111"), line(2, ["0111", "1111", "1110"]), line(3)]
    write_cell(write_study(tmp_path), HIGH, 0, own(0.1, 0.1, 0.1), rounds)

    masks = layers.last_masks(cell_of(tmp_path))

    assert {client: list(mask.nonzero()[0]) for client, mask in masks.items()} == by_client([0], [], [3])
    assert len(layers.all_masks(cell_of(tmp_path))) == 6


def bits(text: str) -> layers.Bits:
    return np.array([bit == "1" for bit in text], np.bool_)


def test_agreement_by_hand() -> None:
    """Two of six units each, one of them the same: 1 / 3; chance 4/6 in common: (2/3) / (4 - 2/3) = 0.2."""
    ((alike, chance),) = layers.agreement([bits("110000"), bits("011000")])

    assert (alike, chance) == (pytest.approx(1 / 3), pytest.approx(0.2))


def test_pairs_without_a_personal_unit_and_other_networks_are_left_out() -> None:
    assert layers.agreement([bits("0000"), bits("0000")]) == []
    assert layers.agreement([bits("0100"), bits("010")]) == []
    assert layers.agreement([bits("0100"), bits("0000")]) == [(0.0, 0.0)]
    assert len(layers.agreement([bits("01"), bits("01"), bits("10")])) == 3


def test_parts_and_kinds() -> None:
    assert [layers.kind_of(m) for m in ("Conv2d", "BatchNorm2d", "QueryAttention", "Linear", "Embedding", "")] == [
        "convolution",
        "norm",
        "attention",
        "linear",
        "other",
        "",
    ]
    assert layers.parts_of([name for name, _, _ in UNITS]) == [
        ("img_backbone", 0, 2),
        ("pts_bbox_head.transformer", 2, 3),
        ("pts_bbox_head.task_heads", 3, 4),
    ]


def test_upload_by_the_papers_accounting(tmp_path: Path) -> None:
    """Three clients, 100 entries: whole in round 1; then without unit 2 (24 entries) and with one byte of mask."""
    rounds = [line(1), line(2, "1101")]
    write_cell(write_study(tmp_path), HIGH, 0, own(0.1, 0.1, 0.1), rounds)

    assert traffic.accounted(cell_of(tmp_path)) == 3 * 4 * ENTRIES + 3 * (4 * (ENTRIES - 24) + 1)
    assert traffic.measured(cell_of(tmp_path), "upload") == 4_000_000


def test_fedavg_of_the_paper_sends_26_gigabytes(tmp_path: Path) -> None:
    """Fedcka spec 11.10: 32.6 M entries, 40 rounds, 5 clients."""
    rounds = ({"losses": dict.fromkeys("ABCDE", 1.0)},) * 40
    total = traffic.accounted(Cell("cmt", "fedavg", 0, {"entries": 32_625_000}, rounds, tmp_path))

    assert total == 26_100_000_000 and abs(total / 2**20 - 24_893) < 3


def test_upload_of_element_masks_is_the_robots_own_count(tmp_path: Path) -> None:
    counts = (by_client(400, 400, 400), by_client(1, 2, 3))
    rounds = [line(turn, told={"upload_bytes": found}) for turn, found in enumerate(counts, 1)]
    write_cell(write_study(tmp_path), "fedmc", 0, own(0.1, 0.1, 0.1), rounds)

    assert traffic.accounted(cell_of(tmp_path, "fedmc")) == 1206


def test_upload_without_private_layers_and_of_references(tmp_path: Path) -> None:
    write_study(tmp_path)
    private = dict.fromkeys(CLIENTS, kept(30))
    write_cell(tmp_path, "fedbn", 0, own(0.1, 0.1, 0.1), [line(1), line(2)], personal=private)
    write_cell(tmp_path, "local", 0, own(0.1, 0.1, 0.1), [line(1)])
    write_cell(tmp_path, "fedavg", 0, own(0.1, 0.1, 0.1))

    assert traffic.accounted(cell_of(tmp_path, "fedbn")) == 2 * 3 * 4 * 70
    assert traffic.accounted(cell_of(tmp_path, "local")) is None
    assert traffic.measured(cell_of(tmp_path, "local"), "download") is None
    assert traffic.accounted(cell_of(tmp_path, "fedavg")) is None  # no round is known
