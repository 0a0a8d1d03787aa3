import json
import sqlite3
from pathlib import Path

import pytest

from fed_cli.reports.history import read_history
from fed_core.errors import StoreError
from tests.cli.reports.folders import LAYERS, MODEL, SENT, run_config, write_run


def test_a_run_is_told_round_by_round(tmp_path: Path) -> None:
    members = {"ann": (0, 1), "bob": (1,)}
    folder = write_run(tmp_path / "r", run_config(rounds=3), clusters=members, missing=[(2, "bob")])

    history = read_history(folder, "mine")

    assert history.names == ["ann", "bob"]
    assert [one.number for one in history.trained] == [1, 2, 3]
    assert history.seconds() == {1: 1.0, 2: 2.0, 3: 3.0}
    assert history.absent() == [(2, "bob")]
    assert history.updates[1, "bob"].loss == 7.0  # 8 / 1 - 1
    assert history.updates[3, "ann"].sent_bytes == SENT
    assert history.rounds[1].received_bytes == {"ann": 2 * MODEL, "bob": MODEL}  # ann loads two models
    assert history.rounds[3].clusters == members


def test_a_model_under_two_keys_is_given_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", clusters={"ann": (0, 1), "bob": (0, 1)})
    journal = sqlite3.connect(folder / "journal.sqlite")
    (text,) = journal.execute("SELECT plan FROM rounds WHERE round = 1").fetchone()
    plan = json.loads(text)
    plan["blobs"]["cluster/1"] = plan["blobs"]["cluster/0"]
    journal.execute("UPDATE rounds SET plan = ? WHERE round = 1", (json.dumps(plan),))
    journal.commit()
    journal.close()

    assert read_history(folder, "r").rounds[1].received_bytes == {"ann": MODEL, "bob": MODEL}


def test_masks_and_scores_carry_the_names_of_layers(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", run_config("fedcka"), masks=True)

    history = read_history(folder, "r")

    assert history.units == LAYERS
    assert history.updates[1, "ann"].mask is None
    assert history.updates[2, "ann"].mask == (1, 0)
    assert dict(history.updates[2, "ann"].scores) == {"stem": 0.75, "head": 0.25}


def test_masks_of_a_strategy_that_is_not_installed_have_no_names(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", run_config("not_here"), masks=True)

    assert read_history(folder, "r").units == ()


def test_a_loss_that_is_no_number_is_missing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    journal = sqlite3.connect(folder / "journal.sqlite")
    journal.execute("UPDATE updates SET report = replace(report, '\"loss\": 8.0', '\"loss\": NaN')")
    journal.commit()
    journal.close()

    history = read_history(folder, "r")

    assert history.updates[1, "ann"].loss is None
    assert history.updates[1, "bob"].loss == 7.0


def test_a_broken_journal_is_an_error_of_one_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    (folder / "journal.sqlite").write_bytes(b"no database at all, " * 100)

    with pytest.raises(
        StoreError, match=r"^cannot read the journal .*r/journal.sqlite: .*; it is broken or of another"
    ):
        read_history(folder, "r")


def test_a_journal_of_another_schema_is_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    journal = sqlite3.connect(folder / "journal.sqlite")
    journal.execute("UPDATE runs SET schema = 7")
    journal.commit()
    journal.close()

    with pytest.raises(StoreError, match="it has schema 7, this version reads 2"):
        read_history(folder, "r")
