import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from fed_core.data.nuscenes.poses import inverse, matrix_of, pose_of
from fed_core.data.nuscenes.records import merge_tables
from fed_core.data.nuscenes.sequence import NuScenesOptions, NuScenesSequence
from fed_core.data.nuscenes.tables import TABLES, open_tables
from fed_core.data.nuscenes.writer import TableWriter
from fed_core.errors import DataError
from tests.core.data.nuscenes_trees import (
    CAMERAS,
    STEP_M,
    STEP_NS,
    VERSION,
    boxes_of,
    ego_to_global,
    lidar_to_ego,
    make_frame,
    write_scenes,
)

SCENE = ("scene-a", "boston-seaport", "Rain, many cars", "train")
OPTIONS = NuScenesOptions(cameras=CAMERAS)


def begun(root: Path) -> TableWriter:
    writer = TableWriter(root, VERSION)
    writer.add_log("log-1", location="boston-seaport")
    writer.add_scene("scene-a", "Rain", split="train")
    return writer


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_scenes(tmp_path, [SCENE])
    sequence = NuScenesSequence("x", tmp_path, OPTIONS)
    assert len(sequence) == 3
    for number in range(3):
        frame, wrote = sequence[number], make_frame(number)
        assert frame.stamp_ns == wrote.stamp_ns and frame.cameras == wrote.cameras
        np.testing.assert_array_equal(frame.points[: len(wrote.points)], wrote.points)
        np.testing.assert_allclose(frame.lidar_to_camera, wrote.lidar_to_camera, atol=1e-9)
        np.testing.assert_allclose(frame.lidar_to_ego, wrote.lidar_to_ego, atol=1e-9)
        np.testing.assert_allclose(frame.ego_to_global, wrote.ego_to_global, atol=1e-9)
        np.testing.assert_array_equal(frame.intrinsics, wrote.intrinsics)
        for image, picture in zip(frame.images, wrote.images, strict=True):
            assert int(np.abs(image.astype(int) - picture).max()) <= 2  # JPEG
        np.testing.assert_allclose(frame.boxes.centres, wrote.boxes.centres, atol=1e-9)
        np.testing.assert_allclose(frame.boxes.sizes, wrote.boxes.sizes)
        np.testing.assert_allclose(frame.boxes.yaws, wrote.boxes.yaws, atol=1e-9)
        np.testing.assert_array_equal(frame.boxes.labels, wrote.boxes.labels)
        np.testing.assert_array_equal(frame.boxes.num_points, wrote.boxes.num_points)


def test_velocity_is_over_ground_in_the_axes_of_the_lidar(tmp_path: Path) -> None:
    """Boxes that keep their place before a vehicle that drives at 4 m/s drive at 4 m/s, too: ahead, the LiDAR's y."""
    write_scenes(tmp_path, [SCENE])
    velocities = NuScenesSequence("x", tmp_path, OPTIONS)[1].boxes.velocities
    speed = STEP_M / (STEP_NS / 1e9)
    np.testing.assert_allclose(velocities, [[0.0, speed * np.cos(np.radians(0.5))]] * 2, atol=1e-6)


def test_earlier_scans_are_moved_to_the_lidar_of_the_keyframe(tmp_path: Path) -> None:
    """A post 10 m ahead of the first scan is 9 m ahead half a step later; what is within a metre is the vehicle."""
    writer = begun(tmp_path)
    post, own = [0.0, 10.0, 0.0, 7.0], [0.5, -0.9, 0.0, 1.0]
    start = make_frame(0)
    writer.add_sweep(
        np.array([post, own], np.float32),
        start.stamp_ns - STEP_NS // 2,
        lidar_to_ego=lidar_to_ego(),
        ego_to_global=ego_to_global(-0.5),  # type: ignore[arg-type]
    )
    writer.add_keyframe(start, ("c", "p"))
    writer.close()
    frame = NuScenesSequence("x", tmp_path, OPTIONS)[0]
    assert frame.points.shape == (51, 5)
    ahead = STEP_M / 2 * np.array([0.0, np.cos(np.radians(0.5)), -np.sin(np.radians(0.5))])
    np.testing.assert_allclose(frame.points[50, :3], post[:3] - ahead, atol=1e-5)
    np.testing.assert_allclose(frame.points[50, 3:], [7.0, 0.25], atol=1e-6)
    np.testing.assert_array_equal(frame.points[:50], start.points)


def test_same_input_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_scenes(tmp_path / folder, [SCENE])
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) == len(TABLES) + 1 + 3 * 3
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_equal_mounts_are_one_record(tmp_path: Path) -> None:
    write_scenes(tmp_path, [SCENE, ("scene-b", "boston-seaport", "Sun", "val")])
    tables = open_tables(tmp_path)
    assert len(tables.calibrated_sensor) == 3 and len(tables.log) == 1 and len(tables.instance) == 4


