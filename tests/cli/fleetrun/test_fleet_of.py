"""From a fleet file or a folder of recordings to a fleet."""

from pathlib import Path

import pytest

from fed_cli.fleetrun.folder import shared_file
from fed_cli.fleetrun.recordings import fleet_of, reseed
from fed_core.errors import ConfigError


def frames(folder: Path) -> Path:
    """A folder that is a recording by the names of its files."""
    folder.mkdir()
    (folder / "frame-000000.color.jpg").touch()
    (folder / "frame-000000.depth.png").touch()
    return folder


def test_folder_gives_one_robot_per_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FED_PERCEPTION_DATA", "/elsewhere")  # must not move the recordings of the folder
    for name in ("spot-1", "2nd run", "lab"):
        frames(tmp_path / name)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "fleet.yaml").write_text("test: [lab]\nrounds: 3\n")

    fleet, base = fleet_of(tmp_path)

    assert base == tmp_path
    assert fleet.rounds == 3
    assert fleet.aggregator.min_robots == 2  # all robots of the folder
    assert {robot.id: robot.source.data for robot in fleet.robots if robot.source} == {
        "r_2nd_run": str(tmp_path / "2nd run"),
        "spot_1": str(tmp_path / "spot-1"),
    }
    assert [(entry.name, entry.source.data) for entry in fleet.test] == [("lab", str(tmp_path / "lab"))]


def test_folder_with_a_whole_fleet_file_is_taken_as_it_is(tmp_path: Path) -> None:
    frames(tmp_path / "a")
    (tmp_path / "fleet.yaml").write_text("run: mine\nrobots: [{id: r, source: {data: a}}]\n")
    fleet, _ = fleet_of(tmp_path)
    assert (fleet.run, [robot.id for robot in fleet.robots]) == ("mine", ["r"])


def test_folder_without_fleet_file_says_what_to_write(tmp_path: Path) -> None:
    frames(tmp_path / "a")
    frames(tmp_path / "b")
    with pytest.raises(ConfigError, match=r"fleet.yaml is missing; write into it .* for example: \{?test: \[b\]"):
        fleet_of(tmp_path)


def test_unknown_held_out_name_lists_what_is_there(tmp_path: Path) -> None:
    frames(tmp_path / "a")
    (tmp_path / "fleet.yaml").write_text("test: [z]\n")
    with pytest.raises(ConfigError, match="test names z, but .* holds a$"):
        fleet_of(tmp_path)


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no sequence folder and no bag; put one recording per robot into it"):
        fleet_of(tmp_path)


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nope does not exist; name a fleet file or a folder of recordings"):
        fleet_of(tmp_path / "nope")


def test_all_held_out_leaves_no_robot(tmp_path: Path) -> None:
    frames(tmp_path / "a")
    (tmp_path / "fleet.yaml").write_text("test: [a]\n")
    with pytest.raises(ConfigError, match="the fleet has no robot"):
        fleet_of(tmp_path)


def test_seed_renews_generated_worlds_and_nothing_else() -> None:
    fleet, _ = fleet_of(shared_file("config/fleet/small.yaml"))
    other = reseed(fleet, 2)
    assert other.seed == 2
    for old, new in zip(fleet.robots, other.robots, strict=True):
        assert old.source and new.source and old.source.generated and new.source.generated
        assert new.source.generated.seed == old.source.generated.seed + 2000
        assert (new.source.step, new.source.generated.platform) == (old.source.step, old.source.generated.platform)
    recordings, _ = fleet_of(shared_file("config/fleet/recordings.yaml"))
    assert reseed(recordings, 5).robots == recordings.robots
