import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.config import from_tree, to_tree
from fed_core.data.nuscenes.sequence import NuScenesOptions, NuScenesSequence
from fed_core.data.nuscenes.source import open_source
from fed_core.data.nuscenes.writer import TableWriter
from fed_core.data.open import SourceConfig
from fed_core.errors import ConfigError, DataError
from tests.core.data.nuscenes_trees import (
    CAMERAS,
    START_NS,
    STEP_NS,
    VERSION,
    edit_table,
    ego_to_global,
    lidar_to_ego,
    make_frame,
    write_scenes,
)

SCENES = [
    ("scene-a", "boston-seaport", "Sun", "train"),
    ("scene-b", "boston-seaport", "Sun", "val"),
    ("scene-c", "singapore-onenorth", "Night", "train"),
]
OPTIONS = {"cameras": list(CAMERAS), "sweeps": 0}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_scenes(tmp_path / "set", SCENES, frames=5)
    return tmp_path / "set"


def sequence(root: Path, **options: Any) -> NuScenesSequence:
    return NuScenesSequence("x", root, from_tree(NuScenesOptions, {**OPTIONS, **options}))


def steps(found: Any) -> list[int]:
    return [(frame.stamp_ns - START_NS) // STEP_NS for frame in found]


def change(**values: Any) -> Callable[[Any], Any]:
    return lambda records: [{**record, **values} for record in records]


def file_of(root: Path, channel: str, number: int = 0) -> Path:
    return sorted((root / "samples" / channel).iterdir())[number]


def test_scenes_follow_each_other_in_time_order(root: Path) -> None:
    edit_table(root, "sample", lambda records: records[::-1])
    found = sequence(root)
    assert steps(found) == [0, 1, 2, 3, 4] * 3
    assert [found.scene(index) for index in (0, 5, 10)] == ["scene-a", "scene-b", "scene-c"]
    assert found.token(7) == found[7].token and len({frame.token for frame in found}) == 15


def test_every_nth_keyframe_of_each_scene(root: Path) -> None:
    assert steps(sequence(root, load_interval=2)) == [0, 2, 4] * 3
    assert steps(NuScenesSequence("x", root, NuScenesOptions(cameras=CAMERAS), slice(4, None, 3))) == [4, 2, 0, 3]


def test_scenes_by_name_domain_and_split(root: Path) -> None:
    assert sequence(root, scenes=["scene-c", "scene-a"]).scenes == ("scene-a", "scene-c")
    assert sequence(root, domain="boston_day_clear").scenes == ("scene-a", "scene-b")
    assert sequence(root, split="train", domain="boston_day_clear").scenes == ("scene-a",)
    with pytest.raises(DataError, match="has no scene scene-z; it has 3 scenes"):
        sequence(root, scenes=["scene-z"])
    with pytest.raises(DataError, match=re.escape("no scene of split val, scenes scene-a; it has boston_day_clear")):
        sequence(root, split="val", scenes=["scene-a"])
    with pytest.raises(DataError, match="no keyframe of 'x' is in the part that is asked for"):
        NuScenesSequence("x", root, NuScenesOptions(cameras=CAMERAS), slice(99, None))
    with pytest.raises(DataError, match="has no camera CAM_FRONT_RIGHT; it has CAM_BACK, CAM_FRONT"):
        NuScenesSequence("x", root)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="name each camera once"):
        NuScenesOptions(cameras=("CAM_BACK", "CAM_BACK"))
    with pytest.raises(ConfigError, match="NuScenesOptions.domain is 'mars'; choose one of"):
        NuScenesOptions(domain="mars")
    with pytest.raises(ConfigError, match="sweeps is -1; it must be at least 0"):
        NuScenesOptions(sweeps=-1)


def test_earlier_keyframes_serve_as_scans(root: Path) -> None:
    """Where a folder has keyframes only, the scans before one are those; the first has none."""
    found = sequence(root, sweeps=2)
    assert [sorted({float(lag) for lag in found[index].points[:, 4]}) for index in range(4)] == [
        [0.0],
        [0.0, 0.5],
        [0.0, 0.5, 1.0],
        [0.0, 0.5, 1.0],
    ]
    assert (np.diff(found[3].points[:, 4]) >= 0).all()  # the newest first


