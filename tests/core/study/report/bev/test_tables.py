from collections.abc import Sequence
from pathlib import Path

from fed_core.study.report.bev import ablations, notes, tables
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.results import read_study
from tests.core.study.report.bev.folder import (
    FEDBEVT_DALOSS,
    FEDDWA_DALOSS,
    MODEL,
    by_client,
    line,
    write_cell,
    write_seeds,
    write_study,
)


def column(table: Table | None, heading: str) -> dict[str, Entry]:
    """One column by the name of the row."""
    assert table is not None
    return {row[0].text: row[table.header.index(heading)] for row in table.rows}


def texts(table: Table | None, heading: str) -> dict[str, str]:
    return {name: entry.text for name, entry in column(table, heading).items()}


def flat(*values: float) -> list[list[float]]:
    """Runs whose clients are all equal, one for each value."""
    return [[value] * 4 for value in values]


def test_main_table_is_the_honest_round_in_per_cent(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "fedbevt", [[0.10, 0.11, 0.12, 0.13], [0.12, 0.11, 0.12, 0.13], [0.14, 0.11, 0.12, 0.13]])
    write_seeds(tmp_path, "feddwa", flat(0.20, 0.21, 0.22))

    table = tables.accuracy(read_study(tmp_path), MODEL)

    assert table.header == ("Method", "Seeds", "bus", "truck", "car_a", "car_b", "Mean")
    assert column(table, "bus") == {"FedBEVT": Entry("12.00 ± 2.00"), "FedDWA": Entry("21.00 ± 1.00", strong=True)}
    assert texts(table, "Mean") == {"FedBEVT": "12.00 ± 0.50", "FedDWA": "21.00 ± 1.00"}
    assert texts(table, "Seeds") == {"FedBEVT": "3", "FedDWA": "3"}


def test_references_are_set_apart_and_never_marked(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=["local", "centralised", "fedbevt", "feddwa"])
    for label, value in (("local", 0.1), ("centralised", 0.4), ("fedbevt", 0.2), ("feddwa", 0.3)):
        write_seeds(tmp_path, label, flat(value))
    study = read_study(tmp_path)

    assert column(tables.accuracy(study, MODEL), "Mean") == {
        "FedBEVT": Entry("20.00"),
        "FedDWA": Entry("30.00", strong=True),
    }
    assert column(tables.reference_accuracy(study, MODEL), "Mean") == {
        "Local": Entry("10.00"),
        "Centralised": Entry("40.00"),
        "Constant map": Entry("15.00"),
    }


def test_what_is_no_better_than_a_constant_map_is_named(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=["local", "fedbevt", "feddwa"])
    write_seeds(tmp_path, "local", flat(0.10, 0.12))
    write_seeds(tmp_path, "fedbevt", [[0.20, 0.14, 0.20, 0.20], [0.20, 0.155, 0.20, 0.20]])  # -1 and +0.5 points
    write_seeds(tmp_path, "feddwa", flat(0.20, 0.16))
    study = read_study(tmp_path)

    assert notes.blind_sentence(study, MODEL) == (
        "On average no better than the constant map, which looks at no image: FedBEVT (truck); "
        "Local (bus, truck, car_a, car_b)."
    )
    assert texts(tables.reference_accuracy(study, MODEL), "Seeds")["Constant map"] == "2"


def test_runs_without_a_constant_map_have_no_row_of_it(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "feddwa", 0, [0.1] * 4, clients={"bus": {"honest": {"iou_global": 0.1}}}, macro={})
    study = read_study(tmp_path)

    assert tables.reference_accuracy(study, MODEL).rows == ()
    assert notes.blind_sentence(study, MODEL) == ""


def test_the_best_round_is_called_optimistic(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "feddwa", flat(0.20, 0.22, 0.24))

    table = tables.best_rounds(read_study(tmp_path), MODEL)

    assert "optimistic" in table.caption
    assert texts(table, "truck IoU") == {"FedDWA": "32.00 ± 2.00"}
    assert texts(table, "truck round") == {"FedDWA": "2"}
    assert texts(table, "Mean IoU") == {"FedDWA": "32.00 ± 2.00"}


