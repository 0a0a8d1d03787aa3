"""``fedperc report`` as a user meets it, and its page in a browser."""

import builtins
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from tests.cli.reports.folders import run_config, write_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def run(*arguments: Any) -> Any:
    load_verbs()
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def error_of(*arguments: Any) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    return str(lines[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "mine")


def test_it_writes_a_page_and_writes_it_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages" / "mine.html"

    first = run(folder, "--out", out)
    second = run(folder, "--out", out)

    assert first.exit_code == second.exit_code == 0
    assert first.stdout.strip() == str(out)
    assert "<title>Run mine</title>" in out.read_text()


def test_a_file_that_is_no_report_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    text = error_of(folder, "--out", tmp_path / "notes.txt")

    assert text == f"error: {tmp_path}/notes.txt exists and is no report; choose another file with --out"
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert "is a folder; name the file" in error_of(folder, "--out", tmp_path)


def test_mistakes_end_in_one_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme").write_text("x")
    broken = write_run(tmp_path / "sub" / "broken")
    (broken / "journal.sqlite").write_bytes(b"x" * 5000)
    told = "name the folder of a run, a demo or a study"

    assert error_of(tmp_path / "no") == f"error: {tmp_path}/no does not exist; {told}"
    assert error_of(tmp_path / "empty") == f"error: {tmp_path}/empty is empty; {told}"
    assert error_of(tmp_path / "other" / "readme") == f"error: {tmp_path}/other/readme is a file; {told}"
    assert error_of(tmp_path / "other").endswith(f"see what it is with: fedperc inspect {tmp_path}/other")
    assert error_of(tmp_path) == f"error: {tmp_path} holds several; name those that you want: {folder}"
    assert "it is broken or of another version" in error_of(broken)
    assert "the same path is named twice" in error_of(folder, folder)


def test_runs_are_called_by_what_tells_them_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name / "run") for name in ("a", "b")]

    result = run(*folders, "--out", tmp_path / "out.html")

    assert result.exit_code == 0
    assert "<title>2 compared: a/run, b/run</title>" in (tmp_path / "out.html").read_text()


def test_without_plotly_it_says_what_to_install(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("plotly"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)

    assert error_of(folder, "--out", tmp_path / "x.html") == (
        "error: charts need plotly, which cannot be imported (plotly.offline); "
        "run: pip install 'fed_perception[report]'"
    )


def browse(page: Path, profile: Path, *, width: int) -> tuple[str, str]:
    """Return what a browser made of a page without any network, and what it had to complain about."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", f"--window-size={width},20000"]
    command += ["--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout, "\n".join(line for line in result.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_draws_every_chart_and_no_name_runs(tmp_path: Path) -> None:
    robots = ["<script>document.title='taken'</script>", '"><img src=x onerror="document.title=`taken`">', "bob"]
    clusters = {robot: (place,) for place, robot in enumerate(robots)}
    folder = write_run(tmp_path / "r", run_config("fedcka"), robots, clusters=clusters, masks=True)
    assert run(folder, "--out", tmp_path / "page.html").exit_code == 0

    dom, complaints = browse(tmp_path / "page.html", tmp_path / "profile", width=900)

    assert complaints == ""
    assert "<title>Run r</title>" in dom
    drawn = re.findall(r'<div class="plot[ "][^>]*data-drawn="yes"', dom)
    assert len(drawn) == dom.count("data-figure=") == 7  # loss, seconds, bytes, robots, clusters, masks, CKA
    assert dom.count('<svg class="main-svg"') >= 7
    assert "&lt;script&gt;document.title=" in dom
