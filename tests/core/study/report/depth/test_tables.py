import json
from pathlib import Path

from fed_core.study.report.depth import tables
from fed_core.study.report.depth.ablations import ablations
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.results import read_study
from tests.core.study.report.depth.folder import TESTS, metrics, sequence, write_cell, write_seeds, write_study

MODEL = "adabins_s"


def column(table: Table, heading: str) -> dict[str, Entry]:
    """One column by the name of the row."""
    return {row[0].text: row[table.header.index(heading)] for row in table.rows}


def texts(table: Table, heading: str) -> dict[str, str]:
    return {name: entry.text for name, entry in column(table, heading).items()}


def test_main_table_gives_mean_and_spread_and_marks_the_best(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "fedavg", [0.30, 0.32, 0.34])
    write_seeds(tmp_path, "fedepth", [0.20, 0.21, 0.22])

    table = tables.accuracy(read_study(tmp_path), MODEL)

    assert column(table, "AbsRel ↓") == {
        "fedavg": Entry("0.320 ± 0.020"),
        "fedepth": Entry("0.210 ± 0.010", strong=True),
    }
    assert column(table, "δ1 ↑") == {"fedavg": Entry("0.680 ± 0.020"), "fedepth": Entry("0.790 ± 0.010", strong=True)}
    assert texts(table, "Seeds") == {"fedavg": "3", "fedepth": "3"}


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedavg", 0, 0.3)

    table = tables.accuracy(read_study(tmp_path), MODEL)

    assert texts(table, "AbsRel ↓") == {"fedavg": "0.300"}
    assert texts(table, "Seeds") == {"fedavg": "1"}