def test_further_measures(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "feddwa", flat(0.20))
    study = read_study(tmp_path)

    (row,) = tables.measures(study, MODEL).rows
    by_client = tables.measures_by_client(study, MODEL)

    assert [entry.text for entry in row] == ["FedDWA", "20.00", "15.00", "18.00", "30.00", "21.00"]
    assert texts(by_client, "After local training")["FedDWA, car_a"] == "21.00"
    assert by_client.folded


def test_a_client_without_a_figure_has_a_dash(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "feddwa", 0, [None, 0.2, 0.2, 0.2])
    local = write_cell(tmp_path, "fedbevt", 0, [0.1] * 4, clients={"bus": {"honest": None, "trained": None}}, macro={})
    study = read_study(tmp_path)

    assert local.is_dir()
    assert texts(tables.accuracy(study, MODEL), "bus") == {"FedDWA": "–", "FedBEVT": "–"}
    assert texts(tables.accuracy(study, MODEL), "truck") == {"FedDWA": "20.00", "FedBEVT": "–"}
    assert texts(tables.measures(study, MODEL), "After local training") == {"FedDWA": "21.00", "FedBEVT": "–"}


def test_what_daloss_adds_is_taken_seed_by_seed(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "fedbevt", flat(0.10, 0.20))
    write_seeds(tmp_path, FEDBEVT_DALOSS, flat(0.12, 0.24))
    write_seeds(tmp_path, FEDDWA_DALOSS, flat(0.30))

    table = ablations.loss_ablation(read_study(tmp_path), MODEL)

    assert texts(table, "bus IoU") == {
        "FedBEVT": "15.00 ± 7.07",
        "FedBEVT + DALoss": "18.00 ± 8.49",
        "FedDWA + DALoss": "30.00",
        "DALoss adds to FedBEVT": "+3.00 ± 1.41",  # 2 and 4 points
    }
    assert texts(table, "bus round")["FedBEVT"] == "3"


def test_no_daloss_no_ablation_of_it(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "fedbevt", flat(0.10))

    assert ablations.loss_ablation(read_study(tmp_path), MODEL) is None
    assert ablations.direction_table(read_study(tmp_path), MODEL) is None
    assert ablations.option_table(read_study(tmp_path), MODEL) is None


def test_directions_stand_side_by_side(tmp_path: Path) -> None:
    labels = ["scaffold", "feddwa", "feddwa:dwa_direction=inverse", "feddwa:dwa_direction=uniform"]
    write_study(tmp_path, strategies=labels)
    for label, values in zip(labels, ((0.20, 0.22), (0.21, 0.23), (0.25, 0.21), (0.20, 0.22)), strict=True):
        write_seeds(tmp_path, label, flat(*values))
    study = read_study(tmp_path)

    table = ablations.direction_table(study, MODEL)

    assert texts(table, "Mean") == {
        "FedDWA, increasing": "22.00 ± 1.41",
        "FedDWA, inverse": "23.00 ± 2.83",
        "FedDWA, uniform": "21.00 ± 1.41",
        "SCAFFOLD": "21.00 ± 1.41",
    }
    assert texts(table, "Mean − base") == {
        "FedDWA, increasing": "–",
        "FedDWA, inverse": "+1.00 ± 4.24",  # +4 and -2
        "FedDWA, uniform": "-1.00 ± 0.00",
        "SCAFFOLD": "-1.00 ± 0.00",
    }
    assert texts(table, "Seeds better")["FedDWA, inverse"] == "1 of 2"
    assert ablations.option_table(study, MODEL) is None


def test_changed_options_are_compared_on_the_same_seed(tmp_path: Path) -> None:
    changed = f"{FEDDWA_DALOSS}+C=10.0"
    cells = [[MODEL, label, seed] for label in ("fedavg", FEDDWA_DALOSS) for seed in (0, 1, 2)]
    cells += [[MODEL, changed, 0], [MODEL, "daloss:inner=fedavg", 0]]
    write_study(tmp_path, strategies=["fedavg", FEDDWA_DALOSS, changed, "daloss:inner=fedavg"], cells=cells)
    write_seeds(tmp_path, "fedavg", flat(0.10, 0.30, 0.30))
    write_seeds(tmp_path, FEDDWA_DALOSS, flat(0.20, 0.40, 0.40))
    write_seeds(tmp_path, changed, flat(0.21))
    write_seeds(tmp_path, "daloss:inner=fedavg", flat(0.08))
    study = read_study(tmp_path)

    table = ablations.option_table(study, MODEL)

    assert texts(table, "Mean − base") == {
        "FedDWA + DALoss": "–",
        "FedDWA + DALoss, C = 10": "+1.00",
        "FedAvg": "–",
        "FedAvg + DALoss": "-2.00",
    }
    assert texts(table, "Seeds")["FedDWA + DALoss, C = 10"] == "1"
    assert list(texts(tables.accuracy(study, MODEL), "Mean")) == ["FedAvg", "FedDWA + DALoss"]


