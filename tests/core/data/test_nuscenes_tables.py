import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fed_core.data.inspect import describe
from fed_core.data.nuscenes.tables import PART, TABLES, find_version, list_versions, open_tables
from fed_core.errors import DataError
from fed_core.scenes.domains.dataset import DomainOptions, _part, plan
from tests.core.data.nuscenes_trees import VERSION, edit_table, write_scenes

SCENE = ("scene-a", "boston-seaport", "Rain", "train")


def test_real_tables_open_without_a_word(shared_data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = shared_data / "nuscenes_tables_mini_val"
    tables = open_tables(root)
    assert (tables.version, len(tables.sample), len(tables.sample_annotation)) == ("v1.0-mini", 82, 4582)
    assert open_tables(root, "v1.0-mini") is tables
    assert capfd.readouterr() == ("", "")


def test_maps_may_be_missing(shared_data: Path, tmp_path: Path) -> None:
    root = tmp_path / "no_maps"
    shutil.copytree(shared_data / "nuscenes_tables_mini_val" / "v1.0-mini", root / "v1.0-mini")
    assert len(open_tables(root).map) == 3
    edit_table(root, "map", lambda records: records[:1], "v1.0-mini")
    assert len(open_tables(root).log) == 3
    edit_table(root, "map", lambda records: [], "v1.0-mini")
    assert len(open_tables(root).scene) == 3


def test_changed_tables_are_read_anew(tmp_path: Path) -> None:
    write_scenes(tmp_path, [SCENE], frames=1)
    tables = open_tables(tmp_path)
    assert open_tables(tmp_path) is tables
    shutil.rmtree(tmp_path / VERSION)
    write_scenes(tmp_path, [SCENE], frames=2)
    assert len(open_tables(tmp_path).sample) == 2


def test_what_cameras_see_between_keyframes_is_not_kept(tmp_path: Path) -> None:
    """The second keyframe's files become such of in between: the LiDAR's stays, those of the cameras go."""
    write_scenes(tmp_path, [SCENE], frames=3)
    second = open_tables(tmp_path).sample[1]["token"]

    def change(records: Any) -> Any:
        return [{**each, "is_key_frame": each["sample_token"] != second} for each in records]

    edit_table(tmp_path, "sample_data", change)
    tables = open_tables(tmp_path)
    assert [each["channel"] for each in tables.sample_data if not each["is_key_frame"]] == ["LIDAR_TOP"]
    assert len(tables.sample_data) == len(tables.ego_pose) == 7


def test_version_is_found_or_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'absent'} is not a folder")):
        open_tables(tmp_path / "absent")
    with pytest.raises(DataError, match=re.escape(f"{tmp_path} holds no folder v1.0-*; a nuScenes dataroot holds")):
        open_tables(tmp_path)
    (tmp_path / "v1.0-mini").mkdir()
    assert find_version(tmp_path) == "v1.0-mini"
    (tmp_path / "v1.0-trainval").mkdir()
    (tmp_path / "v1.0-notes").write_text("no folder")
    assert list_versions(tmp_path) == ["v1.0-mini", "v1.0-trainval"]
    with pytest.raises(DataError, match=re.escape("has the versions v1.0-mini, v1.0-trainval; name one")):
        open_tables(tmp_path)
    with pytest.raises(DataError, match=re.escape("has no folder v1.0-test; versions there: v1.0-mini")):
        open_tables(tmp_path, "v1.0-test")
    with pytest.raises(DataError, match=re.escape("has no folder v1.0-test; versions there: none")):
        open_tables(tmp_path / "v1.0-mini", "v1.0-test")


def test_scenes_that_are_not_merged_are_no_versions_to_choose_from(tmp_path: Path) -> None:
    assert _part(next(plan(DomainOptions()))).startswith(PART)
    for number in range(2):
        write_scenes(tmp_path, [SCENE], frames=1)
        (tmp_path / VERSION).rename(tmp_path / f"{PART}{number}")
    with pytest.raises(DataError, match=re.escape(f"{tmp_path} is not finished (2 scenes); the command that gener")):
        open_tables(tmp_path)
    assert describe(tmp_path).notes == ("not finished, 2 scenes are there; the command that generates it goes on",)


def test_one_version_of_several_is_described_by_its_folder(tmp_path: Path) -> None:
    for frames, name in ((1, "v1.0-mini"), (2, "v1.0-trainval")):
        write_scenes(tmp_path, [SCENE], frames=frames)
        (tmp_path / VERSION).rename(tmp_path / name)
    assert describe(tmp_path).notes == ("other versions, to see one name its folder: v1.0-trainval",)
    report = describe(tmp_path / "v1.0-trainval")
    assert dict(report.rows)["version"] == "v1.0-trainval"
    assert report.table[0][3] == "2" and not report.notes


def test_missing_tables_are_named(tmp_path: Path) -> None:
    write_scenes(tmp_path, [SCENE], frames=1)
    (tmp_path / VERSION / "ego_pose.json").unlink()
    (tmp_path / VERSION / "log.json").unlink()
    text = f"{tmp_path / VERSION} has no ego_pose.json, log.json; nuScenes tables are 13 JSON files"
    with pytest.raises(DataError, match=re.escape(text)):
        open_tables(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[{", "scene.json is not valid JSON"),
        ('{"a": 1}', "scene.json is no table: a list of records is expected"),
        ("[1, 2]", "scene.json is no table: a list of records is expected"),
        ("\udcff", "scene.json is not valid JSON"),
    ],
)
def test_broken_table(tmp_path: Path, text: str, told: str) -> None:
    write_scenes(tmp_path, [SCENE], frames=1)
    (tmp_path / VERSION / "scene.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=told):
        open_tables(tmp_path)


def without(key: str) -> Callable[[Any], Any]:
    return lambda records: [{name: value for name, value in record.items() if name != key} for record in records]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("sensor", lambda records: []),
        ("category", lambda records: []),
        ("sample", lambda records: []),
        ("sample_data", without("token")),
        ("map", without("log_tokens")),
    ],
)
def test_tables_that_contradict_each_other(tmp_path: Path, table: str, change: Callable[[Any], Any]) -> None:
    write_scenes(tmp_path, [SCENE], frames=1)
    edit_table(tmp_path, table, change)
    with pytest.raises(DataError, match=re.escape(f"the tables in {tmp_path / VERSION} contradict each other: '")):
        open_tables(tmp_path)


def test_thirteen_tables() -> None:
    assert len(TABLES) == len(set(TABLES)) == 13


def test_inspect_tells_domains_and_what_is_there(tmp_path: Path) -> None:
    write_scenes(tmp_path, [SCENE, ("scene-b", "paris", "Sun", "val"), ("scene-c", "boston-seaport", "Rain", "train")])
    next((tmp_path / "samples" / "CAM_BACK").iterdir()).unlink()
    report = describe(tmp_path)
    assert report.title == f"{tmp_path}: nuscenes folder" and report.notes == ()
    assert dict(report.rows) == {
        "layout": "nuscenes",
        "version": VERSION,
        "sensors": "CAM_BACK, CAM_FRONT, LIDAR_TOP",
        "files of keyframes": "26 of 27 are there",
        "scans in between": "0",
    }
    assert report.columns == ("domain", "split", "scenes", "keyframes", "boxes")
    assert report.table == (
        ("boston_day_rain", "train", "2", "6", "12"),
        ("none of the five", "val", "1", "3", "6"),
    )
    (tmp_path / "v1.0-other").mkdir()
    assert describe(tmp_path).notes == ("other versions, to see one name its folder: v1.0-other",)
