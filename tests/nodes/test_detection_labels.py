"""Scans meet the true boxes of their time; boxes served live are scored as the devkit does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from fed_core.data.nuscenes.mounts import scan_mounts
from fed_core.data.pooled import Pooled
from fed_core.data.samples import open_samples
from fed_core.errors import DataError
from fed_core.types import DetectionFrame
from fed_nodes import qos
from fed_nodes.convert.boxes import boxes_to_markers
from fed_nodes.convert.images import to_stamp
from fed_nodes.convert.scans import cloud_to_msg, images_to_msgs, odometry_to_msg
from fed_nodes.judges import judge_of
from fed_nodes.playing.scan_publisher import scan_transforms
from fed_nodes.sensing.labelled_scans import LabelledScans, scan_topics
from fed_nodes.sensing.scan_rigs import scan_rig_from_tree
from tests.core.data.nuscenes_trees import make_frame, write_scenes


class Robot:
    """A robot's sensor topics, called as DDS would."""

    def __init__(self, frame: DetectionFrame) -> None:
        self.frames: list[DetectionFrame] = []
        self.topics: dict[str, Any] = {}
        self.errors: list[str] = []

        def subscribe(kind: type, topic: str, callback: Any, profile: Any) -> Any:
            self.topics[topic] = callback
            return SimpleNamespace(topic_name=topic)

        def say(text: str, **_: Any) -> None:
            self.errors.append(text)

        node: Any = SimpleNamespace(
            create_subscription=subscribe,
            destroy_subscription=lambda subscription: self.topics.pop(subscription.topic_name),
            get_logger=lambda: SimpleNamespace(error=say, info=say, warning=say),
            get_clock=lambda: SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0)),
            resolve_topic_name=lambda name: f"/car/{name}",
        )
        rig = scan_rig_from_tree(*scan_mounts(frame))
        self.names = scan_topics(node, rig)
        self.labels = LabelledScans(node, rig, qos.SENSORS, 0.02, self.frames.append)

    def scan(self, frame: DetectionFrame) -> None:
        for name, (image, info) in zip(frame.cameras, images_to_msgs(frame), strict=True):
            self.topics[f"{name}/camera_info"](info)
            self.topics[f"{name}/image_raw"](image)
        self.topics["LIDAR_TOP/points"](cloud_to_msg(frame, "lidar"))

    def truth(self, frame: DetectionFrame) -> None:
        header = Header(stamp=to_stamp(frame.stamp_ns), frame_id="lidar")
        self.topics["truth/boxes"](boxes_to_markers(frame.boxes, header))

    def pose(self, frame: DetectionFrame) -> None:
        self.topics["odometry"](odometry_to_msg(frame, "map", "base_link"))


@pytest.mark.parametrize("order", ["scan truth pose", "pose truth scan", "truth pose scan"])
def test_a_frame_has_the_boxes_and_the_pose_of_its_time(order: str) -> None:
    first, second = make_frame(0), make_frame(1)
    robot = Robot(first)
    for what in order.split():
        getattr(robot, what)(second)
        getattr(robot, what)(first)
    assert robot.labels.dropped == 0
    assert sorted(f.stamp_ns for f in robot.frames) == [first.stamp_ns, second.stamp_ns]
    for seen in (first, second):
        (back,) = (f for f in robot.frames if f.stamp_ns == seen.stamp_ns)
        np.testing.assert_allclose(back.boxes.centres, seen.boxes.centres)
        np.testing.assert_allclose(back.ego_to_global, seen.ego_to_global, atol=1e-9)
        np.testing.assert_allclose(back.lidar_to_camera, seen.lidar_to_camera, atol=1e-6)
        np.testing.assert_array_equal(back.images[1], seen.images[1])
    robot.labels.close()
    assert robot.topics == {}
    assert list(robot.names.values())[-3:] == ["/car/LIDAR_TOP/points", "/car/truth/boxes", "/car/odometry"]


def test_a_frame_without_truth_waits_and_broken_truth_is_told() -> None:
    frame = make_frame(0)
    robot = Robot(frame)
    robot.scan(frame)
    robot.pose(frame)
    assert robot.frames == []
    msg = boxes_to_markers(frame.boxes, Header(stamp=to_stamp(frame.stamp_ns)))
    msg.markers[1].ns = "dragon"
    robot.topics["truth/boxes"](msg)
    assert robot.frames == [] and robot.labels.dropped == 1
    assert robot.errors[0].startswith("dropped true boxes: a box is of class 'dragon'")


