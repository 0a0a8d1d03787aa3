"""A vehicle's cameras played over DDS, recorded by a robot in another process; and what bad folders end in."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fed_msgs.msg import RobotStatus
from nav_msgs.msg import OccupancyGrid

from fed_core.data.opv2v.mounts import rig_tree
from fed_core.data.opv2v.writer import recorded_source
from fed_core.data.samples import open_samples
from fed_nodes import qos
from fed_nodes.convert.images import stamp_ns
from fed_nodes.convert.occupancy import occupancy_from_msg
from tests.core.data.opv2v_trees import SCENARIO, write_frame
from tests.ros.fleets import Fleet
from tests.ros.test_bad_input import refused_at_start

OPTIONS = {"map_size": 16}


def vehicle(root: Path, frames: int = 3) -> Path:
    """Write a folder of grey pictures; frame k has a vehicle in cell (3, k)."""
    folder = root / SCENARIO / "641"
    for index in range(frames):
        name = f"{index:06d}"
        write_frame(folder, name)
        mask = np.zeros((16, 16), np.uint8)
        mask[3, index] = 255
        cv2.imwrite(str(folder / f"{name}_bev_visibility.png"), mask)
    return folder


def replay(fleet: Fleet, root: Path, **parameters: Any) -> Any:
    source = {"data": str(root), "options": OPTIONS}
    return fleet.replay("car", root, **{"task": "bev", "source": source, **parameters})


def test_a_robot_records_what_a_replay_plays_and_the_map_is_in_base_link(fleet: Fleet) -> None:
    root = fleet.folder / "drive"
    vehicle(root)
    played = open_samples("bev", {"data": str(root), "options": OPTIONS}, Path())
    fleet.watcher.watch(OccupancyGrid, "/car/truth/occupancy", qos.SENSORS_RELIABLE)
    fleet.watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    fleet.robot("car", task="bev", network="fax_tiny", network_options={}, record_frames=3, rig=rig_tree(played[0]))
    replay(fleet, root)

    grid = fleet.watcher.wait("/car/truth/occupancy", lambda m: stamp_ns(m.header.stamp) == played[1].stamp_ns)
    assert grid.header.frame_id == "base_link"
    cells, extent_m = occupancy_from_msg(grid)
    assert extent_m == 100.0 and np.argwhere(cells == 1.0).tolist() == [[3, 1]]

    samples = fleet.folder / "robots" / "car" / "samples"
    fleet.watcher.until(samples.exists, 40.0)
    recorded = open_samples("bev", recorded_source(samples), Path())
    assert len(recorded) == 3
    for index in range(3):
        mine, theirs = recorded[index], played[index]
        assert (mine.cameras, mine.stamp_ns) == (theirs.cameras, theirs.stamp_ns)
        np.testing.assert_array_equal(np.stack(mine.images), np.stack(theirs.images))
        np.testing.assert_allclose(mine.extrinsics, theirs.extrinsics, atol=1e-9)
        np.testing.assert_allclose(mine.intrinsics, theirs.intrinsics, atol=1e-9)
        np.testing.assert_array_equal(mine.mask, theirs.mask)


def test_what_cannot_be_played_or_recorded_ends_in_one_line(fleet: Fleet) -> None:
    folder = vehicle(fleet.folder / "camera_gone", frames=1)
    (folder / "000000_camera2.png").unlink()
    told = ("no frame of camera_gone can be read", "000000_camera2.png")
    refused_at_start(replay(fleet, fleet.folder / "camera_gone"), *told)
    told = ("task bev records from several cameras: set rig to where they sit",)
    refused_at_start(fleet.robot("car", task="bev"), *told)


@pytest.mark.parametrize("missing", ["000001_camera0.png", "000001.yaml"])
def test_a_broken_frame_is_left_out_and_told(fleet: Fleet, missing: str) -> None:
    folder = vehicle(fleet.folder / "drive")
    if missing.endswith("png"):
        (folder / missing).unlink()
    else:
        (folder / missing).write_text("true_ego_pos: [")
    fleet.watcher.watch(OccupancyGrid, "/car/truth/occupancy", qos.SENSORS_RELIABLE)
    process = replay(fleet, fleet.folder / "drive", reliable=False, rate_hz=20.0)
    process.wait_line(rf".*skipped frame 1: .*{missing}")
    process.wait_line(r".*played 2 of 3 frames of drive")
