"""The one keyframe of nuScenes with its sensor files, against what mmdetection3d made of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.data.nuscenes.sequence import CAMERAS, NuScenesOptions, NuScenesSequence
from fed_core.errors import DataError
from fed_core.types import DETECTION_CLASSES, DetectionFrame

SCENE = NuScenesOptions(scenes=("scene-0061",))


@pytest.fixture(scope="module")
def root(shared_data: Path) -> Path:
    return shared_data / "nuscenes_tables_mini_val"


@pytest.fixture(scope="module")
def frame(root: Path) -> DetectionFrame:
    return NuScenesSequence("x", root, SCENE)[0]


@pytest.fixture(scope="module")
def info(shared_data: Path) -> Any:
    tree = json.loads((shared_data / "nuscenes_sample_scene0061" / "info.json").read_text())
    return {**tree["data_list"][0], "classes": tree["metainfo"]["categories"]}


def test_pictures_and_points(frame: DetectionFrame) -> None:
    assert frame.cameras == CAMERAS
    assert all(image.shape == (900, 1600, 3) and image.dtype == np.uint8 for image in frame.images)
    assert (frame.points.shape, frame.points.dtype) == ((34688, 5), np.float32)
    assert (frame.points[:, 4] == 0).all()  # no earlier scans in this folder
    assert frame.token == "ca9a282c9e77460f8360f564131a8af5" and frame.stamp_ns == 1532402927647951000


def test_calibration_is_that_of_mmdetection3d(frame: DetectionFrame, info: Any) -> None:
    for row, camera in enumerate(frame.cameras):
        theirs = info["images"][camera]
        np.testing.assert_allclose(frame.lidar_to_camera[row], theirs["lidar2cam"], atol=1e-6)
        np.testing.assert_allclose(frame.intrinsics[row], theirs["cam2img"], atol=1e-6)
    np.testing.assert_allclose(frame.lidar_to_ego, info["lidar_points"]["lidar2ego"], atol=1e-6)
    np.testing.assert_allclose(frame.ego_to_global, info["ego2global"], atol=1e-4)  # float32


def test_boxes_are_those_of_mmdetection3d(frame: DetectionFrame, info: Any) -> None:
    """All 69 but the one that is of no class; sizes are length, width, height."""
    theirs = [each for each in info["instances"] if each["bbox_label_3d"] >= 0]
    assert (len(info["instances"]), len(theirs), len(frame.boxes)) == (69, 68, 68)
    boxes, values = frame.boxes, np.array([each["bbox_3d"] for each in theirs])
    names = {number: name for name, number in info["classes"].items()}
    assert [DETECTION_CLASSES[label] for label in boxes.labels] == [names[each["bbox_label_3d"]] for each in theirs]
    np.testing.assert_allclose(boxes.centres, values[:, :3], atol=1e-5)
    np.testing.assert_allclose(boxes.sizes, values[:, 3:6], atol=1e-9)
    np.testing.assert_allclose(boxes.yaws, values[:, 6], atol=1e-9)
    np.testing.assert_array_equal(boxes.num_points, [each["num_lidar_pts"] for each in theirs])
    assert np.isnan(boxes.velocities).all()  # one keyframe of each object


def test_points_lie_in_the_boxes(frame: DetectionFrame) -> None:
    counts = []
    for centre, size, yaw in zip(frame.boxes.centres, frame.boxes.sizes, frame.boxes.yaws, strict=True):
        away = frame.points[:, :3] - centre
        along = away[:, 0] * np.cos(yaw) + away[:, 1] * np.sin(yaw)
        across = away[:, 1] * np.cos(yaw) - away[:, 0] * np.sin(yaw)
        inside = np.abs(np.column_stack([along, across, away[:, 2]])) <= size / 2
        counts.append(int(inside.all(1).sum()))
    assert np.corrcoef(counts, frame.boxes.num_points)[0, 1] > 0.999
    assert np.median(np.abs(np.array(counts) - frame.boxes.num_points)) <= 1


def seen(frame: DetectionFrame, camera: int) -> np.ndarray:
    """Which box centres lie inside a picture."""
    points = np.column_stack([frame.boxes.centres, np.ones(len(frame.boxes))]) @ frame.lidar_to_camera[camera].T
    pixels = points[:, :3] @ frame.intrinsics[camera].T
    with np.errstate(divide="ignore", invalid="ignore"):
        column, row = pixels[:, 0] / pixels[:, 2], pixels[:, 1] / pixels[:, 2]
    result: np.ndarray = (points[:, 2] > 1) & (column >= 0) & (column < 1600) & (row >= 0) & (row < 900)
    return result


def test_every_box_is_in_a_picture_and_the_car_ahead_in_that_of_the_front(frame: DetectionFrame) -> None:
    views = np.array([seen(frame, camera) for camera in range(6)])
    assert views.any(0).all()
    ahead = (frame.boxes.labels == 0) & (np.abs(frame.boxes.centres[:, 0]) < 5) & (frame.boxes.centres[:, 1] > 5)
    assert ahead.any() and views[0][ahead].all()
    # A box in the picture of the front lies ahead (the LiDAR's y), one in that of the back behind.
    assert (frame.boxes.centres[views[0], 1] > 0).all() and (frame.boxes.centres[views[3], 1] < 0).all()


def test_fewer_cameras_and_boxes(root: Path, frame: DetectionFrame) -> None:
    options = NuScenesOptions(scenes=("scene-0061",), cameras=("CAM_BACK", "CAM_FRONT"), min_points=5)
    small = NuScenesSequence("x", root, options)[0]
    np.testing.assert_array_equal(small.images[1], frame.images[0])
    assert small.lidar_to_camera.shape == (2, 4, 4)
    assert len(small.boxes) == (frame.boxes.num_points >= 5).sum() == 27
    blind = NuScenesSequence("x", root, NuScenesOptions(scenes=("scene-0061",), cameras=()))[0]
    assert blind.images == () and blind.lidar_to_camera.shape == (0, 4, 4)


def test_velocities_of_real_tracks(root: Path) -> None:
    """Scenes without sensor files still tell boxes: speeds are those of the devkit, in the LiDAR's axes."""
    from fed_core.data.nuscenes.frames import read_boxes
    from fed_core.data.nuscenes.poses import matrix_of

    tables = NuScenesSequence("x", root, SCENE).tables
    sample = next(s for s in tables.sample if len(s["anns"]) > 40 and s["prev"])
    record = tables.get("sample_data", sample["data"]["LIDAR_TOP"])
    pose = matrix_of(tables.get("ego_pose", record["ego_pose_token"]))
    pose = pose @ matrix_of(tables.get("calibrated_sensor", record["calibrated_sensor_token"]))
    _, theirs, _ = tables.get_sample_data(record["token"])
    over_ground = np.array([tables.box_velocity(box.token) for box in theirs])
    boxes = read_boxes(tables, sample, pose)
    kept = [row for row, box in enumerate(theirs) if box.name != "static_object.bicycle_rack"]
    assert len(kept) == len(boxes)
    np.testing.assert_allclose(boxes.centres, [theirs[row].center for row in kept], atol=1e-6)
    np.testing.assert_allclose(boxes.sizes[:, [1, 0, 2]], [theirs[row].wlh for row in kept])
    heads = [theirs[row].orientation.rotation_matrix[:2, 0] for row in kept]
    np.testing.assert_allclose(boxes.yaws, np.arctan2(*np.array(heads).T[::-1]), atol=1e-9)
    speeds, ours = np.linalg.norm(over_ground[kept][:, :2], axis=1), np.linalg.norm(boxes.velocities, axis=1)
    np.testing.assert_allclose(ours, speeds, rtol=0.01)  # the LiDAR is tilted a little
    fast = (ours > 2) & (boxes.labels == 0)
    way = np.arctan2(boxes.velocities[fast, 1], boxes.velocities[fast, 0]) - boxes.yaws[fast]
    assert fast.sum() >= 1 and (np.cos(way) > 0.99).all()  # cars drive where they head


def test_keyframe_without_its_files_is_a_broken_frame(root: Path) -> None:
    sequence = NuScenesSequence("x", root, NuScenesOptions(scenes=("scene-0103",)))
    assert len(sequence) == 40 and sequence.scene(0) == "scene-0103"
    with pytest.raises(DataError, match="cannot read .*CAM_FRONT.*No such file or directory"):
        sequence[0]
