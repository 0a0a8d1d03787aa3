import json
from pathlib import Path

from fed_core.study.report.detection import layer_tables, notes, settings, tables
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.results import read_study
from tests.core.study.report.detection.folder import (
    CLIENTS,
    GROW,
    HIGH,
    LOW,
    MODEL,
    by_client,
    kept,
    line,
    own,
    write_cell,
    write_study,
)


def column(table: Table | None, heading: str) -> dict[str, Entry]:
    """One column by the name of the row."""
    assert table is not None
    return {row[0].text: row[table.header.index(heading)] for row in table.rows}


def texts(table: Table | None, heading: str) -> dict[str, str]:
    return {name: entry.text for name, entry in column(table, heading).items()}


def test_main_table_is_by_domain_with_both_means(tmp_path: Path) -> None:
    write_study(tmp_path)
    for seed, more in ((0, 0.0), (1, 0.02)):
        write_cell(tmp_path, "local", seed, own(0.30, 0.20, 0.10))
        write_cell(tmp_path, "fedavg", seed, own(0.20 + more, 0.20, 0.20))
        write_cell(tmp_path, HIGH, seed, own(0.40 + more, 0.30, 0.05), validation=0.2)

    table = tables.scores(read_study(tmp_path), MODEL, "nds")

    assert table.header[:5] == ("Method", "Seeds", "A", "B", "E")
    name = "FedCKA, τ = 0.5 (headline)"
    assert column(table, "A") == {
        "Own domain only": Entry("0.300 ± 0.000"),
        "FedAvg": Entry("0.210 ± 0.014"),
        name: Entry("0.410 ± 0.014", strong=True),
    }
    assert column(table, "E")["FedAvg"].strong
    # Scenes 3, 2, 1: (3 x 0.40 + 2 x 0.30 + 0.05) / 6 = 0.3083, + 0.01 with the second seed.
    assert texts(table, "Weighted mean")[name] == "0.313 ± 0.007"
    assert texts(table, "Plain mean")[name] == "0.253 ± 0.005"
    assert texts(table, "Above own-domain-only (of 3)") == {"Own domain only": "–", "FedAvg": "1.0", name: "2.0"}
    assert texts(tables.scores(read_study(tmp_path), MODEL, "map"), "B")[name] == "0.150 ± 0.000"
    assert texts(tables.scores(read_study(tmp_path), MODEL, "cap"), "Plain mean")["FedAvg"] == "0.407 ± 0.009"


def test_a_domain_without_cars_leaves_a_gap(tmp_path: Path) -> None:
    cell = write_cell(write_study(tmp_path), "fedavg", 0, own(0.2, 0.2, 0.2))
    tree = json.loads((cell / "result.json").read_text())
    tree["matrix"]["cap"] = {CLIENTS[0]: {CLIENTS[0]: 0.5}, CLIENTS[1]: {CLIENTS[1]: None}}
    (cell / "result.json").write_text(json.dumps(tree))

    table = tables.scores(read_study(tmp_path), MODEL, "cap")

    assert [entry.text for entry in table.rows[0][2:]] == ["0.500", "–", "–", "0.400", "0.500"]