def test_missing_sweeps_are_left_out_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = TableWriter(tmp_path, VERSION)
    writer.add_log("log-1", location="boston-seaport")
    writer.add_scene("scene-a", "Sun", split="train")
    for number in range(1, 4):
        scan = np.full((1, 4), 10 * number, np.float32)
        stamp_ns = START_NS - (4 - number) * 50_000_000
        pose = ego_to_global(0)
        writer.add_sweep(scan, stamp_ns, lidar_to_ego=lidar_to_ego(), ego_to_global=pose)
    writer.add_keyframe(make_frame(0), ("c", "p"))
    writer.close()
    found = NuScenesSequence("x", tmp_path, NuScenesOptions(cameras=CAMERAS))
    assert found[0].points[50:, 0].tolist() == [30, 20, 10]
    for path in sorted((tmp_path / "sweeps" / "LIDAR_TOP").iterdir())[1:]:
        path.unlink()
    with caplog.at_level(logging.WARNING):
        assert [found[0].points[50:, 0].tolist() for _ in range(2)] == [[10], [10]]
    assert len(caplog.records) == 1
    assert "x: earlier LiDAR scans are missing, frames go without them; the first: cannot read" in caplog.text


@pytest.mark.parametrize("channel", ["LIDAR_TOP", "CAM_BACK"])
def test_missing_and_broken_keyframe_files(root: Path, channel: str) -> None:
    """One broken frame, and the others are there."""
    path, found = file_of(root, channel), sequence(root)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(DataError, match="cut off"):
        found[0]
    path.write_bytes(b"")
    with pytest.raises(DataError, match=re.escape(f"{path} is empty")):
        found[0]
    path.unlink()
    with pytest.raises(DataError, match=re.escape(f"cannot read {path}: No such file or directory")):
        found[0]
    assert len(found[1].boxes) == 2


def test_points_that_are_not_finite_are_left_out(root: Path) -> None:
    path = file_of(root, "LIDAR_TOP")
    points = np.frombuffer(path.read_bytes(), "<f4").reshape(-1, 5).copy()
    points[3, 1] = np.nan
    path.write_bytes(points.tobytes())
    assert len(sequence(root)[0].points) == 49


@pytest.mark.parametrize(
    ("table", "values", "text"),
    [
        ("sample_data", {"width": 64}, "is 32x16, the tables say 64x16; was the picture resized?"),
        ("calibrated_sensor", {"camera_intrinsic": []}, "has no camera matrix of 3 x 3"),
        ("calibrated_sensor", {"rotation": [0, 0, 0, 0]}, "is no quaternion (w, x, y, z)"),
        ("calibrated_sensor", {"rotation": [1, 0, 0]}, "is no quaternion (w, x, y, z)"),
        ("ego_pose", {"translation": [1, 2, float("nan")]}, "is not finite"),
        ("sample_data", {"ego_pose_token": "gone"}, "KeyError('gone')"),
        ("sample_annotation", {"size": [1, 1, 0]}, "has a box without a size"),
        ("sample_annotation", {"num_lidar_pts": "many"}, ": ValueError"),
        ("calibrated_sensor", {"translation": [1, 2]}, ": ValueError"),
    ],
)
def test_broken_records_break_the_frame(root: Path, table: str, values: Any, text: str) -> None:
    edit_table(root, table, change(**values))
    with pytest.raises(DataError, match=re.escape(text)):
        sequence(root)[0]