def test_lagging_points_are_not_written_twice(tmp_path: Path) -> None:
    writer, frame = begun(tmp_path), make_frame(0)
    late = frame.points.copy()
    late[:, 4] = 0.1
    writer.add_keyframe(replace(frame, points=np.concatenate([frame.points, late])), ("c", "p"))
    writer.close()
    np.testing.assert_array_equal(NuScenesSequence("x", tmp_path, OPTIONS)[0].points, frame.points)


def test_parts_join_to_what_one_writer_writes(tmp_path: Path) -> None:
    scenes = [SCENE, ("scene-b", "singapore-onenorth", "Night", "val")]
    write_scenes(tmp_path / "whole", scenes)
    root = tmp_path / "parts"
    for scene in scenes:
        write_scenes(root, [scene], version=f"parts/{scene[0]}")
    merge_tables(root, ["parts/scene-a", "parts/scene-b"], VERSION)
    for name in TABLES:
        rows = [json.loads((base / VERSION / f"{name}.json").read_text()) for base in (tmp_path / "whole", root)]
        assert rows[0] == rows[1], name
    assert json.loads((root / VERSION / "splits.json").read_text()) == {"train": ["scene-a"], "val": ["scene-b"]}
    with pytest.raises(DataError, match="scene scene-a is in parts/scene-a and in another part"):
        merge_tables(root, ["parts/scene-a", "parts/scene-a"], "v1.0-twice")


def test_frame_without_boxes(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    writer.add_keyframe(make_frame(0, ()), ())
    writer.add_keyframe(make_frame(1), ("c", "p"))
    writer.close()
    sequence = NuScenesSequence("x", tmp_path, OPTIONS)
    assert len(sequence[0].boxes) == 0 and sequence[0].boxes.sizes.shape == (0, 3)
    assert sequence[0].boxes.velocities.shape == (0, 2)
    assert np.isnan(sequence[1].boxes.velocities).all()  # seen once


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda w: w.add_keyframe(make_frame(0), ("c",)), "2 boxes come with 1 instances and 2 attributes"),
        (lambda w: w.add_keyframe(make_frame(0), ("c", "c")), "an instance is named twice in one keyframe"),
        (lambda w: w.add_keyframe(make_frame(0), ("c", "p"), ("", "flying")), "attribute 'flying' is not known"),
        (lambda w: w.add_scene("scene-b", "", split="train"), "scene scene-a has no keyframe"),
        (lambda w: w.close(), "scene scene-a has no keyframe"),
    ],
)
def test_bad_use_is_refused(tmp_path: Path, change: object, text: str) -> None:
    with pytest.raises(DataError, match=re.escape(text)):
        change(begun(tmp_path))  # type: ignore[operator]


def test_order_and_class_of_objects_are_checked(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    writer.add_keyframe(make_frame(1), ("c", "p"))
    with pytest.raises(DataError, match="add in time order"):
        writer.add_keyframe(make_frame(0), ("c", "p"))
    with pytest.raises(DataError, match="c was of another class before it was a bus"):
        writer.add_keyframe(make_frame(2, boxes=boxes_of(("bus",))), ("c",))
    with pytest.raises(DataError, match="scene scene-a is there already"):
        writer.add_scene("scene-a", "", split="val")
    with pytest.raises(DataError, match="split is 'test'; choose one of train, val"):
        writer.add_scene("scene-b", "", split="test")


def test_names_must_fit_files(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    with pytest.raises(DataError, match="camera '../front': use letters, digits, _ and - for its name"):
        writer.add_keyframe(make_frame(0, cameras=("../front", "CAM_BACK")), ("c", "p"))
    writer.add_keyframe(make_frame(0), ("c", "p"))
    with pytest.raises(DataError, match="scene 'a/b': use letters"):
        writer.add_scene("a/b", "", split="train")


@given(angles=st.tuples(*[st.floats(-np.pi, np.pi)] * 3), place=st.tuples(*[st.floats(-1e4, 1e4)] * 3))
def test_poses_keep_every_turn(angles: tuple[float, ...], place: tuple[float, ...]) -> None:
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("zyx", angles).as_matrix()
    matrix[:3, 3] = place
    pose = pose_of(matrix)
    np.testing.assert_allclose(matrix_of(pose), matrix, atol=1e-12)
    np.testing.assert_allclose(inverse(matrix) @ matrix, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(pose["rotation"]), 1.0)
    assert pose["rotation"][0] >= 0


def test_order_of_calls(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, VERSION)
    with pytest.raises(DataError, match="add_log comes first"):
        writer.add_scene("scene-a", "", split="train")
    with pytest.raises(DataError, match="add_scene comes first"):
        writer.add_keyframe(make_frame(0), ("c", "p"))
    with pytest.raises(DataError, match="nothing was written"):
        writer.close()
    write_scenes(tmp_path, [SCENE])
    with pytest.raises(DataError, match="exists already; choose another folder"):
        TableWriter(tmp_path, VERSION)