def test_transfer_is_off_the_diagonal(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedavg", 0, [[0.3, 0.1, 0.4], [0.2, 0.3, 0.4], [0.2, 0.1, 0.3]])

    table = tables.transfer(read_study(tmp_path), MODEL)

    assert texts(table, "Own, plain") == {"FedAvg": "0.300"}
    assert texts(table, "Others, plain") == {"FedAvg": "0.233"}  # 1.4 / 6
    # 0.1 x 2 + 0.4 x 1 + 0.2 x 3 + 0.4 x 1 + 0.2 x 3 + 0.1 x 2 = 2.4, weights 2 + 1 + 3 + 1 + 3 + 2.
    assert texts(table, "Others, weighted") == {"FedAvg": "0.200"}
    assert texts(table, "Own, weighted, before the last merge") == {"FedAvg": "0.290"}


def test_methods_that_detect_nothing_are_named(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "local", 0, own(0.01, 0.01, 0.01))
    write_cell(tmp_path, "fedavg", 0, own(0.3, 0.3, 0.3))

    assert tables.hardly_sentence(read_study(tmp_path), MODEL) == (
        "Mean mAP below 0.01, so next to nothing is detected: Own domain only."
    )


def test_traffic_is_measured_and_accounted(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "local", 0, own(0.1, 0.1, 0.1), [line(1)])
    write_cell(tmp_path, "fedavg", 0, own(0.1, 0.1, 0.1), [line(1), line(2)], entries=100_000)
    private = dict.fromkeys(CLIENTS, kept(25_000) | {"share": 0.25})
    write_cell(tmp_path, "fedbn", 0, own(0.1, 0.1, 0.1), [line(1), line(2)], entries=100_000, personal=private)

    table = tables.costs(read_study(tmp_path), MODEL)

    rows = {row[0].text: [entry.text for entry in row[1:]] for row in table.rows}
    assert rows["FedAvg"] == ["0.0", "4.00", "2.40", "100.0", "8.00", "1.0", "0.5"]
    assert rows["FedBN"] == ["25.0", "4.00", "1.80", "75.0", "8.00", "1.0", "0.5"]
    assert rows["Own domain only"] == ["–", "–", "–", "–", "–", "1.0", "0.5"]


def test_domains_tell_the_classes_that_are_not_there(tmp_path: Path) -> None:
    write_study(tmp_path)
    for seed, classes in ((0, ["car", "bus"]), (1, ["car"])):
        found = {name: {"scenes": 2, "frames": 16, "classes": classes, "named": ["car", "bus"]} for name in CLIENTS}
        write_cell(tmp_path, "fedavg", seed, own(0.1, 0.1, 0.1), domains=found)

    table = tables.domains(read_study(tmp_path))

    assert texts(table, "Name") == {"A": CLIENTS[0], "B": CLIENTS[1], "E": CLIENTS[2]}
    assert texts(table, "Classes not there")["A"].startswith("truck, construction_vehicle, bus (seed 1), trailer")
    assert texts(table, "Only out of range")["A"] == "bus (seed 1)"
    assert texts(table, "Training frames")["A"] == "40"


def chosen_folder(folder: Path) -> Path:
    """Three settings, of which the held-out scenes choose the one that is worst on the test."""
    write_study(folder)
    for seed in (0, 1):
        rounds = [line(1), line(2, ["1010", "1110", "1110"], (0.9, 0.1, 0.7, 0.1), told=told(seed))]
        mine = by_client(kept(16, 2), kept(8, 1), kept(8, 1))
        write_cell(folder, HIGH, seed, own(0.1, 0.1, 0.1), rounds, validation=0.30, personal=mine)
        write_cell(folder, LOW, seed, own(0.3, 0.3, 0.3), [line(1), line(2, "1111")], validation=0.20 + seed)
    write_cell(folder, GROW, 0, own(0.3, 0.3, 0.3), validation=0.1)  # one seed less than the others
    return folder


def told(seed: int) -> dict[str, dict[str, float]]:
    counts = {f"below_tau/{tau:g}": by_client(2, 1, 0) for tau in (0.05, 0.25, 0.5, 0.75)}
    far = {f"distance_above_tau/{tau:g}": by_client(3, 3, 3) for tau in (0.05, 0.25, 0.5, 0.75)}
    own = {"probe_seconds": by_client(1.0, 2.0, 3.0 + 3 * seed), "probe_extra_bytes": by_client(1e6, 3e6, 2e6)}
    return {**own, **counts, **far}


def test_validation_scores_choose_and_are_listed(tmp_path: Path) -> None:
    table = settings.choice_table(read_study(chosen_folder(tmp_path)), MODEL)

    assert column(table, "Validation NDS") == {
        "FedCKA, τ = 0.25": Entry("0.2000"),
        "FedCKA, τ = 0.5 (headline)": Entry("0.3000", strong=True),
        "FedCKA, ρ = 0.1 from round 2": Entry("0.1000"),
    }
    assert "on what every setting has run: seed 0." in table.note
    assert texts(table, "NDS, weighted")["FedCKA, τ = 0.25"] == "0.300 ± 0.000"
    assert "no test figure has a say" in table.note


def test_settings_tell_what_they_keep_and_cost(tmp_path: Path) -> None:
    table = settings.insides(read_study(chosen_folder(tmp_path)), MODEL)

    name = "FedCKA, τ = 0.5 (headline)"
    assert texts(table, "Personal entries [%]")[name] == "10.7"  # (16 + 8 + 8) / 3
    assert texts(table, "Personal units (of 4)")[name] == "1.3"
    assert texts(table, "Nobody shares")[name] == "1.0"  # the last unit
    assert texts(table, "CKA [s]")[name] == "2.50 ± 0.71"  # 2 and 3 seconds
    assert texts(table, "CKA of training [%]")[name] == "12.5 ± 3.5"  # 6 and 9 of 60 seconds
    assert texts(table, "CKA memory [MB]")[name] == "3.0"  # of the robot that takes most
    assert texts(table, "CKA [s]")["FedCKA, ρ = 0.1 from round 2"] == "–"


def test_both_readings_of_tau(tmp_path: Path) -> None:
    table = settings.readings(read_study(chosen_folder(tmp_path)), MODEL)

    assert table is not None and "of 4 layers" in table.caption
    assert texts(table, "Similarity: CKA < τ") == dict.fromkeys(("0.05", "0.25", "0.5", "0.75"), "1.0")
    assert texts(table, "Distance: 1 − CKA > τ")["0.5"] == "3.0"


def test_other_options_stand_below_what_they_change(tmp_path: Path) -> None:
    chosen_folder(tmp_path)
    write_cell(tmp_path, f"{HIGH}+estimator=debiased", 0, own(0.12, 0.12, 0.12))

    table = settings.option_table(read_study(tmp_path), MODEL)

    assert texts(table, "Mean − base") == {"FedCKA, τ = 0.5": "–", "FedCKA, τ = 0.5, debiased": "+0.020"}
    assert texts(table, "Seeds better")["FedCKA, τ = 0.5, debiased"] == "1 of 1"
    assert settings.option_table(read_study(write_study(tmp_path / "none")), MODEL) is None


def test_layers_that_stay_by_part_and_kind(tmp_path: Path) -> None:
    table = layer_tables.grouped(read_study(chosen_folder(tmp_path)), MODEL)

    assert texts(table, "Personal, last round [%]") == {
        "img_backbone": "17",  # one of the two units, of one of three clients
        "pts_bbox_head.transformer": "0",
        "pts_bbox_head.task_heads": "100",
        "kind: convolution": "0",
        "kind: norm": "33",
        "kind: attention": "0",
        "kind: linear": "100",
    }
    assert texts(table, "Of all entries [%]")["img_backbone"] == "68.0"
    assert texts(table, "CKA")["img_backbone"] == "0.50"
    assert texts(table, "CKA of chance")["img_backbone"] == "0.20"


def test_single_layers_in_the_order_of_how_often(tmp_path: Path) -> None:
    table = layer_tables.single(read_study(chosen_folder(tmp_path)), MODEL)

    assert texts(table, "Last round [%]") == {"4. pts_bbox_head.task_heads.0": "100", "2. img_backbone.bn1": "33"}


def test_masks_of_two_seeds_are_compared_with_chance(tmp_path: Path) -> None:
    write_study(tmp_path)
    for seed, first in enumerate(("0111", "0110")):
        rounds = [line(1, [first, "1111", "1110"])]
        write_cell(tmp_path, HIGH, seed, own(0.1, 0.1, 0.1), rounds, validation=0.3)

    table = layer_tables.stability(read_study(tmp_path), MODEL)

    assert texts(table, "Alike (Jaccard)") == {"A": "0.50", "B": "–", "E": "1.00"}
    # One and two of four units: 0.5 in common, 0.5 / 2.5; one each: 0.25 / 1.75.
    assert texts(table, "By chance") == {"A": "0.20", "B": "–", "E": "0.14"}


def test_rendered_data_and_the_size_are_told_loudly(tmp_path: Path) -> None:
    write_cell(write_study(tmp_path), "fedavg", 0, own(0.1, 0.1, 0.1))

    text = notes.size_sentence(read_study(tmp_path), MODEL)

    assert text.startswith(
        "SYNTHETIC DATA, TINY NETWORK. cmt_tiny has 0.3 M parameters and is trained for 3 rounds on 120 frames of 3 "
    )
    write_study(tmp_path, synthetic=False)
    assert notes.size_sentence(read_study(tmp_path), MODEL).startswith("cmt_tiny has 0.3 M parameters")
