"""A vehicle's cameras and LiDAR played over DDS, recorded by a robot in another process; what bad folders end in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fed_msgs.msg import RobotStatus
from nav_msgs.msg import Odometry
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from fed_core.data.nuscenes.mounts import scan_mounts
from fed_core.data.nuscenes.recording import recorded_source
from fed_core.data.samples import open_samples
from fed_nodes import qos
from fed_nodes.convert.boxes import boxes_from_markers, markers_time_ns
from fed_nodes.convert.clouds import points_from_msg
from fed_nodes.convert.images import stamp_ns
from fed_nodes.convert.scans import odometry_from_msg
from tests.core.data.nuscenes_trees import CAMERAS, VERSION, write_scenes
from tests.ros.fleets import Fleet
from tests.ros.test_bad_input import refused_at_start

SCENES = [("scene-1", "boston-seaport", "sunny", "train")]
OPTIONS = {"cameras": list(CAMERAS), "sweeps": 0}


def source_of(root: Path) -> dict[str, Any]:
    return {"data": str(root), "options": OPTIONS}


def replay(fleet: Fleet, root: Path, **parameters: Any) -> Any:
    return fleet.replay("car", root, **{"task": "detection", "source": source_of(root), **parameters})


def test_a_robot_records_what_a_replay_plays(fleet: Fleet) -> None:
    root = fleet.folder / "drive"
    write_scenes(root, SCENES)
    played = open_samples("detection", source_of(root), Path())
    cameras, lidar = scan_mounts(played[0])
    watcher = fleet.watcher
    for kind, topic in ((PointCloud2, "LIDAR_TOP/points"), (MarkerArray, "truth/boxes"), (Odometry, "odometry")):
        watcher.watch(kind, f"/car/{topic}", qos.SENSORS_RELIABLE)
    watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    how = {"task": "detection", "network": "cmt_tiny", "network_options": {}, "record_frames": 3}
    fleet.robot("car", **how, rig=cameras, lidar=lidar)
    replay(fleet, root)

    # What is on the topics, in the LiDAR's frame and in the map.
    at = played[1].stamp_ns
    cloud = watcher.wait("/car/LIDAR_TOP/points", lambda m: stamp_ns(m.header.stamp) == at)
    np.testing.assert_allclose(points_from_msg(cloud), played[1].points, atol=1e-5)
    boxes = watcher.wait("/car/truth/boxes", lambda m: markers_time_ns(m) == at)
    np.testing.assert_allclose(boxes_from_markers(boxes).centres, played[1].boxes.centres, atol=1e-9)
    assert {m.header.frame_id for m in boxes.markers} == {cloud.header.frame_id} == {"lidar_top"}
    pose = watcher.wait("/car/odometry", lambda m: stamp_ns(m.header.stamp) == at)
    assert (pose.header.frame_id, pose.child_frame_id) == ("map", "base_link")
    np.testing.assert_allclose(odometry_from_msg(pose), played[1].ego_to_global, atol=1e-9)

    samples = fleet.folder / "robots" / "car" / "samples"
    watcher.until(samples.exists, 40.0)
    recorded = open_samples("detection", recorded_source(samples), Path())
    assert len(recorded) == 3
    for index in range(3):
        seen, back = played[index], recorded[index]
        assert (back.stamp_ns, back.cameras) == (seen.stamp_ns, CAMERAS)
        np.testing.assert_allclose(back.points, seen.points, atol=1e-5)
        np.testing.assert_allclose(back.lidar_to_camera, seen.lidar_to_camera, atol=1e-6)
        np.testing.assert_allclose(back.intrinsics, seen.intrinsics)
        np.testing.assert_allclose(back.boxes.centres, seen.boxes.centres, atol=1e-6)
        np.testing.assert_allclose(back.boxes.velocities, seen.boxes.velocities, atol=1e-6)
        assert back.boxes.labels.tolist() == seen.boxes.labels.tolist()


def test_a_broken_frame_is_skipped_aloud_and_the_others_are_played(fleet: Fleet) -> None:
    root = fleet.folder / "drive"
    write_scenes(root, SCENES)
    sorted((root / "samples" / "LIDAR_TOP").iterdir())[1].unlink()
    node = replay(fleet, root, reliable=False)
    node.wait_line(r".*skipped frame 1: cannot read .*LIDAR_TOP.*No such file")
    node.wait_line(r".*played 2 of 3 frames of drive")


def without_table(root: Path) -> None:
    (root / VERSION / "ego_pose.json").unlink()


def without_version(root: Path) -> None:
    (root / VERSION).rename(root / "tables")


@pytest.mark.parametrize(
    ("spoil", "texts"),
    [
        (without_table, ("has no ego_pose.json", "nuScenes tables are 13 JSON files")),
        (without_version, ("holds no folder v1.0-*",)),
    ],
)
def test_folders_that_are_no_nuscenes_end_in_one_line(fleet: Fleet, spoil: Any, texts: tuple[str, ...]) -> None:
    root = fleet.folder / "drive"
    write_scenes(root, SCENES)
    spoil(root)
    refused_at_start(replay(fleet, root), *texts)


def test_a_robot_without_a_lidar_is_refused(fleet: Fleet) -> None:
    node = fleet.robot("car", task="detection", network="cmt_tiny", network_options={})
    refused_at_start(node, "task detection records from a LiDAR and cameras: set lidar (and rig) to where they sit")
