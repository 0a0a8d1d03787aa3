"""``fedperc verify`` and ``fedperc runs`` on a small real run."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_core.data.open import SourceConfig
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.membership import AggregatorConfig
from fed_core.simulation import Simulation
from fed_core.testing.network import toolbox, write_folder

load_verbs()


def simulate(folder: Path, *, keep: bool) -> Path:
    for seed, name in enumerate(("ana", "ben")):
        write_folder(folder / name, 4, seed=seed)
    fleet = FleetConfig(
        run="yard",
        robots=tuple(RobotEntry(name, SourceConfig(data=name)) for name in ("ana", "ben")),
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions("fedavg"),
        rounds=2,
        train={"lr": 1e-2, "batch_size": 4, "local_epochs": 1},
        aggregator=AggregatorConfig(keep_updates=keep),
    )
    Simulation(fleet, folder, folder / "runs" / "yard", toolbox(), threads=1).run()
    return folder / "runs" / "yard"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("kept"), keep=True)


def test_a_run_that_kept_its_updates_is_verified(kept: Path) -> None:
    result = CliRunner().invoke(app, ["verify", str(kept)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "all 3 rounds are what their updates give, bit for bit"
    told = json.loads(CliRunner().invoke(app, ["verify", str(kept), "--json"]).stdout)
    assert told["rounds"][2] == {"round": 2, "verdict": "same", "updates": 2, "text": ""}


def test_a_damaged_model_ends_with_1_and_the_first_round_that_is_wrong(kept: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(kept, tmp_path / "run")
    rows = json.loads(CliRunner().invoke(app, ["runs", str(tmp_path), "--json"]).stdout)
    assert [(row["strategy"], row["rounds"], row["updates"], row["note"]) for row in rows] == [
        ("fedavg", 2, 4, "finished")
    ]
    from fed_cli.fleetrun.runs import read_run

    ((_, digest, _),) = read_run(copy).models
    path = copy / "blobs" / digest
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = CliRunner().invoke(app, ["verify", str(copy)], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    told = f"the first difference is in round 2: model 'global': the bytes of blob {digest[:12]} were changed"
    assert told in result.output


def test_updates_that_were_not_kept_end_with_2_and_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["verify", str(simulate(tmp_path, keep=False))], env={"COLUMNS": "250"})
    assert result.exit_code == 2
    told = "2 of 3 rounds cannot be derived, since their updates were not kept; start a run with keep_updates"
    assert told in result.output


def test_no_run_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert (result.exit_code, result.output) == (2, f"error: {tmp_path} holds no run; fedperc runs finds them\n")
    for name in ("fedavg", "fedepth"):
        (tmp_path / "aggregator" / name).mkdir(parents=True)
        (tmp_path / "aggregator" / name / "journal.sqlite").touch()
    result = CliRunner().invoke(app, ["verify", str(tmp_path)])
    runs = f"{tmp_path}/aggregator/fedavg, {tmp_path}/aggregator/fedepth"
    assert (result.exit_code, result.output) == (2, f"error: {tmp_path} is a demo; name one of its runs: {runs}\n")


def test_runs_are_listed_with_those_that_are_broken(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "journal.sqlite").write_text("nothing")
    shutil.copytree(kept, tmp_path / "deep" / "yard")
    result = CliRunner().invoke(app, ["runs", str(tmp_path)], env={"COLUMNS": "200"})
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert lines[0].split() == "run strategy network rounds robots size last round note".split()
    broken, good = (
        next(line for line in lines if line.startswith("broken")),
        next(line for line in lines if "deep" in line),
    )
    assert "cannot read the journal" in broken
    assert good.startswith("deep/yard") and "2/2" in good and good.rstrip().endswith("finished")


def test_a_folder_without_runs_and_no_folder_are_told(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["runs", str(tmp_path)], env={"COLUMNS": "250"}).output
    assert told == f"{tmp_path} holds no run; fedperc simulate and fedperc demo make some\n"
    result = CliRunner().invoke(app, ["runs", str(tmp_path / "none")])
    assert (result.exit_code, result.output) == (2, f"error: {tmp_path}/none is no folder; name one that holds runs\n")
