"""Boxes as markers come back as they were; as detections they have the fields of vision_msgs."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from fed_core.errors import DataError
from fed_core.types import DETECTION_CLASSES, Boxes3D
from fed_nodes.convert.boxes import (
    boxes_from_markers,
    boxes_to_detections,
    boxes_to_markers,
    markers_time_ns,
    vision_messages,
)
from fed_nodes.convert.images import to_stamp

HEADER = Header(frame_id="lidar", stamp=to_stamp(3_000_000_004))
BOXES = Boxes3D(
    centres=np.array([[10.0, -2.0, 0.5], [1.0, 2.0, 3.0]]),
    sizes=np.array([[4.5, 1.9, 1.6], [0.6, 0.7, 1.8]]),
    yaws=np.array([math.pi / 2, -3.0]),
    velocities=np.array([[0.25, 5.0], [np.nan, np.nan]]),
    labels=np.array([0, 8]),
    scores=np.array([0.875, 0.0]),
    num_points=np.array([12, 0]),
)


def none() -> Boxes3D:
    return BOXES.take(np.zeros(2, bool))


def test_boxes_come_back_from_their_markers() -> None:
    msg = deserialize_message(serialize_message(boxes_to_markers(BOXES, HEADER)), MarkerArray)
    back = boxes_from_markers(msg)
    for name in ("centres", "sizes", "velocities"):
        np.testing.assert_allclose(getattr(back, name), getattr(BOXES, name), atol=1e-9)
    np.testing.assert_allclose(np.cos(back.yaws - BOXES.yaws), 1.0)
    np.testing.assert_allclose(back.scores, BOXES.scores, atol=1e-6)
    assert back.labels.tolist() == [0, 8] and back.num_points.tolist() == [12, 0]
    assert markers_time_ns(msg) == 3_000_000_004 and len(boxes_from_markers(boxes_to_markers(none(), HEADER))) == 0


def test_markers_are_what_a_viewer_needs() -> None:
    first, *others = boxes_to_markers(BOXES, HEADER).markers
    assert first.action == Marker.DELETEALL  # boxes of before go away
    assert [(m.ns, m.id, m.type) for m in others] == [
        ("car", 0, Marker.CUBE),
        ("car/velocity", 0, Marker.ARROW),
        ("car/score", 0, Marker.TEXT_VIEW_FACING),
        ("pedestrian", 1, Marker.CUBE),
        ("pedestrian/score", 1, Marker.TEXT_VIEW_FACING),
    ]
    assert all(m.header == HEADER and m.color.a > 0 and m.lifetime.sec > 0 for m in others)
    car, arrow, text = others[:3]
    assert (car.scale.x, car.scale.y, car.scale.z) == (4.5, 1.9, 1.6)
    assert (car.pose.orientation.z, car.pose.orientation.w) == pytest.approx((math.sqrt(0.5), math.sqrt(0.5)))
    assert (arrow.points[1].x - arrow.points[0].x, arrow.points[1].y - arrow.points[0].y) == pytest.approx((0.25, 5.0))
    assert text.text == "car 0.88" and text.pose.position.z > 0.5 + 1.6 / 2


def strange(change: str) -> MarkerArray:
    msg = boxes_to_markers(BOXES, HEADER)
    cube = msg.markers[1]
    if change == "class":
        cube.ns = "dragon"
    elif change == "place":
        cube.pose.position.x = math.nan
    elif change == "many":
        msg.markers = [Marker()] * 15_002
    return msg


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("class", "a box is of class 'dragon'; known: car, truck"),
        ("place", "a box has centres that are not finite"),
        ("many", "15002 markers of boxes; at most 15001 are read"),
    ],
)
def test_boxes_that_cannot_be_are_told(change: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        boxes_from_markers(strange(change))


def test_without_any_marker_there_is_no_time() -> None:
    assert markers_time_ns(MarkerArray()) == -1


def stand_in() -> Any:
    """Types with the fields of vision_msgs 4.1, as its definitions list them; unknown fields are errors."""

    def kind(*names: str) -> Any:
        def make(**values: Any) -> SimpleNamespace:
            assert set(values) <= set(names), values
            return SimpleNamespace(**values)

        return make

    return SimpleNamespace(
        ObjectHypothesis=kind("class_id", "score"),
        ObjectHypothesisWithPose=kind("hypothesis", "pose"),
        BoundingBox3D=kind("center", "size"),
        Detection3D=kind("header", "results", "bbox", "id"),
        Detection3DArray=kind("header", "detections"),
    )


def test_detections_have_class_score_pose_and_size() -> None:
    messages = vision_messages() or stand_in()
    found = boxes_to_detections(BOXES, HEADER, messages)
    assert found.header == HEADER and [d.header for d in found.detections] == [HEADER] * 2
    car = found.detections[0]
    (result,) = car.results
    assert result.hypothesis.class_id == DETECTION_CLASSES[0] and result.hypothesis.score == 0.875
    assert result.pose.pose == car.bbox.center
    assert (car.bbox.center.position.x, car.bbox.center.position.y, car.bbox.center.position.z) == (10.0, -2.0, 0.5)
    assert (car.bbox.size.x, car.bbox.size.y, car.bbox.size.z) == (4.5, 1.9, 1.6)
    assert boxes_to_detections(none(), HEADER, messages).detections == []
