"""``fedperc top`` without ROS: what it refuses, and a monitor that is a plain program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fed_cli.fleetrun.monitor import MonitorReader
from fed_cli.fleetrun.watching import Watch, _until_fleet, _wait
from fed_cli.main import app, load_verbs
from fed_core.errors import FedError

load_verbs()


@pytest.mark.parametrize("namespace", ["fleet", "/a b", "/", "/9"])
def test_a_name_that_is_no_namespace_is_one_line(namespace: str) -> None:
    result = CliRunner().invoke(app, ["top", "--fleet-ns", namespace])
    assert result.exit_code == 2
    told = f"error: --fleet-ns {namespace!r} is no ROS namespace; it has to look like /fleet or /yard/fleet\n"
    assert result.output == told


def reader(tmp_path: Path, code: str) -> MonitorReader:
    return MonitorReader([sys.executable, "-c", code], dict(os.environ), str(tmp_path / "monitor.log"))


def test_lines_that_are_no_json_are_left_out(tmp_path: Path) -> None:
    line = json.dumps({"kind": "graph", "fleets": ["/b"]})
    monitor = reader(tmp_path, f"print('hello'); print({line!r}, flush=True); import signal; signal.pause()")
    try:
        assert _wait(monitor, 30.0, lambda: monitor.state.looked) is True
        assert monitor.state.fleets == ["/b"]
        with pytest.raises(FedError, match=r"within 0.1 s; fleets there: /b \(--fleet-ns\)"):
            _until_fleet(Watch("/a", 3, 0.1), monitor)
    finally:
        monitor.close()
    assert monitor.ended


def test_a_monitor_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    monitor = reader(tmp_path, "import sys; sys.exit('error: no message package\\n   ^')")
    try:
        with pytest.raises(FedError, match="the monitor ended: no message package"):
            _wait(monitor, 30.0, lambda: False)
    finally:
        monitor.close()


def test_a_pipe_that_is_closed_ends_the_json_lines_quietly(tmp_path: Path) -> None:
    """As ``fedperc top --json | head -c 10``; the monitor is a plain program."""
    line = json.dumps({"kind": "graph", "fleets": ["/a"]})
    (tmp_path / "monitor.py").write_text(f"while True: print({line!r}, flush=True)")
    (tmp_path / "top.py").write_text(
        f"""
import sys
from fed_cli.fleetrun import watching
from fed_cli.fleetrun.monitor import MonitorReader
with watching.stopped_by_signals():
    program = [sys.executable, {str(tmp_path / "monitor.py")!r}]
    monitor = MonitorReader(program, {{}}, {str(tmp_path / "log")!r}, watching._print_line)
    try:
        watching._wait(monitor, 60.0, lambda: False)
    finally:
        monitor.close()
"""
    )
    shell = f"set -o pipefail; {sys.executable} {tmp_path / 'top.py'} | head -c 10"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, line[:10], "")
