"""``fedperc new``: what it writes works at once, and is what the pages of docs/extend show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_cli.new import filled

load_verbs()
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "extend"
PAGES = {"strategy": "loss_weighted", "model": "plain_unet", "dataset": "npz_frames"}


def run(*command: str, folder: Path) -> str:
    """Return what a command wrote, in a process of its own: plugins stay registered in this one."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "models")])
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "160"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fedperc(*arguments: str, folder: Path) -> str:
    return run("-m", "fed_cli", *arguments, folder=folder)


@pytest.mark.parametrize(("kind", "name"), PAGES.items())
def test_pages_show_whole_files_that_the_command_writes(kind: str, name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "extend" / f"{kind}.md").read_text(encoding="utf-8")
    assert filled(kind, name) == text
    assert re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0] == text


def test_the_page_shows_the_tests_of_the_strategy() -> None:
    text = (EXAMPLES / "test_loss_weighted.py").read_text(encoding="utf-8")
    assert filled("strategy_test", "loss_weighted") == text
    assert text in (ROOT / "docs" / "extend" / "strategy.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_new_strategy_is_tested_simulated_and_compared_with_fedavg(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(
        "run: small\nrounds: 2\ntrain: {batch_size: 4}\nnetwork: {name: adabins_s, options: {height: 96, width: 96}}\n"
        "robots:\n"
        + "".join(
            f"  - {{id: r{n}, source: {{generated: {{platform: ugv, environment: forest, seed: {n}, frames: 4, "
            "width: 64, height: 48}}}\n"
            for n in (1, 2)
        )
    )
    fleet = ("simulate", "--fleet", "fleet.yaml", "--threads", "1")
    assert fedperc("new", "strategy", "mine", folder=tmp_path).split() == ["mine.py", "test_mine.py"]

    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py", folder=tmp_path)
    fedperc(*fleet, "--plugin", "mine.py", "--strategy", "mine", "--out", "mine", folder=tmp_path)
    fedperc(*fleet, "--strategy", "fedavg", "--out", "fedavg", folder=tmp_path)
    fedperc("report", "mine", "fedavg", "--out", "both.html", folder=tmp_path)

    assert re.search(r"^\d{2,} passed", told, re.MULTILINE) and "failed" not in told
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "mine" in page and "fedavg" in page
    assert "q" in fedperc("strategies", "mine", "--plugin", "mine.py", folder=tmp_path)


@pytest.mark.slow
def test_a_new_network_is_built_and_a_new_reader_reads(tmp_path: Path) -> None:
    fedperc("new", "model", "my_net", folder=tmp_path)
    fedperc("new", "dataset", "my_folders", folder=tmp_path)
    office = tmp_path / "office"
    office.mkdir()
    (office / "camera.txt").write_text("50 50 31.5 23.5")
    rgb = cv2.resize(np.random.default_rng(0).integers(0, 255, (6, 8, 3), np.uint8), (64, 48))
    for number in range(4):
        np.savez(office / f"{number}.npz", rgb=rgb, depth_m=np.full((48, 64), 2.0 + number, np.float32))
    (tmp_path / "fleet.yaml").write_text(
        "run: own\nrounds: 1\ntrain: {batch_size: 2}\n"
        "network: {name: my_net, options: {height: 32, width: 40, channels: 4}}\n"
        "robots:\n  - {id: one, source: {data: office}}\n"
    )
    both = ("--plugin", "my_net.py", "--plugin", "my_folders.py")

    assert "4" in fedperc("inspect", *both, "office", folder=tmp_path)
    told = fedperc("simulate", *both, "--fleet", "fleet.yaml", "--strategy", "fedavg", "--out", "own", folder=tmp_path)
    assert re.search(r"one .* 1 .* 4 ", told), told


@pytest.mark.parametrize("name", ["Mine", "1mine", "my-own", "class", "test_mine", ""])
def test_names_that_are_none_are_refused(name: str, tmp_path: Path) -> None:
    assert error_of("strategy", name, tmp_path).startswith(f"error: {name!r} is no name for a strategy: small letters")
    assert not list(tmp_path.iterdir())


def test_nothing_that_is_there_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("mine")
    told = error_of("strategy", "mine", tmp_path)
    assert told == f"error: {tmp_path}/test_mine.py exists already; take another name, or another folder with --out"
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]
    assert error_of("strategy", "fedavg", tmp_path).startswith("error: a strategy 'fedavg' exists already; known: ")
    assert error_of("model", "adabins_s", tmp_path).startswith("error: a network 'adabins_s' exists already")


@pytest.mark.parametrize("name", ["strategy", "mixer", "update"])
def test_a_class_that_would_hide_an_import_is_refused(name: str, tmp_path: Path) -> None:
    told = f"error: the class of {name!r} would be {name.title()}, which the new file needs itself; take another name"
    assert error_of("strategy", name, tmp_path) == told
    assert not list(tmp_path.iterdir())


def test_an_unknown_strategy_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "--strategy", "mine", "--out", str(tmp_path / "run")])
    assert result.exit_code == 2 and "mine" in result.stderr and not (tmp_path / "run").exists()


def error_of(kind: str, name: str, folder: Path) -> str:
    result = CliRunner().invoke(app, ["new", kind, name, "--out", str(folder)])
    assert result.exit_code == 2
    return result.stderr.strip()
