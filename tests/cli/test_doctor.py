"""`fedperc doctor`, and what every verb gets from the edge of the CLI."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fed_cli import health
from fed_cli.health import machine, ros
from fed_cli.health.report import FAIL, OK, WARN, Check, probe
from fed_cli.main import EdgeGroup, app, load_verbs
from fed_core.errors import DataError

load_verbs()
RUNNER = CliRunner()


def test_table_shows_every_check_and_fails_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Check("disk", OK, "9 GiB free"), Check("ROS 2", FAIL, "no rclpy", "run make setup")]
    monkeypatch.setattr(health, "run_checks", lambda: rows)
    result = RUNNER.invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "9 GiB free" in result.output
    assert "run make setup" in result.output


def test_json_lists_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "run_checks", lambda: [Check("disk", WARN, "2 GiB free", "remove old runs")])
    result = RUNNER.invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [
        {"check": "disk", "state": "WARN", "found": "2 GiB free", "advice": "remove old runs"}
    ]


@pytest.mark.parametrize(("version", "state"), [((3, 9), FAIL), ((3, 10), OK), ((3, 12), OK), ((3, 13), FAIL)])
def test_python_versions(version: tuple[int, int], state: str) -> None:
    assert machine.python(version).state == state


def test_small_udp_buffer_names_the_command(tmp_path: Path) -> None:
    limit = tmp_path / "rmem_max"
    limit.write_text("212992\n")
    check = machine.udp_buffers(limit)
    assert (check.state, check.found) == (WARN, "receive limit 208 KiB")
    assert check.advice.endswith("sudo sysctl -w net.core.rmem_max=4194304")
    limit.write_text("4194304\n")
    assert machine.udp_buffers(limit).state == OK


@pytest.mark.parametrize(
    ("domain", "reach", "state"),
    [("0", "SUBNET", OK), ("233", "SUBNET", FAIL), ("x", "SUBNET", FAIL), ("1", "MOON", FAIL), ("1", "OFF", WARN)],
)
def test_discovery(monkeypatch: pytest.MonkeyPatch, domain: str, reach: str, state: str) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", reach)
    check = ros.discovery()
    assert check.state == state
    assert check.found == f"domain {domain}, range {reach}"


def test_probe_gives_the_last_line_of_an_error() -> None:
    assert probe("raise ValueError('broken')") == (False, "ValueError: broken")
    assert probe("import time; time.sleep(60)", timeout_s=0.2) == (False, "no answer in 0 s")


def test_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ros, "EXTRAS", (("no_such_module", "nothing", "pip install it"),))
    assert ros.extras() == [Check("extra no_such_module", WARN, "not installed: nothing", "pip install it")]


def edge_app() -> typer.Typer:
    small = typer.Typer(cls=EdgeGroup, pretty_exceptions_enable=False)

    @small.callback()
    def options(debug: bool = False) -> None:
        pass

    @small.command()
    def bad() -> None:
        raise DataError("no depth in bag.mcap; name its topic")

    @small.command()
    def stop() -> None:
        raise KeyboardInterrupt

    return small


def test_our_errors_end_in_one_line_and_code_2() -> None:
    result = RUNNER.invoke(edge_app(), ["bad"])
    assert result.exit_code == 2
    assert result.output == "error: no depth in bag.mcap; name its topic\n"


def test_debug_lets_the_error_through() -> None:
    assert isinstance(RUNNER.invoke(edge_app(), ["--debug", "bad"]).exception, DataError)


def test_ctrl_c_ends_with_130() -> None:
    result = RUNNER.invoke(edge_app(), ["stop"])
    assert (result.exit_code, result.output) == (130, "stopped\n")


def test_version_and_whole_doctor_as_processes() -> None:
    env = dict(os.environ, ROS_DOMAIN_ID="77")
    command = [sys.executable, "-m", "fed_cli"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, env=env, timeout=60)
    assert version.stdout.startswith("fedperc 0.")
    done = subprocess.run([*command, "doctor", "--json"], capture_output=True, text=True, env=env, timeout=110)
    states = {row["check"]: row["state"] for row in json.loads(done.stdout)}
    assert states["Python"] == OK
    assert states["ROS 2"] == states["middleware"] == states["fed_msgs"] == OK
    assert done.returncode == (1 if FAIL in states.values() else 0)


@pytest.mark.parametrize(
    ("verb", "named"),
    [
        ("demo", "fedperc demo"),
        ("play my_bag", "fedperc play"),
        ("top", "watching a fleet"),
        ("dashboard", "watching a fleet"),
    ],
)
def test_verbs_that_start_nodes_refuse_to_without_ros(
    verb: str, named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "rclpy", None)
    monkeypatch.chdir(tmp_path)
    told = RUNNER.invoke(app, verb.split())
    assert (told.exit_code, told.stderr) == (
        2,
        f"error: {named} runs on ROS 2, and rclpy cannot be imported here; "
        "run make setup, or source the set-up file of your ROS 2 first\n",
    )
    assert not list(tmp_path.iterdir())
