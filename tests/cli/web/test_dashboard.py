"""``fedperc dashboard`` as a user meets it in a terminal."""

import builtins
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from tests.cli.reports.folders import write_run
from tests.cli.web.served import Viewer

ROOT = Path(__file__).resolve().parents[3]
Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Starter]:
    """Start the command; all are ended after the test."""
    started: list[subprocess.Popen[str]] = []

    def starting(*arguments: Any, **environment: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "fed_cli", "dashboard", *map(str, arguments)]
        variables = {**os.environ, "PYTHONUNBUFFERED": "1", "FED_PERCEPTION_TOKEN": "", **environment}
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=variables, cwd=ROOT))
        return started[-1]

    yield starting
    for process in started:
        process.kill()
        process.communicate()


def port_of(process: "subprocess.Popen[str]") -> int:
    """Return the port of the address that it prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.fullmatch(r"dashboard: http://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)/\n", line)
    assert match, (line, process.stderr and process.stderr.read())
    return int(match[1])


def run(*arguments: Any) -> Any:
    load_verbs()
    return CliRunner().invoke(app, ["dashboard", *map(str, arguments)])


def error_of(*arguments: Any) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    [line] = result.stderr.strip().splitlines()
    return str(line)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "mine")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_folder_is_served_until_a_signal_also_while_a_browser_looks(
    folder: Path, start: Starter, number: int
) -> None:
    process = start(folder, "--port", 0)
    port = port_of(process)
    viewer, gone = Viewer(port), Viewer(port)
    assert viewer.state()["runs"][0]["name"] == "mine"
    gone.state()
    gone.close()  # a closed connection is no reason to end
    assert viewer.event()[0] in ("state", "beat")

    process.send_signal(number)
    out, err = process.communicate(timeout=20)

    assert (process.returncode, out, err) == (130, "", "stopped\n")
    viewer.close()


def test_it_has_no_buttons_for_a_folder(folder: Path, start: Starter) -> None:
    process = start(folder, "--port", 0, FED_PERCEPTION_TOKEN="correct-horse")
    assert process.stdout is not None
    assert process.stdout.readline() == "a folder is only looked at: the token is not used\n"
    viewer = Viewer(port_of(process))
    assert viewer.state()["services"] is None
    viewer.close()


def test_other_machines_may_look_under_any_name(folder: Path, start: Starter) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(start(folder, "--host", "0.0.0.0", "--port", 0)))
    connection.request("GET", "/", headers={"Host": "base-station"})
    assert connection.getresponse().status == 200
    connection.close()


def test_it_opens_a_browser_where_asked(folder: Path, start: Starter, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    program.chmod(0o755)
    process = start(folder, "--port", 0, "--open", BROWSER=str(program))
    assert opened.read_text() == f"http://127.0.0.1:{port_of(process)}/\n"


def test_a_port_in_use_is_one_line(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = error_of(folder, "--port", port)
    assert text == f"error: port {port} of 127.0.0.1 is in use; choose another, or any: --port 0"


def test_mistakes_end_in_one_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FED_PERCEPTION_TOKEN", raising=False)
    gone, other = tmp_path / "gone", tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    told = f"error: {gone} does not exist; name the folder of a run, a demo or a study"
    assert error_of(gone) == told
    assert error_of(other).startswith(
        f"error: {other} holds no run, demo or study; see what it is with: fedperc inspect "
    )
    assert error_of(folder, "--host", "no.such.host.invalid").startswith(
        "error: --host 'no.such.host.invalid' is no address of this machine: "
    )
    assert error_of(folder, "--host", "a..b").startswith("error: --host 'a..b' is no address of this machine: ")
    assert (
        error_of(folder, "--token-file", gone) == f"error: cannot read the token file {gone}: No such file or directory"
    )
    assert error_of("--fleet-ns", "fleet").startswith("error: --fleet-ns 'fleet' is no ROS namespace")
    monkeypatch.setenv("FED_PERCEPTION_TOKEN", "short")
    assert error_of(folder).startswith("error: the token has to be at least 8 printable ASCII characters")


def test_a_missing_package_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "uvicorn":
            raise ImportError(name)
        return plain(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert error_of(folder) == (
        "error: the dashboard needs starlette and uvicorn; install them with: pip install 'fed_perception[dashboard]'"
    )


def test_help_of_all_verbs_does_not_load_the_server() -> None:
    code = "import sys; from fed_cli.main import load_verbs; load_verbs(); print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60).stdout
    assert "fed_cli.dashboard" in loaded and not {"starlette", "uvicorn"} & set(loaded.split())


def test_the_page_is_installed() -> None:
    listed = re.search(r'"fed_cli": \[(.*)\]', (ROOT / "setup.py").read_text())
    assert listed and '"web/page/*"' in listed[1]