def test_traffic_is_per_robot_and_round(tmp_path: Path) -> None:
    write_study(tmp_path, strategies=["local", "feddwa"])
    write_seeds(tmp_path, "feddwa", flat(0.20, 0.21))
    write_seeds(tmp_path, "local", flat(0.20))

    rows = {row[0].text: [e.text for e in row[1:]] for row in tables.costs(read_study(tmp_path), MODEL).rows}

    # 24 MB up and 48 MB down of 4 robots in 3 rounds; 60, 30 and 120 s.
    assert rows["FedDWA"] == ["2.00", "4.00", "1.0", "0.5", "2.0"]
    assert rows["Local"][:2] == ["–", "–"]


def test_an_inert_pull_is_said_in_words(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_pulls(tmp_path, FEDDWA_DALOSS, (1e-5, 4e-4), (1e-6, 9e-4))
    write_pulls(tmp_path, FEDBEVT_DALOSS, (1e-5, 4e-4), (1e-6, 2e-3))
    write_cell(tmp_path, "feddwa", 0, [0.2] * 4, [line(1, None, q_over_s={})])
    study = read_study(tmp_path)

    sentence = notes.inert_sentence(study, MODEL)

    assert sentence.startswith("DALoss is nearly inert with FedDWA + DALoss: for every robot, round and seed Q stays")
    assert texts(notes.pulls(study, MODEL), "Largest ‖∇Q‖ / ‖∇S‖") == {
        "FedBEVT + DALoss": "2.0e-03",
        "FedDWA + DALoss": "9.0e-04",
    }


def test_no_pull_no_words(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_seeds(tmp_path, "feddwa", flat(0.2))
    study = read_study(tmp_path)

    assert notes.inert_sentence(study, MODEL) == ""
    assert notes.pulls(study, MODEL).rows == ()


def test_a_divergence_that_is_mostly_floor_is_said_in_words(tmp_path: Path) -> None:
    write_study(tmp_path)
    rounds = [
        line(turn, None, step_divergence=by_client(step, 0.1, 0.1, 0.1), divergence_floor=by_client(*[floor] * 4))
        for turn, step, floor in ((1, 0.9, 0.0), (2, 0.1, 0.075))  # the first half does not count
    ]
    write_cell(tmp_path, "feddwa", 0, [0.2] * 4, rounds)
    write_cell(tmp_path, FEDDWA_DALOSS, 0, [0.2] * 4, rounds[:1])

    sentence = notes.floor_sentence(read_study(tmp_path), MODEL)

    assert "Most of the KL divergence of the steps is a floor with FedDWA (75%): that share" in sentence
    write_cell(tmp_path, "feddwa", 0, [0.2] * 4)
    assert notes.floor_sentence(read_study(tmp_path), MODEL) == ""


def test_dropped_updates_are_told_with_their_reasons(tmp_path: Path) -> None:
    write_study(tmp_path)
    lost = {"bus": "its divergence is not finite"}
    write_cell(
        tmp_path, "feddwa", 0, [0.2] * 4, [line(1, None, dropped=lost), line(2, None), line(3, None, dropped=lost)]
    )

    (sentence,) = notes.dropped_sentences(read_study(tmp_path), MODEL)

    assert sentence == "FedDWA: 2 updates were left out, bus: its divergence is not finite (2 times)."


def write_pulls(folder: Path, label: str, shares: Sequence[float], gradients: Sequence[float]) -> None:
    """Write a run whose rounds have these largest shares; the other robots' are smaller."""
    rounds = [
        line(turn, None, q_over_s=by_client(0.0, share, 0.0, 0.0), q_gradient_share=by_client(0.0, 0.0, gradient, 0.0))
        for turn, (share, gradient) in enumerate(zip(shares, gradients, strict=True), 1)
    ]
    write_cell(folder, label, 0, [0.2] * 4, rounds)
