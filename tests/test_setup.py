"""`make setup` on machines that lack something: each ends in one line that says what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = "sh dirname cat grep find sort xargs sha256sum cut tr ls tail mkdir rm uname env".split()


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder that holds what set-up needs of a bare system, and no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (folder / tool).symlink_to(found)
    return folder


def program(path: Path, text: str) -> Path:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run_setup(tmp_path: Path, path: str, **env: str) -> tuple[int, list[str]]:
    """Run the set-up script in a bare environment; return its exit code and what it said on stderr."""
    env = {"PATH": path, "HOME": str(tmp_path), "VENV": str(tmp_path / "venv"), "XDG_CACHE_HOME": str(tmp_path)} | env
    command = ["/bin/sh", str(ROOT / "scripts/setup.sh")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=110)
    return done.returncode, done.stderr.splitlines()


def real_python() -> str:
    return getattr(sys, "_base_executable", sys.executable)


def test_wrong_python_named_by_the_user(tmp_path: Path, tools: Path) -> None:
    old = program(tmp_path / "python3.8", "echo 3.8")
    code, lines = run_setup(tmp_path, str(tools), PYTHON=str(old))
    assert code == 1
    assert lines == [
        f"setup: PYTHON={old} is version 3.8; Python 3.10, 3.11 or 3.12 is needed, set PYTHON to one of them"
    ]


def test_no_supported_python_on_path(tmp_path: Path, tools: Path) -> None:
    program(tools / "python3", "echo 3.13")
    code, lines = run_setup(tmp_path, str(tools))
    assert code == 1
    assert lines == [
        "setup: no Python 3.10, 3.11 or 3.12 on PATH (python3 is 3.13); install one or set PYTHON=/path/to/python3.11"
    ]


def test_unsupported_architecture(tmp_path: Path, tools: Path) -> None:
    program(tools / "uname", '[ "$1" = -m ] && echo aarch64 || echo Linux')
    code, lines = run_setup(tmp_path, str(tools), PYTHON=real_python())
    assert code == 1
    assert len(lines) == 1
    assert "wheels for Linux x86_64 only, this is Linux aarch64; install ROS 2 Jazzy or Kilted" in lines[0]


def test_missing_compiler(tmp_path: Path, tools: Path) -> None:
    code, lines = run_setup(tmp_path, str(tools), PYTHON=real_python())
    assert code == 1
    assert lines == [
        "setup: no C++ compiler on PATH and fed_msgs must be built; "
        "install one (Debian, Ubuntu: apt install build-essential)"
    ]


def test_missing_venv_module(tmp_path: Path) -> None:
    bare = program(tmp_path / "python", f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec {real_python()} "$@"')
    code, lines = run_setup(tmp_path, os.environ["PATH"], PYTHON=str(bare))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert code == 1
    assert lines == [
        f"setup: Python {version} has no venv module; install it (Debian, Ubuntu: apt install python{version}-venv)"
    ]


def test_unreachable_package_index(tmp_path: Path) -> None:
    code, lines = run_setup(
        tmp_path,
        os.environ["PATH"],
        PYTHON=real_python(),
        PIP_CONFIG_FILE="/dev/null",
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        FED_SETUP_TIMEOUT="2",
    )
    assert code == 1
    assert lines == [
        "setup: no package index answers for ros-wheels-bootstrapper==0.1.2; "
        "check the network, the proxy and pip's settings (PIP_INDEX_URL), then run it again"
    ]
