"""The stream of cameras and LiDAR: complete scans become frames and boxes, and what keeps them from it is told."""

import math
from array import array
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

import fed_nodes.live.detection as live_detection
from fed_core.errors import ConfigError
from fed_core.types import Boxes3D
from fed_nodes import qos
from fed_nodes.convert.boxes import boxes_from_markers
from fed_nodes.convert.clouds import points_to_msg
from fed_nodes.convert.images import stamp_ns, to_stamp
from fed_nodes.live.config import InferenceConfig
from fed_nodes.live.detection import DetectionStream
from fed_nodes.live.streams import Feed, Taken
from fed_nodes.recording.recorder import RecorderConfig
from fed_nodes.robot_client import _require_cameras
from fed_nodes.sensing.scan_rigs import scan_rig_from_tree

#: A camera that looks ahead, 1 m before the vehicle's origin and 1.5 m up; a LiDAR 2 m up, turned as nuScenes has it.
CAMERA = {"position": [1.0, 0.0, 1.5], "rotation": [-math.pi / 2, 0.0, -math.pi / 2]}
LIDAR = {"lidar": {"position": [0.0, 0.0, 2.0], "rotation": [0.0, 0.0, -math.pi / 2]}}
#: A stamp of zero is none.
START_NS = 10_000_000_000
POINTS = np.array([[0.0, 10.0, -1.0, 30.0, 0.0]], np.float32)


class Vehicle:
    """A stream with recorders on both sides, its topics called as DDS would."""

    def __init__(self, *names: str, min_score: float = 0.1) -> None:
        self.taken: list[Taken] = []
        self.errors: list[str] = []
        self.published: dict[str, list[Any]] = {}
        self.topics: dict[str, Any] = {}
        self.told: list[str] = []
        self.wanted = True
        rig = scan_rig_from_tree(dict.fromkeys(names, CAMERA), LIDAR)
        self.stream = DetectionStream(self._node(), rig, slop_s=0.02, min_score=min_score)
        self.opened = ExitStack()
        self.stream.open(Feed(lambda: self.wanted, self.taken.append, self.errors.append), qos.SENSORS, self.opened)

    def _node(self) -> Any:
        def subscribe(kind: type, topic: str, callback: Any, profile: Any) -> Any:
            self.topics[topic] = callback
            return SimpleNamespace(topic_name=topic)

        def publisher(kind: type, topic: str, profile: Any) -> Any:
            return SimpleNamespace(publish=self.published.setdefault(topic, []).append)

        return SimpleNamespace(
            create_lifecycle_publisher=publisher,
            create_subscription=subscribe,
            destroy_subscription=lambda subscription: self.topics.pop(subscription.topic_name),
            destroy_publisher=lambda publisher: None,
            get_logger=lambda: SimpleNamespace(info=self.told.append, warning=self.told.append),
            get_clock=lambda: SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0)),
        )

    def image(self, name: str, time_ms: int = 0, encoding: str = "rgb8") -> None:
        header = Header(stamp=to_stamp(START_NS + time_ms * 1_000_000))
        msg = Image(header=header, height=4, width=6, encoding=encoding, step=18, data=bytes(72))
        self.topics[f"{name}/image_raw"](msg)

    def info(self, name: str) -> None:
        k = [5.0, 0.0, 2.5, 0.0, 5.0, 1.5, 0.0, 0.0, 1.0]
        self.topics[f"{name}/camera_info"](CameraInfo(width=6, height=4, k=k))

    def cloud(self, time_ms: int = 0, **changes: Any) -> None:
        msg: PointCloud2 = points_to_msg(POINTS, Header(stamp=to_stamp(START_NS + time_ms * 1_000_000), frame_id="top"))
        for name, value in changes.items():
            setattr(msg, name, value)
        self.topics["lidar/points"](msg)

    def scan(self, *names: str, time_ms: int = 0) -> None:
        for name in names:
            self.info(name)
            self.image(name, time_ms)
        self.cloud(time_ms)

    def problems(self, checks: int) -> list[str]:
        return [self.stream.problem() for _ in range(checks)]


def boxes(*scores: float) -> Boxes3D:
    count = len(scores)
    return Boxes3D(
        centres=np.zeros((count, 3)),
        sizes=np.ones((count, 3)),
        yaws=np.zeros(count),
        velocities=np.zeros((count, 2)),
        labels=np.zeros(count, np.int64),
        scores=np.array(scores),
        num_points=np.zeros(count, np.int64),
    )


