"""What nodes say to ``--help`` and to a parameter file that is not there, before ROS is started."""

import importlib
import sys
from pathlib import Path

import pytest

PROGRAMS = ("aggregator", "robot_client", "inference", "replay", "monitor", "control", "composed")


def run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str) -> int:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"/bin/{name}", *arguments])
    code: int = importlib.import_module(f"fed_nodes.{name}").main()
    assert list(tmp_path.iterdir()) == []
    return code


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_is_a_usage_and_nothing_is_started(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(name, monkeypatch, tmp_path, "--help") == 0
    told, complaint = capsys.readouterr()
    assert f"usage: {name} " in told and "-p NAME:=VALUE" in told and f"config/{name}.yaml" in told
    assert complaint == ""


def test_a_parameter_file_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("monitor", monkeypatch, tmp_path, "--ros-args", "--params-file", "nofile.yaml") == 2
    assert capsys.readouterr() == ("", "error: cannot read nofile.yaml\n")
