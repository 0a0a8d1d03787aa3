"""The folder of a demo: new, moved aside, resumed."""

import json
from pathlib import Path

import pytest

from fed_cli.fleetrun.folder import CONFIG, SUMMARY, alone, prepare, shared_file
from fed_core.errors import ConfigError, StoreError

FLEET = {"run": "demo", "seed": 0, "robots": ("a", "b")}


def unfinished(folder: Path) -> Path:
    prepare(folder, FLEET, resume=False)
    (folder / "kept.txt").write_text("half a run")
    return folder


def test_new_folder_keeps_its_fleet(tmp_path: Path) -> None:
    assert prepare(tmp_path / "deep" / "demo", FLEET, resume=False) is False
    assert json.loads((tmp_path / "deep" / "demo" / CONFIG).read_text()) == {**FLEET, "robots": ["a", "b"]}


def test_unfinished_run_is_moved_aside_unless_resumed(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "demo")
    assert prepare(folder, FLEET, resume=False) is False
    assert not (folder / "kept.txt").exists()
    assert (tmp_path / "demo.1" / "kept.txt").read_text() == "half a run"


def test_unfinished_run_goes_on_with_the_same_fleet(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "demo")
    assert prepare(folder, FLEET, resume=True) is True
    assert (folder / "kept.txt").exists()


def test_another_fleet_does_not_resume(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "demo")
    with pytest.raises(ConfigError, match="was started with another fleet, seed or data; start without --resume"):
        prepare(folder, {**FLEET, "seed": 1}, resume=True)
    assert (folder / "kept.txt").exists()


def test_finished_runs_are_counted_up_and_never_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    for _ in range(3):
        prepare(folder, FLEET, resume=False)
        (folder / SUMMARY).write_text("{}")
        told = f"^the demo in {folder} has ended; see it with fedperc report {folder}, or start without --resume$"
        with pytest.raises(ConfigError, match=told):
            prepare(folder, FLEET, resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo", "demo.1", "demo.2"]


def test_folder_that_is_no_demo_does_not_resume(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(ConfigError, match="never holds no demo run that could be resumed; start without --resume"):
        prepare(tmp_path / "never", FLEET, resume=True)
    with pytest.raises(ConfigError, match="holds no demo run that could be resumed"):
        prepare(tmp_path, FLEET, resume=True)


def test_missing_shared_file_names_both_places() -> None:
    with pytest.raises(ConfigError, match="config/none.yaml is neither in .* nor in .*; install the package again"):
        shared_file("config/none.yaml")


def test_a_folder_in_use_is_refused_and_not_moved(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with alone(folder):
        prepare(folder, FLEET, resume=False)
        told = f"^another fedperc works in {folder}; wait until it ends, or name another folder \\(--out\\)$"
        with pytest.raises(StoreError, match=told), alone(folder):
            pytest.fail("it was let in")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".demo.lock", "demo"]
    with alone(folder):
        prepare(folder, FLEET, resume=False)
    assert (tmp_path / "demo.1").is_dir()
