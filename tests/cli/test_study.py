"""``fedperc study`` as a user meets it: a whole study as a process, stopped and started again; and mistakes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from tests.core.study.small import write_stores

STUDY = """
title: small
scenario: depth-hpe
rounds: 3
seeds: 1
score_step: 2
train: {batch_size: 3, lr: 0.003}
models:
  adabins_s:
    options: {height: 64, width: 96, patch: 4}
    strategies: [fedavg, fedepth, local]
"""


def run(*arguments: str) -> Any:
    load_verbs()
    return CliRunner().invoke(app, ["study", *arguments])


def command(folder: Path, out: Path) -> list[str]:
    options = ["--data", str(folder / "stores"), "--out", str(out), "--jobs", "2"]
    return [sys.executable, "-m", "fed_cli", "study", str(folder / "study.yaml"), *options]


def start(folder: Path, out: Path, *options: str) -> "subprocess.Popen[str]":
    """Start a study that hears Ctrl-C, even where these tests run in the background of a shell, which ignores it."""
    return subprocess.Popen(
        [*command(folder, out), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def results(out: Path) -> list[Path]:
    """Return the files of the finished runs; never looks into folders that a running study removes."""
    return sorted(out.glob("cells/*/*/seed*/result.json"))


def figures(out: Path) -> dict[str, Any]:
    found = {}
    for path in results(out):
        tree = json.loads(path.read_text())
        found[f"{tree['label']} {tree['seed']}"] = {key: value for key, value in tree.items() if key != "seconds"}
    return found


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_stopped_and_started_again_it_repeats_nothing_and_ends_with_the_same_figures(tmp_path: Path) -> None:
    write_stores(tmp_path / "stores")
    (tmp_path / "study.yaml").write_text(STUDY)
    seeds = ["--seeds", "2"]
    whole = subprocess.run(
        [*command(tmp_path, tmp_path / "whole"), *seeds], capture_output=True, text=True, timeout=240
    )
    assert whole.returncode == 0, whole.stderr
    assert "report.html" in whole.stdout.replace("\n", "")

    process = start(tmp_path, tmp_path / "cut", *seeds)
    deadline_s = time.monotonic() + 200
    while not results(tmp_path / "cut") and time.monotonic() < deadline_s:
        if process.poll() is not None:
            break
        time.sleep(0.05)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    gone, alive = psutil.wait_procs(workers, timeout=20)
    assert (errors, alive) == ("stopped\n", [])
    assert process.returncode in (130, -signal.SIGINT)  # both are 130 in a shell
    first = {path: path.stat().st_mtime_ns for path in results(tmp_path / "cut")}
    assert 1 <= len(first) < 6

    docs = ["--publish", str(tmp_path / "docs")]
    again = subprocess.run(
        [*command(tmp_path, tmp_path / "cut"), *seeds, *docs], capture_output=True, text=True, timeout=240
    )

    assert again.returncode == 0, again.stderr
    assert all(path.stat().st_mtime_ns == when for path, when in first.items())
    assert "fedepth" in (tmp_path / "docs" / "depth_hpe.md").read_text()
    assert figures(tmp_path / "cut") == figures(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_ray_it_is_stopped_the_same_way_and_goes_on_without(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C reaches every process of a terminal, Ray's too."""
    pytest.importorskip("ray")
    write_stores(tmp_path / "stores")
    (tmp_path / "study.yaml").write_text(STUDY)
    process = start(tmp_path, tmp_path / "out", "--engine", "ray")
    deadline_s = time.monotonic() + 200
    while not results(tmp_path / "out") and time.monotonic() < deadline_s and process.poll() is None:
        time.sleep(0.05)
    processes = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, errors = process.communicate(timeout=60)

    assert (errors, psutil.wait_procs(processes, timeout=20)[1]) == ("stopped\n", [])
    assert process.returncode in (130, -signal.SIGINT)
    assert len(processes) >= 4, "Ray's own, and two workers"
    first = {path: path.stat().st_mtime_ns for path in results(tmp_path / "out")}
    assert 1 <= len(first) < 3
    again = subprocess.run(command(tmp_path, tmp_path / "out"), capture_output=True, text=True, timeout=200)
    assert again.returncode == 0, again.stderr
    assert all(path.stat().st_mtime_ns == when for path, when in first.items())
    assert len(results(tmp_path / "out")) == 3


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_killed_study_leaves_no_process_behind(tmp_path: Path) -> None:
    write_stores(tmp_path / "stores")
    (tmp_path / "study.yaml").write_text(STUDY)
    process = subprocess.Popen(
        command(tmp_path, tmp_path / "out"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline_s = time.monotonic() + 100
    while not list((tmp_path / "out").glob("cells/*/*/seed*/run/journal.sqlite")) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    workers = psutil.Process(process.pid).children(recursive=True)

    process.kill()
    process.wait(timeout=10)

    assert len(workers) >= 2
    assert psutil.wait_procs(workers, timeout=30)[1] == []


def test_unknown_names_are_told_with_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "use_case.yaml").write_text("{}")
    for arguments, text in (
        (("depth-xyz",), "no study is called 'depth-xyz'; known: bev, bev-paper, depth-bmr, depth-bmr-paper"),
        (("depth-hpe", "--strategies", "fedbest"), "fedbest"),
        (("depth-hpe", "--use-case", "uc1"), "--use-case belongs to studies of the scenario 'bev', this one is 'depth"),
        (("bev", "--use-case", "uc9"), "no use case is called 'uc9'; known: uc1, uc2, uc3, uc4"),
        (
            ("bev", "--use-case", "uc1", "--data", str(tmp_path / "own")),
            "own tells its own clients (use_case.yaml); leave",
        ),
        (("bev", "--data", str(tmp_path)), "lacks 55 of the 55 scenarios of uc2, the first is 2023_01_27_15_27_15"),
        (
            ("depth-hpe", "--models", "adabins_b5"),
            "the study has no strategies for adabins_b5; name them with --strategies",
        ),
        (("depth-hpe", "--data", str(tmp_path / "none")), "none is no folder; name the data set, or a folder that"),
        (
            ("depth-bmr", "--data", str(tmp_path)),
            "has no folder nyu; it needs nyu and kitti, or run `fedperc prepare bmr",
        ),
        ((str(tmp_path / "my.yaml"),), "cannot read"),
    ):
        result = run(*arguments, "--out", str(tmp_path / "out"))
        assert result.exit_code == 2, arguments
        assert text in result.stderr.replace("\n", " "), arguments
    assert not (tmp_path / "out").exists()


def test_failed_runs_are_named_and_the_exit_code_tells(tmp_path: Path) -> None:
    write_stores(tmp_path / "stores")
    (tmp_path / "study.yaml").write_text(STUDY.replace("[fedavg, fedepth, local]", '["scaffold:control=path"]'))

    done = subprocess.run(command(tmp_path, tmp_path / "out"), capture_output=True, text=True, timeout=110)

    assert done.returncode == 1
    assert "failed: adabins_s scaffold:control=path seed 0" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_its_processes_start_it_says_nothing_but_that(tmp_path: Path, number: signal.Signals) -> None:
    write_stores(tmp_path / "stores")
    (tmp_path / "study.yaml").write_text(STUDY)
    process = start(tmp_path, tmp_path / "out")
    deadline_s = time.monotonic() + 60
    while not psutil.Process(process.pid).children() and time.monotonic() < deadline_s:
        time.sleep(0.01)

    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=50)

    assert errors == "stopped\n"
    assert process.returncode in (130, -signal.SIGINT)  # both are 130 in a shell
