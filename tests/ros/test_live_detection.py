"""Live detection over DDS: what the robot's model says of a recorded frame is what its topics say.

A robot trains on a few keyframes and keeps layers to itself (FedCKA); the inference node on it serves the fleet's
layers merged with these. Clouds that lie end in diagnostics, and the next scan is served.
"""

from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from fed_msgs.msg import FleetStatus, LayerMask
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from visualization_msgs.msg import MarkerArray

from fed_core.data.nuscenes.mounts import scan_mounts
from fed_core.data.samples import open_samples
from fed_core.types import DetectionFrame
from fed_core.wire.codec import open_tensors
from fed_nodes import qos
from fed_nodes.convert.boxes import boxes_from_markers, markers_time_ns, vision_messages
from fed_nodes.convert.images import stamp_ns
from fed_nodes.convert.scans import cloud_to_msg, images_to_msgs
from tests.core.data.nuscenes_trees import CAMERAS, write_scenes
from tests.ros.fleets import Fleet

# Four processes that load PyTorch, on a machine that may be busy.
pytestmark = pytest.mark.timeout(300)

OUTPUT, DETECTIONS = "/car/detections/markers", "/car/detections"
NETWORK: dict[str, Any] = {"task": "detection", "network": "cmt_tiny", "network_options": {"queries": 20, "noise": 20}}
#: Layers that drift at all are kept, so that both kinds are served.
STRATEGY = {"strategy": "fedcka", "strategy_options": {"tau": 0.999, "frames": 2}}
TRAIN = {"lr": 5e-3, "batch_size": 2, "local_epochs": 4, "augment": False}


class Vehicle:
    """Publishes what the sensors of a car see."""

    def __init__(self, fleet: Fleet, source: dict[str, Any]) -> None:
        self.watcher, self.folder = fleet.watcher, fleet.folder
        sequence = open_samples("detection", source, Path())
        self.frames: list[DetectionFrame] = [sequence[index] for index in range(len(sequence))]
        node, profile = self.watcher.node, qos.SENSORS_RELIABLE
        self._images = [node.create_publisher(Image, f"/car/{name}/image_raw", profile) for name in CAMERAS]
        self._infos = [node.create_publisher(CameraInfo, f"/car/{name}/camera_info", profile) for name in CAMERAS]
        self._clouds = node.create_publisher(PointCloud2, "/car/LIDAR_TOP/points", profile)

    def ready(self) -> bool:
        return all(p.get_subscription_count() for p in (*self._images, *self._infos, self._clouds))

    def show(self, number: int, time_ms: int, **lies: Any) -> None:
        """Publish frame ``number`` at another time; ``lies`` replace fields of the cloud."""
        frame = replace(self.frames[number], stamp_ns=time_ms * 1_000_000)
        for images, infos, (image, info) in zip(self._images, self._infos, images_to_msgs(frame), strict=True):
            infos.publish(info)
            images.publish(image)
        cloud = cloud_to_msg(frame, "top")
        for name, value in lies.items():
            setattr(cloud, name, value)
        self._clouds.publish(cloud)

    def boxes_of(self, number: int, start_ms: int) -> MarkerArray:
        """Show a frame until boxes of it come."""
        numbers: Iterator[int] = count()

        def shown() -> list[MarkerArray]:
            self.show(number, start_ms + 100 * next(numbers))
            return [m for m in self.watcher.messages[OUTPUT] if markers_time_ns(m) >= start_ms * 1_000_000]

        return self.watcher.until(shown, 60.0)[0]

    def predicted(self, number: int) -> Any:
        """Return what the robot's own model says of a frame, straight from its files."""
        from fed_core.tasks.detection.task import DetectionTask
        from fed_models import build, load_arrays

        network = build(NETWORK["network"], NETWORK["network_options"])
        # One robot is the whole fleet, so what it ended with is the mean, and its own layers.
        own = self.folder / "robots" / "car" / "rounds" / "tiny" / "2" / "own.safetensors"
        load_arrays(network, open_tensors(own))
        return DetectionTask().predict(network.eval(), self.frames[number])