def test_no_more_scans_wait_than_fit() -> None:
    frame = make_frame(0)
    robot = Robot(frame)
    for number in range(33):
        robot.scan(make_frame(number))
    assert robot.labels.dropped == 3


def test_mounts_take_a_point_of_the_lidar_into_the_pictures_as_the_frame_does() -> None:
    frame = make_frame(0)
    rig = scan_rig_from_tree(*scan_mounts(frame))
    assert rig.names == ("CAM_FRONT", "CAM_BACK", "LIDAR_TOP")
    np.testing.assert_allclose(rig.lidar_to_camera, frame.lidar_to_camera, atol=1e-9)
    np.testing.assert_allclose(rig.mount.to_vehicle, frame.lidar_to_ego, atol=1e-9)
    placed = {t.child_frame_id: t.transform.translation for t in scan_transforms(frame)}
    assert set(placed) == {"lidar_top", "CAM_FRONT_optical_frame", "CAM_BACK_optical_frame"}
    front = placed["CAM_FRONT_optical_frame"]
    assert (front.x, front.y, front.z) == pytest.approx((1.5, 0.0, 1.5))


# ---- scores ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sequence(tmp_path: Path) -> Any:
    write_scenes(tmp_path, [("scene-1", "boston-seaport", "sunny", "val")])
    return open_samples("detection", {"data": str(tmp_path), "options": {"cameras": ["CAM_FRONT"]}}, Path())


def said(frame: DetectionFrame, wrong_m: float = 0.0) -> MarkerArray:
    boxes = frame.boxes.take(frame.boxes.scores > 0)
    boxes.centres[:, 0] += wrong_m
    return boxes_to_markers(boxes, Header(stamp=to_stamp(frame.stamp_ns), frame_id="lidar"))


def test_boxes_at_the_true_places_are_a_full_score_and_elsewhere_none(sequence: Any) -> None:
    perfect, off = judge_of("detection", 0.0, sequence), judge_of("detection", 0.0, sequence)
    for index in range(3):
        frame = sequence[index]
        assert perfect.time_ns(said(frame)) == frame.stamp_ns
        perfect.add(said(frame), frame)
        off.add(said(frame, wrong_m=5.0), frame)
    found, missed = perfect.result(), off.result()
    assert found is not None and missed is not None and found["frames"] == 3
    assert found["metrics"]["map"] == pytest.approx(1.0, abs=1e-6) and found["metrics"]["cap"] == pytest.approx(1.0)
    # Attributes follow from the speed; all else is exact.
    assert found["metrics"]["nds"] > 0.9 and found["metrics"]["trans_err"] < 1e-6
    assert (missed["metrics"]["map"], missed["metrics"]["nds"]) == (0.0, 0.0)


def test_a_picture_gets_points_boxes_and_the_way_to_its_pixels(sequence: Any) -> None:
    frame = sequence[0]
    kept = judge_of("detection", 0.0, sequence).add(said(frame), frame)
    assert set(kept) == {"points", "image", "to_pixel", "true_boxes", "said_boxes"}
    assert kept["true_boxes"].shape == (2, 9) and kept["to_pixel"].shape == (3, 4)
    u, v, depth = kept["to_pixel"] @ [*frame.boxes.centres[0], 1.0]
    ahead = frame.lidar_to_camera[0] @ [*frame.boxes.centres[0], 1.0]
    assert depth == pytest.approx(ahead[2]) and u / depth == pytest.approx(20 * ahead[0] / ahead[2] + 16)
    assert v / depth == pytest.approx(20 * ahead[1] / ahead[2] + 8)


def test_nothing_to_score_is_no_figure_and_several_folders_are_refused(sequence: Any) -> None:
    assert judge_of("detection", 0.0, sequence).result() is None
    with pytest.raises(DataError, match="pooled_2 is of several sources; boxes are scored in one nuScenes folder"):
        judge_of("detection", 0.0, Pooled([sequence, sequence]))