def test_a_complete_set_becomes_a_scan_with_the_cloud_in_its_own_frame() -> None:
    vehicle = Vehicle("front", "left")
    vehicle.info("front")
    vehicle.info("left")
    vehicle.image("front", 1000)
    vehicle.cloud(1015)
    assert vehicle.taken == []
    vehicle.image("left", 1010)

    (taken,) = vehicle.taken
    assert (stamp_ns(taken.header.stamp), taken.header.frame_id) == (START_NS + 1_015_000_000, "top")
    scan = taken.sample
    assert scan.cameras == ("front", "left") and len(taken.pictures) == 2
    np.testing.assert_array_equal(scan.points, POINTS)
    # 10 m ahead of the LiDAR is 9 m along the camera's axis, in its middle, and half a metre below it.
    np.testing.assert_allclose(scan.lidar_to_camera[0] @ [*POINTS[0, :3], 1.0], [0.0, 0.5, 9.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(scan.lidar_to_ego[:3, 3], [0.0, 0.0, 2.0])
    np.testing.assert_allclose(scan.intrinsics[0], [[5, 0, 2.5], [0, 5, 1.5], [0, 0, 1]])
    assert vehicle.problems(5) == [""] * 5 and vehicle.errors == []
    vehicle.opened.close()
    assert vehicle.topics == {}


def test_points_without_a_place_are_counted() -> None:
    vehicle = Vehicle()
    nowhere = np.array([[np.nan, 10.0, -1.0, 30.0, 0.0]], np.float32)
    vehicle.topics["lidar/points"](points_to_msg(np.vstack([POINTS, nowhere]), Header(stamp=to_stamp(START_NS))))
    (taken,) = vehicle.taken
    assert len(taken.sample.points) == 1 and vehicle.stream.counts()["points_without_place"] == "1"
    assert [topic.name for topic in vehicle.stream.topics] == ["lidar/points"]


def test_a_lidar_alone_is_a_rig() -> None:
    vehicle = Vehicle()
    vehicle.cloud(5)
    (taken,) = vehicle.taken
    assert taken.sample.images == () and taken.sample.lidar_to_camera.shape == (0, 4, 4)


def test_boxes_are_published_best_first_without_those_nobody_believes() -> None:
    vehicle = Vehicle("front", min_score=0.25)
    vehicle.scan("front", time_ms=7)
    vehicle.stream.publish(vehicle.taken[0], boxes(0.9, 0.25, 0.2))
    vehicle.stream.publish(vehicle.taken[0], boxes())
    first, empty = vehicle.published["detections/markers"]
    assert isinstance(first, MarkerArray)
    np.testing.assert_allclose(boxes_from_markers(first).scores, [0.9, 0.25], atol=1e-6)
    assert {m.header.frame_id for m in first.markers} == {"top"}
    assert [m.action for m in empty.markers] == [Marker.DELETEALL]  # what was there before is gone


def test_what_is_believed_may_change_while_boxes_are_published() -> None:
    vehicle = Vehicle("front", min_score=0.25)
    vehicle.scan("front", time_ms=7)
    InferenceConfig(min_score=0.85).change(vehicle.stream)
    vehicle.stream.publish(vehicle.taken[0], boxes(0.9, 0.8))
    (markers,) = vehicle.published["detections/markers"]
    np.testing.assert_allclose(boxes_from_markers(markers).scores, [0.9], atol=1e-6)


def test_detections_come_beside_the_markers_where_vision_msgs_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(**values: Any) -> SimpleNamespace:
        return SimpleNamespace(**values)

    names = ("ObjectHypothesis", "ObjectHypothesisWithPose", "BoundingBox3D", "Detection3D", "Detection3DArray")
    monkeypatch.setattr(live_detection, "vision_messages", lambda: SimpleNamespace(**dict.fromkeys(names, kind)))
    vehicle = Vehicle("front")
    vehicle.scan("front", time_ms=7)
    vehicle.stream.publish(vehicle.taken[0], boxes(0.9))
    (found,) = vehicle.published["detections"]
    assert found.header == vehicle.taken[0].header and len(found.detections) == 1 and vehicle.told == []


def test_without_vision_msgs_one_line_tells_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_detection, "vision_messages", lambda: None)
    vehicle = Vehicle("front")
    assert vehicle.told == ["vision_msgs is not installed: boxes come on detections/markers alone"]
    assert set(vehicle.published) == {"detections/markers"}


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"fields": []}, "no_xyz", "a cloud has no field x, y, z"),
        ({"data": array("B", bytes(7))}, "truncated", "has 7 bytes, not 20"),
        ({"width": 0}, "no_points", "is empty"),
    ],
)
def test_a_malformed_cloud_is_dropped_and_counted_and_the_next_scan_serves(
    changes: dict[str, Any], reason: str, words: str
) -> None:
    vehicle = Vehicle("front")
    vehicle.info("front")
    vehicle.image("front", 0)
    vehicle.cloud(0, **changes)
    assert vehicle.taken == [] and len(vehicle.errors) == 1
    assert vehicle.errors[0].startswith("dropped a scan: ") and words in vehicle.errors[0]
    counts = vehicle.stream.counts()
    assert (counts[f"dropped_{reason}"], counts["dropped_sets"]) == ("1", "1")
    assert vehicle.problems(3) == vehicle.errors * 3  # stays visible in diagnostics

    vehicle.scan("front", time_ms=100)
    assert len(vehicle.taken) == 1 and vehicle.problems(1) == [""]