@pytest.fixture(scope="module")
def served(shared_fleet: Fleet) -> Vehicle:
    """A trained fleet of one robot, with inference running on it."""
    fleet, watcher = shared_fleet, shared_fleet.watcher
    write_scenes(fleet.folder / "drive", [("scene-1", "boston-seaport", "sunny", "train")], frames=4)
    source = {"data": str(fleet.folder / "drive"), "options": {"cameras": list(CAMERAS), "sweeps": 0}}
    watcher.watch(FleetStatus, "/fleet/status", qos.LATCHED)
    watcher.watch(LayerMask, "/fleet/masks", qos.UPDATES)
    watcher.watch(MarkerArray, OUTPUT, qos.OUTPUTS)
    if (messages := vision_messages()) is not None:  # not in the wheels, but with an installed ROS 2
        watcher.watch(messages.Detection3DArray, DETECTIONS, qos.OUTPUTS)
    watcher.watch(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
    fleet.aggregator(**NETWORK, **STRATEGY, train=TRAIN, rounds=2, min_robots=1)
    fleet.robot("car", **NETWORK, nice=0, source=source)
    watcher.wait("/fleet/status", lambda m: m.phase == "finished", 180.0)
    vehicle = Vehicle(fleet, source)
    cameras, lidar = scan_mounts(vehicle.frames[0])
    robot = {"robot_id": "car", "robot_dir": fleet.folder / "robots" / "car"}
    fleet.inference("car", rig=cameras, lidar=lidar, min_score=0.0, **robot)
    watcher.until(vehicle.ready, 90.0)
    return vehicle


@pytest.mark.parametrize(("number", "start_ms"), [(0, 100_000), (3, 200_000)])
def test_boxes_are_those_that_the_robots_model_finds(served: Vehicle, number: int, start_ms: int) -> None:
    msg = served.boxes_of(number, start_ms)
    live, expected = boxes_from_markers(msg), served.predicted(number)
    assert {marker.header.frame_id for marker in msg.markers} == {"top"}
    assert len(live) == len(expected) > 0
    if vision_messages() is not None:
        found = served.watcher.wait(DETECTIONS, lambda m: stamp_ns(m.header.stamp) == markers_time_ns(msg))
        assert [d.results[0].hypothesis.score for d in found.detections] == pytest.approx(expected.scores, abs=1e-4)
        assert found.header.frame_id == "top"
    np.testing.assert_allclose(live.scores, expected.scores, atol=1e-4)
    assert live.labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(live.centres, expected.centres, atol=1e-2)
    np.testing.assert_allclose(live.sizes, expected.sizes, atol=1e-2)
    np.testing.assert_allclose(live.velocities, expected.velocities, atol=1e-2)


def test_the_mask_of_the_update_was_told_to_onlookers(served: Vehicle) -> None:
    mask = served.watcher.wait("/fleet/masks", lambda m: m.round == 2)
    bits = np.unpackbits(np.asarray(mask.bits, np.uint8), bitorder="little")[: mask.num_units]
    assert (mask.robot_id, mask.run_id, len(mask.model_digest)) == ("car", "tiny", 64)
    assert 0 < bits.sum() < mask.num_units  # some layers are shared, some are the robot's own


LIES = {
    "no_xyz": {"fields": []},
    "truncated": {"data": array("B", bytes(100))},
    "no_points": {"width": 0},
    "wrong_step": {"point_step": 3},
    "too_large": {"width": 2**31, "height": 2**31},
}


def test_clouds_that_lie_are_counted_by_reason_and_the_next_scan_is_served(served: Vehicle) -> None:
    def counted(msg: DiagnosticArray) -> bool:
        return any(
            (status.hardware_id, status.level) == ("car_inference", b"\x01")
            and {f"dropped_{reason}" for reason in LIES} <= {value.key for value in status.values}
            for status in msg.status
        )

    for number, lie in enumerate(LIES.values()):
        served.show(0, 300_000 + 100 * number, **lie)
    message = served.watcher.wait("/diagnostics", counted, 20.0)
    (status,) = message.status
    values = {value.key: value.value for value in status.values}
    assert status.message.startswith("dropped a scan: ")
    assert [values[f"dropped_{reason}"] for reason in LIES] == ["1"] * len(LIES)
    assert len(boxes_from_markers(served.boxes_of(1, 301_000))) == len(served.predicted(1))
