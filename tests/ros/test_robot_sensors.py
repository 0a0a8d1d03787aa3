"""A real robot process beside its sensors: what they give is recorded, and what is wrong with them is told."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import CameraInfo, Image, PointCloud2

from fed_core.data.open import open_sequence
from fed_nodes import qos
from tests.nodes.frame_bench import MOUNT, START_NS, cloud, colour, info
from tests.ros.fleets import Fleet

# A robot loads much, and the machine may be busy.
pytestmark = pytest.mark.timeout(200)

IMAGES, CLOUDS = "/spot/camera/image_raw", "/spot/lidar/points"


class Sensors:
    """Camera and LiDAR of one robot, published from the watcher's node; both have one stamp."""

    def __init__(self, fleet: Fleet) -> None:
        self._watcher, profile = fleet.watcher, qos.SENSORS_RELIABLE
        node = self._watcher.node
        self._images = node.create_publisher(Image, IMAGES, profile)
        self._clouds = node.create_publisher(PointCloud2, CLOUDS, profile)
        self._infos = node.create_publisher(CameraInfo, "/spot/camera/camera_info", profile)
        self._watcher.watch(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
        self._number = 0

    def show(self, *points: tuple[float, float, float]) -> None:
        """Publish one set."""
        self._number += 1
        self._infos.publish(info())
        self._images.publish(colour(100 * self._number))
        self._clouds.publish(cloud(100 * self._number, *points))

    def until_told(self, text: str, *points: tuple[float, float, float]) -> dict[str, str]:
        """Publish sets until the robot's diagnostics say a text; return their values."""

        def told() -> Any:
            self.show(*points)
            states = [m.status[0] for m in list(self._watcher.messages["/diagnostics"])]
            return [state for state in states if "/spot/robot_client" in state.name and text in state.message]

        (state, *_) = self._watcher.until(told, 90.0)
        return {value.key: value.value for value in state.values}


def test_a_robot_with_a_lidar_tells_bad_clouds_and_records_the_good_ones(fleet: Fleet) -> None:
    sensors = Sensors(fleet)
    robot = fleet.robot("spot", depth_from="lidar", lidar_mount=MOUNT, record_frames=3, segment_bytes=1_000_000)
    values = sensors.until_told("/spot/lidar/points: dropped a frame: a cloud of 0x1 points is empty")
    assert int(values["refused_frames"]) > 0 and values["frames"] == "0"
    assert float(values[f"{CLOUDS} rate_hz"]) > 0 and int(values[f"{CLOUDS} dropped"]) > 0
    for _ in range(4):
        sensors.show((4.0, -1.0, 0.5))
    robot.wait_line(r".*recorded 3 frames")
    sequence = open_sequence(Path(fleet.folder) / "robots" / "spot" / "snapshots" / "recorded")
    assert len(sequence) == 3
    assert (sequence[0].stamp_ns - START_NS) % 100_000_000 == 0
    assert np.argwhere(np.isfinite(sequence[2].depth_m)).tolist() == [[4, 10]]
    assert robot.stop() == 0


def test_a_lidar_that_nobody_placed_keeps_the_robot_from_starting(fleet: Fleet) -> None:
    robot = fleet.robot("spot", depth_from="lidar")
    assert robot.wait(60.0) == 2
    errors = [line for line in robot.output if line.startswith("error: ")]
    assert len(errors) == 1 and "nothing says where it sits; give lidar_mount a position and a rotation" in errors[0]


@pytest.mark.skipif(find_spec("tf2_ros") is not None, reason="tf2_ros is installed, so that nothing is missing")
def test_extrinsics_of_tf_need_tf2(fleet: Fleet) -> None:
    robot = fleet.robot("spot", depth_from="lidar", extrinsics="tf")
    assert robot.wait(60.0) == 2
    assert sum("extrinsics is tf, but tf2_ros is not installed here" in line for line in robot.output) == 1
