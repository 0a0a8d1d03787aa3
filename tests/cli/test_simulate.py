"""``fedperc simulate``: a fleet in one process, without ROS."""

import io
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fed_cli.fleetrun.runs import RobotRecord, RunRecord, read_run
from fed_cli.fleetrun.simulation import result_table, show_result
from fed_cli.main import app, load_verbs

load_verbs()
ROOT = Path(__file__).resolve().parents[2]
TINY = """
run: tiny
strategy: {name: fedepth, options: {tau_quantile: 0.5}}
rounds: 1
train: {batch_size: 4}
robots:
  - {id: drone, source: {generated: {platform: uav, environment: forest, seed: 11, frames: 4}}}
  - {id: dog, source: {generated: {platform: legged, environment: indoor, seed: 16, frames: 4}}}
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished run in a process of its own, and what it printed."""
    folder = tmp_path_factory.mktemp("simulate")
    (folder / "fleet.yaml").write_text(TINY)
    code = (
        "import sys; from fed_cli.main import app, load_verbs; load_verbs()\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print('ROS' if {'rclpy', 'fed_msgs'} & set(sys.modules) else 'no ROS', 'loaded')"
    )
    command = [sys.executable, "-c", code, "simulate", "--fleet", str(folder / "fleet.yaml"), "--out"]
    done = subprocess.run(
        [*command, str(folder / "run"), "--threads", "1"], capture_output=True, text=True, cwd=ROOT, timeout=110
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_ends_with_a_table_and_the_models(simulated: tuple[Path, str]) -> None:
    folder, text = simulated
    run = read_run(folder / "run")
    assert (run.rounds, run.total_rounds, [robot.id for robot in run.robots]) == (1, 1, ["dog", "drone"])
    assert all(robot.updates == 1 and robot.samples == 4 and len(robot.losses) == 1 for robot in run.robots)
    assert all(robot.clusters for robot in run.robots)
    assert "tiny: fedepth, 1 of 1 rounds" in text
    assert run.models
    for _, digest, size_bytes in run.models:
        assert str(folder / "run" / "blobs" / digest) in text
        assert (folder / "run" / "blobs" / digest).stat().st_size == size_bytes


def test_tells_what_the_method_warned_of(simulated: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copy(simulated[0] / "run" / "journal.sqlite", tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE rounds SET log = ?", ('{"warnings": ["everyone is alone"]}',))
    assert read_run(tmp_path).warnings == ("everyone is alone",)  # once, not once a round
    console = Console(file=io.StringIO(), width=300)
    show_result(console, tmp_path)
    assert "warning: everyone is alone\n" in console.file.getvalue()  # type: ignore[attr-defined]


def test_imports_no_ros(simulated: tuple[Path, str]) -> None:
    assert simulated[1].splitlines()[-1] == "no ROS loaded"


def test_result_tells_the_layers_that_are_shared_where_some_are_not() -> None:
    def shown(shared: tuple[int, ...], units: int) -> str:
        robot = RobotRecord("car", 4, 2, (), (8.0, 7.5), shared, units)
        console = Console(file=io.StringIO(), width=120, record=True)
        console.print(result_table(RunRecord("run", "fedcka", "cmt_tiny", 2, 2, (robot,), ())))
        return console.export_text()

    assert "shared layers" in shown((74, 72), 74) and "72 of 74" in shown((74, 72), 74)
    assert "layers" not in shown((), 0)


def test_same_folder_goes_on(simulated: tuple[Path, str]) -> None:
    folder, _ = simulated
    before = read_run(folder / "run")
    arguments = ["simulate", "--fleet", str(folder / "fleet.yaml"), "--out", str(folder / "run")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert read_run(folder / "run") == before  # nothing was trained or counted again


def test_same_folder_with_other_options_is_refused(simulated: tuple[Path, str]) -> None:
    folder, _ = simulated
    arguments = ["simulate", "--fleet", str(folder / "fleet.yaml"), "--out", str(folder / "run"), "--seed", "5"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "was started with another configuration (seed differ); use another folder or that one" in result.output


def test_missing_fleet_file_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "--fleet", str(tmp_path / "no.yaml")])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert "no.yaml does not exist; name a fleet file or a folder of recordings" in result.output