def test_equal_figures_are_both_best(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedavg", 0, 0.30001)
    write_cell(tmp_path, "fedepth", 0, 0.30002)

    table = tables.accuracy(read_study(tmp_path), MODEL)

    assert all(entry.strong for entry in column(table, "AbsRel ↓").values())


def test_references_are_set_apart_and_never_marked(tmp_path: Path) -> None:
    write_study(tmp_path)
    for label, value in (("centralised", 0.1), ("fedavg", 0.3), ("fedepth", 0.2), ("fedepth:link=min", 0.15)):
        write_cell(tmp_path, label, 0, value)
    study = read_study(tmp_path)

    assert column(tables.accuracy(study, MODEL), "AbsRel ↓") == {
        "fedavg": Entry("0.300"),
        "fedepth": Entry("0.200", strong=True),
    }
    assert column(tables.reference_accuracy(study, MODEL), "AbsRel ↓") == {"centralised": Entry("0.100")}


def test_all_frames_is_the_mean_over_sequences(tmp_path: Path) -> None:
    write_study(tmp_path)
    rows = [sequence(name, 0.3, metrics_all=metrics(value)) for name, value in zip(TESTS, (0.2, 0.5), strict=True)]
    write_cell(tmp_path, "fedavg", 0, 0.3, sequences=rows)

    assert texts(tables.accuracy(read_study(tmp_path), MODEL), "AbsRel, all frames") == {"fedavg": "0.350"}


def test_traffic_is_per_robot_and_round(tmp_path: Path) -> None:
    write_study(tmp_path)
    # Two robots, three rounds: 60 MB are 10 MB each time. Descriptors: 8 kB from two robots, once.
    costs = {"upload_bytes": 60e6, "download_bytes": 30e6, "descriptor_bytes": 8000, "seconds": {"total": 120.0}}
    for seed, clusters in enumerate((2, 4)):
        write_cell(tmp_path, "fedepth", seed, 0.3, tau=0.5, num_clusters=clusters, fallback_rate=0.25, **costs)

    table = tables.costs(read_study(tmp_path), MODEL)

    assert texts(table, "Up [MB]") == {"fedepth": "10.00"}
    assert texts(table, "Down [MB]") == {"fedepth": "5.00"}
    assert texts(table, "Descriptor [kB]") == {"fedepth": "4.0"}
    assert texts(table, "Time [min]") == {"fedepth": "2.0"}
    assert texts(table, "Clusters K") == {"fedepth": "3.0 ± 1.4"}
    assert texts(table, "Fallback rate") == {"fedepth": "0.25"}
    assert texts(table, "Noise floor") == {"fedepth": "–"}


def test_references_have_no_traffic(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "centralised", 0, 0.3, upload_bytes=5e6)

    assert texts(tables.costs(read_study(tmp_path), MODEL), "Up [MB]") == {"centralised": "–"}


def test_inside_of_clusters_is_told_for_strategies_that_log_it(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedavg", 0, 0.3)
    cell = write_cell(tmp_path, "fedepth", 0, 0.3, within_cluster_max=1.5)
    rows = ((1, 4.0, None), (2, 3.0, 0.5), (3, None, None))
    lines = (
        json.dumps({"round": turn, "model_distance_mean": apart, "second_eigenvalue": value})
        for turn, apart, value in rows
    )
    (cell / "rounds.jsonl").write_text("\n".join(lines))

    table = tables.clustering(read_study(tmp_path), MODEL)

    assert [[entry.text for entry in row] for row in table.rows] == [
        ["fedepth", "1.500", "–", "0.500", "4.000", "3.000"]
    ]


def test_environments_and_the_near_cap(tmp_path: Path) -> None:
    write_study(tmp_path)
    for label, value in (("fedavg", 0.30), ("fedepth", 0.25)):
        near = sequence(TESTS[1], value, metrics_near=metrics(value / 2), near_cap_m=10.0)
        write_cell(tmp_path, label, 0, value, sequences=[sequence(TESTS[0], value), near])

    table = tables.by_environment(read_study(tmp_path), MODEL)

    assert texts(table, "fedavg") == {
        "uav/indoor": "0.200",
        "ugv/forest": "0.400",
        "uav/indoor, cap 10 m": "0.150",
    }
    assert all(entry.strong for entry in column(table, "fedepth").values())


def test_convergence_figures(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedavg", 0, 0.40, curve=(0.90, 0.60, 0.40))
    write_cell(tmp_path, "fedepth", 0, 0.21, curve=(0.39, 0.20, 0.21))
    write_cell(tmp_path, "pacfl", 0, 0.50, curve=(0.52, 0.51, 0.50))

    table = tables.convergence(read_study(tmp_path), MODEL)

    assert texts(table, "Rounds to own best") == {"fedavg": "3.0", "fedepth": "2.0", "pacfl": "1.0"}
    # FedAvg ends at 0.40; PACFL never gets there, which counts as round 4.
    assert texts(table, "Rounds to FedAvg's last") == {"fedavg": "3.0", "fedepth": "1.0", "pacfl": "4.0"}
    # Last two rounds: 0.2, 0.01 and 0.01 apart, over sqrt(2).
    assert texts(table, "SD, last third") == {"fedavg": "0.1414", "fedepth": "0.0071", "pacfl": "0.0071"}
    assert texts(table, "AbsRel, last round") == {"fedavg": "0.400", "fedepth": "0.210", "pacfl": "0.500"}


def test_ablations_are_paired_by_seed(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "fedepth", [0.20, 0.22, 0.27])
    write_seeds(tmp_path, "fedepth:link=min", [0.21, 0.21])
    write_cell(tmp_path, "fedepth:bn=moments", 1, 0.25)

    table = ablations(read_study(tmp_path), MODEL)

    assert table is not None
    # +0.01 and -0.01; the third seed has no partner.
    assert texts(table, "AbsRel − default") == {
        "fedepth": "–",
        "fedepth:bn=moments": "+0.030",
        "fedepth:link=min": "0.000 ± 0.014",
    }
    assert texts(table, "Seeds better")["fedepth:link=min"] == "1 of 2"


def test_variants_compare_with_the_same_trained_models(tmp_path: Path) -> None:
    write_study(tmp_path)
    for seed, (base, other) in enumerate(((0.20, 0.19), (0.30, 0.27))):
        variants = {"link=max": {"macro": metrics(other), "fallback_rate": 0.5}}
        write_cell(tmp_path, "fedepth", seed, base, variants=variants)

    table = ablations(read_study(tmp_path), MODEL)

    assert table is not None
    row = "fedepth, link=max (inference only)"
    assert texts(table, "AbsRel − default")[row] == "-0.020 ± 0.014"
    assert texts(table, "Seeds better")[row] == "2 of 2"
    assert texts(table, "Fallback rate")[row] == "0.50"


def test_no_ablation_no_table(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedepth", 0, 0.2)

    assert ablations(read_study(tmp_path), MODEL) is None


def test_columns_of_figures_are_known() -> None:
    rows = (
        (Entry("a"), Entry("0.1 ± 0.2"), Entry("2 of 3"), Entry("x")),
        (Entry("b"), Entry("–"), Entry("+1"), Entry("2")),
    )

    assert Table("t", ("", "p", "q", "r"), rows).numeric == (False, True, True, False)