def test_an_image_that_cannot_be_read_is_told_with_its_camera() -> None:
    vehicle = Vehicle("front")
    vehicle.info("front")
    vehicle.image("front", 0, "weird")
    vehicle.cloud(0)
    assert vehicle.errors[0].startswith("dropped a scan: camera front: colour encoding 'weird' is not supported")
    assert vehicle.stream.counts()["dropped_image"] == "1"


def test_sensors_that_do_not_come_are_named() -> None:
    vehicle = Vehicle("front", "left")
    for time_ms in range(0, 300, 100):
        vehicle.image("front", time_ms)
    listed = "rig and lidar list front/image_raw, left/image_raw, lidar/points"
    text = f"no scan is complete: nothing comes on left/image_raw, lidar/points; {listed}"
    assert vehicle.problems(3) == ["", text, text]


def test_scans_wait_for_the_camera_info_that_comes_late() -> None:
    vehicle = Vehicle("front")
    for time_ms in (0, 100):
        vehicle.image("front", time_ms)
        vehicle.cloud(time_ms)
    assert vehicle.problems(2) == ["", "images wait for front/camera_info; publish what the cameras are calibrated to"]
    vehicle.info("front")
    assert [stamp_ns(taken.header.stamp) for taken in vehicle.taken] == [START_NS + 100_000_000]
    assert vehicle.stream.counts()["dropped_no_camera_info"] == "1"


def test_messages_too_far_apart_are_told() -> None:
    vehicle = Vehicle("front")
    for time_ms in range(0, 300, 100):
        vehicle.image("front", time_ms)
        vehicle.cloud(time_ms + 50)
    text = "the messages on front/image_raw, lidar/points are further apart than 0.02 s, so none is used"
    assert vehicle.problems(2) == ["", text]


def test_an_inactive_node_takes_nothing() -> None:
    vehicle = Vehicle("front")
    vehicle.wanted = False
    vehicle.scan("front")
    assert vehicle.taken == [] and vehicle.problems(3) == [""] * 3


@pytest.mark.parametrize(
    ("cameras", "lidar", "words"),
    [
        ({}, {}, "lidar names none; name one LiDAR by its topic prefix and where it sits"),
        ({}, {**LIDAR, "back": LIDAR["lidar"]}, "lidar names lidar, back; name one LiDAR"),
        ({"lidar": CAMERA}, LIDAR, "lidar: 'lidar' cannot begin its topic"),
        ({}, {"a b": LIDAR["lidar"]}, "lidar: 'a b' cannot begin its topic"),
        ({}, {"top": {"position": [0, 0], "rotation": [0, 0, 0]}}, r"Mount.position is \[0.0, 0.0\]; it must be x"),
        ({}, {"top": {"position": [0, 0, 0]}}, "rotation"),
    ],
)  # fmt: skip
def test_mounts_that_mean_nothing_are_told(cameras: dict[str, Any], lidar: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        scan_rig_from_tree(cameras, lidar)


def test_a_robot_that_could_never_record_is_refused() -> None:
    with pytest.raises(ConfigError, match="task detection records from a LiDAR and cameras: set lidar .* or source to"):
        _require_cameras("detection", {}, RecorderConfig())
    with pytest.raises(ConfigError, match="lidar is for task detection, and this robot's task is depth; leave it out"):
        _require_cameras("depth", {}, RecorderConfig(lidar=LIDAR))
    _require_cameras("detection", {}, RecorderConfig(lidar=LIDAR))
