"""A run's rounds are derived again from the updates that it kept; what was changed is found, and named."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fed_core.audit import Audit, RoundCheck, Verdict
from fed_core.bookkeeping import RunBook
from fed_core.data.open import SourceConfig
from fed_core.errors import StoreError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.membership import AggregatorConfig
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation
from fed_core.strategies.base import strategies
from fed_core.wire.codec import TensorWriter
from tests.core.training.tiny import toolbox, write_folder

pytestmark = pytest.mark.usefixtures("fresh_process")
ROBOTS = ("ana", "ben")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, robot_id in enumerate(ROBOTS):
        write_folder(folder / robot_id, 4 + 2 * seed, seed=seed)
    return folder


def run(base: Path, folder: Path, strategy: str = "fedavg", *, keep: bool = True) -> FleetConfig:
    fleet = FleetConfig(
        run="run",
        robots=tuple(RobotEntry(name, SourceConfig(data=name)) for name in ROBOTS),
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions(strategy),
        rounds=3,
        train={"lr": 1e-2, "batch_size": 4, "local_epochs": 1},
        aggregator=AggregatorConfig(keep_updates=keep),
    )
    Simulation(fleet, base, folder, toolbox(), threads=1).run()
    return fleet


def checks(folder: Path) -> list[RoundCheck]:
    audit = Audit(folder)
    try:
        return list(audit.checks())
    finally:
        audit.close()


def verdicts(folder: Path) -> list[Verdict]:
    return [check.verdict for check in checks(folder)]


@pytest.fixture
def book(base: Path, tmp_path: Path) -> Iterator[RunBook]:
    fleet = run(base, tmp_path / "run")
    opened = RunBook(tmp_path / "run", "run", fleet.run_config(), keep_updates=True)
    yield opened
    opened.close()


@pytest.mark.parametrize("strategy", ["fedavg", "fedepth", "feddyn", "scaffold", "fedcka", "feddwa", "local"])
def test_an_honest_run_is_the_same_in_every_round_and_is_not_touched(base: Path, tmp_path: Path, strategy: str) -> None:
    strategies.get(strategy)
    run(base, tmp_path / "run", strategy)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "blobs").iterdir()}
    found = checks(tmp_path / "run")
    assert [(c.round, c.verdict, c.text) for c in found] == [(n, Verdict.SAME, "") for n in range(4)]
    assert [c.updates for c in found] == [0, 2, 2, 2]
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "blobs").iterdir()} == before


def test_without_kept_updates_only_the_start_can_be_derived(base: Path, tmp_path: Path) -> None:
    run(base, tmp_path / "run", keep=False)
    first, *rest = checks(tmp_path / "run")
    assert first.verdict is Verdict.SAME
    assert {check.verdict for check in rest} == {Verdict.NOT_KEPT}
    assert "was not kept" in rest[0].text


def forge(book: RunBook, number: int) -> str:
    """Put another model into a round, with a digest that fits its bytes, as somebody with the disk in hand would."""
    row = book.closed_rounds()[number]
    plan = FleetPlan.from_json(row.plan)
    (key,) = plan.blobs
    tensors = book.store.open(plan.blobs[key].digest)
    name = next(name for name in tensors if np.issubdtype(tensors[name].dtype, np.floating))
    specs = tensors.specs
    path = book.store.scratch()
    with TensorWriter(path, specs) as writer:
        for spec in specs:
            array = np.array(tensors[spec.name])
            writer.write(spec.name, array + np.float32(0.5) if spec.name == name else array)
        writer.finish()
    other = replace(plan, blobs={key: book.store.put_file(path)})
    with book._journal._db as journal:
        journal.execute("UPDATE rounds SET plan = ? WHERE round = ?", (json.dumps(other.to_json()), number))
    return str(name)


def test_a_model_that_was_put_in_is_the_first_difference_with_its_tensor(book: RunBook, tmp_path: Path) -> None:
    name = forge(book, 2)
    found = checks(tmp_path / "run")
    assert [check.verdict for check in found[:3]] == [Verdict.SAME, Verdict.SAME, Verdict.DIFFERENT]
    told = f"model 'global': tensor {name!r} is not what the updates give, largest difference 0.5"
    assert found[2].text == told


def test_a_flipped_bit_of_an_update_is_damage_with_its_robot(book: RunBook, tmp_path: Path) -> None:
    report = next(report for report in book._journal.reports() if (report["round"], report["robot_id"]) == (2, "ben"))
    path = book.store.path(report["blobs"]["weights"]["digest"])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = {check.round: check for check in checks(tmp_path / "run")}
    assert found[1].verdict is Verdict.SAME
    assert found[2].verdict is Verdict.DAMAGED
    assert found[2].text.startswith("weights of robot 'ben': the bytes of blob ")


def test_an_update_that_is_gone_is_told_and_the_other_rounds_are_checked(book: RunBook, tmp_path: Path) -> None:
    report = next(report for report in book._journal.reports() if (report["round"], report["robot_id"]) == (1, "ana"))
    book.store.path(report["blobs"]["weights"]["digest"]).unlink()
    assert verdicts(tmp_path / "run") == [Verdict.SAME, Verdict.NOT_KEPT, Verdict.SAME, Verdict.SAME]


def test_an_update_taken_out_of_the_journal_makes_its_round_another_one(book: RunBook, tmp_path: Path) -> None:
    with book._journal._db as journal:
        journal.execute("DELETE FROM updates WHERE round = 3 AND robot_id = 'ana'")
    last = checks(tmp_path / "run")[3]
    assert (last.verdict, last.updates) == (Verdict.DIFFERENT, 1)


def test_a_changed_sample_count_is_a_difference(book: RunBook, tmp_path: Path) -> None:
    with book._journal._db as journal:
        journal.execute("UPDATE updates SET report = json_set(report, '$.num_samples', 99) WHERE round = 1")
    assert verdicts(tmp_path / "run")[1] is Verdict.DIFFERENT


def test_what_is_no_run_or_of_another_version_is_one_line(book: RunBook, tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"cannot read the journal .*/nothing/journal.sqlite: .*name the folder of a run"
    ):
        Audit(tmp_path / "nothing")
    with book._journal._db as journal:
        journal.execute("UPDATE runs SET config = json_set(config, '$.run.colour', 'red')")
    with pytest.raises(StoreError, match="run has another configuration than runs of this version: .*'colour'"):
        Audit(tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE runs SET schema = 1")
    with pytest.raises(StoreError, match="journal.sqlite has schema 1, this version reads 2"):
        Audit(tmp_path / "run")
