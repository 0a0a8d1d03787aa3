"""`make setup-detection` where something lacks: each ends in one line, and nothing is ever built."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
WHEEL = f"mmcv-2.1.0-{TAG}-{TAG}-linux_x86_64.whl"


def run(venv: Path, wheels: Path, **env: str) -> tuple[int, list[str], list[str]]:
    """Run the script; return its exit code, and the lines of stdout and stderr."""
    env = {"PATH": os.environ["PATH"], "VENV": str(venv), "FED_PERCEPTION_WHEELS": str(wheels)} | env
    command = ["/bin/sh", str(ROOT / "scripts/setup_detection.sh")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment whose pip notes what it was asked for and fails."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -m ] || exec {sys.executable} "$@"\n'
        f'echo "$*" >>{tmp_path}/asked\necho "ERROR: no space left" >&2\nexit 1\n'
    )
    python.chmod(0o755)
    return tmp_path / "venv"


def test_no_environment(tmp_path: Path) -> None:
    code, _, errors = run(tmp_path / "none", tmp_path)
    assert code == 1
    assert errors == [f"setup-detection: there is no environment in {tmp_path}/none; run make setup first"]


def test_no_wheel(venv: Path, tmp_path: Path) -> None:
    (tmp_path / WHEEL.replace(TAG, "cp39")).touch()  # of another Python
    code, _, errors = run(venv, tmp_path)
    assert code == 1
    assert errors == [
        f"setup-detection: no wheel mmcv-2.1.0-{TAG}-*.whl in {tmp_path}; "
        "build one (docs/mmdet3d.md) and let FED_PERCEPTION_WHEELS name its folder"
    ]
    assert not (tmp_path / "asked").exists()


def test_no_wheel_in_ci(venv: Path, tmp_path: Path) -> None:
    code, lines, errors = run(venv, tmp_path, IF_POSSIBLE="1")
    assert (code, errors) == (0, [])
    absent = f"no wheel mmcv-2.1.0-{TAG}-*.whl in {tmp_path}"
    assert lines == [f"setup-detection: skipped, {absent}; tests of mmdet3d will be skipped, too"]
    assert not (tmp_path / "asked").exists()


def test_pip_fails(venv: Path, tmp_path: Path) -> None:
    (tmp_path / WHEEL).touch()
    code, _, errors = run(venv, tmp_path)
    assert code == 1
    assert errors == [f"setup-detection: pip failed: ERROR: no space left; the whole story is in {venv}/setup.log"]
    asked = (tmp_path / "asked").read_text()
    assert "--no-deps" in asked and str(tmp_path / WHEEL) in asked


def test_up_to_date(venv: Path, tmp_path: Path) -> None:
    (tmp_path / WHEEL).touch()
    pins = hashlib.sha256((ROOT / "requirements/detection.txt").read_bytes()).hexdigest()[:32]
    (venv / ".fed_perception").mkdir()
    (venv / ".fed_perception" / "detection").write_text(f"{WHEEL} {pins}\n")
    assert run(venv, tmp_path) == (0, [f"setup-detection: {venv} is up to date"], [])
