"""The split of M3ED: 41 recordings train, 11 test, none of the data set's own test files."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from fed_core.data.m3ed.split import ENVIRONMENTS, PLATFORMS, environment_of, load_split
from fed_core.errors import ConfigError

CELLS = {  # clients of each platform and environment
    "car": (3, 0, 4, 5),
    "falcon": (6, 2, 6, 2),
    "spot": (3, 3, 6, 1),
}


def test_split_has_41_robots_and_one_test_of_each_cell() -> None:
    split = load_split()
    clients, tests = Counter(e.cell for e in split.clients), Counter(e.cell for e in split.tests)
    assert (len(split.clients), len(split.tests)) == (41, 11)
    assert tests == {(p, e): 1 for p in PLATFORMS for e in ENVIRONMENTS if (p, e) != ("car", "indoor")}
    assert {p: tuple(clients[p, e] for e in ENVIRONMENTS) for p in PLATFORMS} == CELLS


def test_no_recording_is_used_twice_and_no_official_test_file_at_all() -> None:
    split = load_split()
    names = [e.name for e in split.entries]
    assert len(set(names)) == 52
    assert len(split.official_tests) == 13 and len(split.left_out) == 3
    assert not set(names) & {*split.official_tests, *split.left_out}


def test_platform_and_environment_are_those_of_the_name() -> None:
    for entry in load_split().entries:
        assert entry.platform == entry.name.split("_")[0]
        assert entry.environment == environment_of(entry.name), entry.name
    assert [environment_of(n) for n in ("falcon_into_forest_3", "car_urban_night_x", "spot_outdoor_day_x")] == [
        "forest",
        "urban_night",
        "urban_day",
    ]


def test_split_agrees_with_the_list_of_the_data_set(shared_data: Path) -> None:
    listed = yaml.safe_load((shared_data / "m3ed_spot_rgb" / "dataset_list.yaml").read_text())
    rows = listed if isinstance(listed, list) else next(iter(listed.values()))
    recordings = {row["file"]: row for row in rows if row["filetype"] == "data"}
    split = load_split()
    assert set(split.official_tests) == {name for name, row in recordings.items() if row["is_test_file"]}
    loose = {name for name, row in recordings.items() if not row["is_test_file"] and _drift(row) > 1.0}
    assert set(split.left_out) == loose
    assert {e.name for e in split.entries} == set(recordings) - set(split.official_tests) - loose


def _drift(row: dict[str, object]) -> float:
    closure = row["check_pose_return"]
    return float(closure["absolute_position_error"]) if isinstance(closure, dict) else 0.0


def test_sites_say_which_tests_are_of_a_known_place() -> None:
    split = load_split()
    assert "penno" in split.shared_sites and "ucity" not in split.shared_sites
    assert all(entry.site for entry in split.entries)
    assert split.tests[0].info == {"platform": "car", "environment": "forest", "site": "forest_ponds"}


def test_reasons_for_recordings_that_are_not_used() -> None:
    split = load_split()
    assert split.why_not("spot_forest_hard") == ""
    assert split.why_not("car_forest_sand_2") == "a test file of the data set, published without depth"
    assert split.why_not("spot_forest_road_1") == "left out of the split"
    assert split.why_not("my_own") == "not in the split"


def test_a_name_listed_twice_is_refused(tmp_path: Path) -> None:
    entry = {"name": "car_x", "platform": "car", "environment": "forest", "site": "s"}
    path = tmp_path / "split.yaml"
    path.write_text(yaml.safe_dump({"clients": [entry], "tests": [entry]}))
    with pytest.raises(ConfigError, match="M3ED split lists car_x twice"):
        load_split(path)
    path.write_text(yaml.safe_dump({"clients": [{**entry, "platform": "boat"}], "tests": []}))
    with pytest.raises(ConfigError, match="M3edEntry.platform is 'boat'; choose one of car, falcon, spot"):
        load_split(path)