@pytest.mark.parametrize(
    ("table", "key", "text"),
    [
        ("sample", "timestamp", "are broken: KeyError('timestamp')"),
        ("log", "location", "are broken at a scene or its log: KeyError('location')"),
        ("sensor", "modality", "contradict each other: 'modality' is named but not there"),
        ("sample_data", "is_key_frame", "contradict each other: 'is_key_frame' is named but not there"),
    ],
)
def test_broken_records_close_the_folder(root: Path, table: str, key: str, text: str) -> None:
    edit_table(root, table, lambda rows: [{k: v for k, v in row.items() if k != key} for row in rows])
    with pytest.raises(DataError, match=re.escape(f"the tables in {root / VERSION} {text}")):
        sequence(root)


def test_broken_keyframe_is_named(root: Path) -> None:
    edit_table(root, "sample_annotation", change(num_lidar_pts="many"))
    found = sequence(root)
    with pytest.raises(DataError, match=re.escape(f"the tables in {root / VERSION} are broken at keyframe ")):
        found[0]


def test_keyframe_without_a_sensor(root: Path) -> None:
    edit_table(root, "sample_data", lambda rows: [row for row in rows if "scene-a__CAM_BACK" not in row["filename"]])
    found = sequence(root)
    with pytest.raises(DataError, match=re.escape("has no CAM_BACK; it has CAM_FRONT, LIDAR_TOP")):
        found[0]
    assert len(found[5].images) == 2


def test_categories_that_are_not_scored_are_left_out(root: Path) -> None:
    def rename(records: Any) -> Any:
        return [{**row, "name": "animal"} if row["name"] == "vehicle.car" else row for row in records]

    edit_table(root, "category", rename)
    found = sequence(root)
    assert found[0].boxes.labels.tolist() == [8]


def test_entry_of_a_fleet_file(root: Path) -> None:
    entry = {"data": "set", "reader": "nuscenes", "start": 1, "step": 2, "options": {**OPTIONS, "split": "train"}}
    config = from_tree(SourceConfig, entry)
    found = open_source(json.loads(json.dumps(to_tree(config))), root.parent)
    assert steps(found) == steps(open_source(config, root.parent)) == [1, 3, 0, 2, 4]
    assert (found.name, found.source) == ("set", str(root))
    named = open_source({**entry, "options": {**OPTIONS, "domain": "boston_day_clear"}}, root.parent)
    assert named.name == "boston_day_clear"


def test_parts_are_pooled(root: Path) -> None:
    parts = [{"data": "set", "options": {**OPTIONS, "scenes": [name]}} for name in ("scene-c", "scene-a")]
    pooled = open_source({"parts": parts, "step": 4, "name": "all"}, root.parent)
    assert pooled.name == "all" and steps(pooled) == [0, 4, 3]


def test_entries_of_other_tasks_are_named(root: Path) -> None:
    base = {"data": str(root), "options": OPTIONS}
    with pytest.raises(ConfigError, match="task detection reads folders of the layout 'nuscenes', not the layout 'o"):
        open_source({**base, "reader": "opv2v"}, Path())
    with pytest.raises(ConfigError, match="not a generated sequence"):
        open_source({"generated": {"platform": "legged", "environment": "indoor"}}, Path())
    with pytest.raises(ConfigError, match="'scenarios' belong to folders of opv2v; nuScenes has"):
        open_source({**base, "scenarios": ["scene-a"]}, Path())
    with pytest.raises(ConfigError, match="source.options: unknown key 'sweep'"):
        open_source({**base, "options": {"sweep": 1}}, Path())
    with pytest.raises(DataError, match="nothing is not a folder"):
        open_source({**base, "data": str(root / "nothing")}, Path())


def test_earlier_scans_are_where_the_devkit_has_them(root: Path) -> None:
    from nuscenes.utils.data_classes import LidarPointCloud

    found = sequence(root, sweeps=2)
    sample = found.tables.get("sample", found.token(3))
    cloud, lags = LidarPointCloud.from_file_multisweep(found.tables, sample, "LIDAR_TOP", "LIDAR_TOP", 3, 1.0)
    ours, theirs = found[3].points, np.column_stack([cloud.points.T, lags[0]])
    assert len(ours) == len(theirs) == 149  # one point of an earlier scan is the vehicle
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
