"""Pictures of what inference nodes publish: where they are found, how often, what they show, what is refused."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from builtin_interfaces.msg import Time
from nav_msgs.msg import OccupancyGrid
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from fed_core.types import Boxes3D
from fed_nodes import qos
from fed_nodes.convert.boxes import boxes_to_markers
from fed_nodes.convert.images import depth_to_msg
from fed_nodes.convert.occupancy import occupancy_to_msg
from fed_nodes.watching import pictures
from fed_nodes.watching.pictures import MAX_SOURCES, PERIOD_S, Pictures


class Stage:
    """Inference nodes that are publishers of a test, and who looks on."""

    def __init__(self, node: Node, executor: SingleThreadedExecutor) -> None:
        self.node, self._executor = node, executor
        self.now_s = 100.0
        self.told: list[dict[str, Any]] = []
        self.pictures = Pictures(node, self.told.append, lambda: self.now_s)

    def publisher(self, kind: type, topic: str) -> Any:
        return self.node.create_publisher(kind, topic, qos.OUTPUTS)

    def look(self, *sources: str) -> None:
        self.pictures.look(sources, dict(self.node.get_topic_names_and_types()))

    def until(self, done: Callable[[], Any]) -> None:
        for _ in range(500):
            if done():
                return
            self._executor.spin_once(timeout_sec=0.02)
        pytest.fail(f"nothing came within 10 s; told: {self.told}")

    def show(self, kind: type, topic: str, msg: Any, source: str = "/live") -> dict[str, Any]:
        """Publish a message and return its picture."""
        publisher = self.publisher(kind, topic)
        self.until(lambda: self.look(source) or source in self.pictures.sources)
        self.until(lambda: publisher.get_subscription_count())
        publisher.publish(msg)
        self.until(lambda: self.told)
        (picture,) = self.told
        return picture


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes of the same ROS domain are not seen."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")


@pytest.fixture
def stage(make_node: Callable[..., Node], ros_context: Any) -> Iterator[Stage]:
    executor = SingleThreadedExecutor(context=ros_context)
    node = make_node()
    executor.add_node(node)
    yield Stage(node, executor)
    executor.shutdown()


def header(second: int) -> Header:
    return Header(stamp=Time(sec=second), frame_id="somewhere")


def depth(second: int, height: int = 48, width: int = 64) -> Image:
    values = np.full((height, width), 1.0, np.float32)
    values[:, width // 2 :] = 10.0
    return depth_to_msg(values, header(second))


def boxes(*centres: tuple[float, float, float], score: float = 0.9) -> MarkerArray:
    count = len(centres)
    found = Boxes3D(
        np.array(centres, np.float64).reshape(-1, 3),
        np.full((count, 3), 4.0),
        np.zeros(count),
        np.zeros((count, 2)),
        np.zeros(count, np.int64),
        np.full(count, score),
        np.zeros(count, np.int64),
    )
    return boxes_to_markers(found, header(7))


def image_of(picture: dict[str, Any]) -> Any:
    data = np.frombuffer(base64.b64decode(picture["image"]), np.uint8)
    return cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1].astype(int)


def test_depth_is_a_small_jpeg_near_red_and_far_blue(stage: Stage) -> None:
    picture = stage.show(Image, "/live/depth/image", depth(7, 480, 640))
    assert {key: picture[key] for key in picture if key != "image"} == {
        "kind": "picture",
        "source": "/live",
        "what": "depth",
        "mime": "image/jpeg",
        "width": 320,
        "height": 240,
        "stamp_s": 7.0,
    }
    shown = image_of(picture)
    assert shown.shape == (240, 320, 3) and base64.b64decode(picture["image"]).startswith(b"\xff\xd8\xff")
    near, far = shown[:, :150].mean((0, 1)), shown[:, 170:].mean((0, 1))
    assert near == pytest.approx((122, 4, 2), abs=8) and far == pytest.approx((48, 18, 59), abs=8)


def test_a_map_is_a_png_whose_top_is_ahead(stage: Stage) -> None:
    cells = np.zeros((64, 64), np.float32)
    cells[:32, :32], cells[32:, 32:] = 1.0, np.nan  # a vehicle ahead on the left, nothing known behind on the right
    picture = stage.show(OccupancyGrid, "/live/occupancy", occupancy_to_msg(cells, 50.0, header(7)))
    assert (picture["what"], picture["mime"], picture["width"], picture["height"]) == ("map", "image/png", 64, 64)
    shown = image_of(picture)
    assert shown[10, 10].tolist() == [251, 252, 191] and shown[10, 50].tolist() == [0, 0, 3]
    assert shown[50, 50].tolist() == [0x9A] * 3


def test_boxes_are_seen_from_above_and_weak_ones_left_out(stage: Stage) -> None:
    msg = boxes((0.0, 25.0, 0.0), (-1e6, 0.0, 0.0))
    msg.markers += boxes((25.0, 0.0, 0.0), score=0.1).markers[1:]
    picture = stage.show(MarkerArray, "/live/detections/markers", msg)
    assert (picture["what"], picture["width"], picture["height"], picture["stamp_s"]) == ("boxes", 320, 320, 7.0)
    shown = image_of(picture)
    rows, columns = np.argwhere((np.abs(shown - (31, 119, 180)) < 40).all(-1)).T
    # 3.2 pixels a metre: the box, 4 m long and wide, is 25 m ahead of the middle.
    assert (rows.min(), rows.max()) == pytest.approx((73.6, 86.4), abs=1.5)
    assert (columns.min(), columns.max()) == pytest.approx((153.6, 166.4), abs=1.5)


def test_one_picture_of_the_newest_message_each_period(stage: Stage) -> None:
    publisher = stage.publisher(Image, "/live/depth/image")
    taken: list[int] = []
    stage.node.create_subscription(Image, "/live/depth/image", lambda m: taken.append(m.header.stamp.sec), qos.OUTPUTS)
    stage.until(lambda: stage.look("/live") or stage.pictures.sources)
    stage.until(lambda: publisher.get_subscription_count() == 2)
    publisher.publish(depth(1))
    stage.until(lambda: stage.told)
    for second in range(2, 10):
        publisher.publish(depth(second))
    stage.until(lambda: taken == list(range(1, 10)))
    stage.now_s += PERIOD_S - 0.01
    publisher.publish(depth(10))
    stage.until(lambda: taken[-1] == 10)
    assert [picture["stamp_s"] for picture in stage.told] == [1.0]
    stage.now_s += 0.01
    stage.until(lambda: len(stage.told) == 2)
    assert stage.told[1]["stamp_s"] == 10.0
    publisher.publish(depth(11))
    stage.until(lambda: taken[-1] == 11)
    assert len(stage.told) == 2


@pytest.mark.parametrize(
    ("size", "expected"), [((1, 100_000), (1, 320)), ((2_000, 500), (320, 80)), ((321, 1), (320, 1)), ((5, 7), (5, 7))]
)
def test_no_side_is_longer_than_320_pixels(stage: Stage, size: tuple[int, int], expected: tuple[int, int]) -> None:
    picture = stage.show(Image, "/live/depth/image", depth_to_msg(np.ones(size, np.float32), header(7)))
    assert (picture["height"], picture["width"]) == image_of(picture).shape[:2] == expected


def test_numbers_that_are_none_are_grey(stage: Stage) -> None:
    values = np.array([[np.nan, np.inf], [-np.inf, -5.0]], np.float32)
    picture = stage.show(Image, "/live/depth/image", depth_to_msg(values, header(7)))
    assert np.abs(image_of(picture) - 0x9A).max() <= 3


def lying() -> Image:
    msg = depth(7)
    msg.height = msg.width = 4_000_000_000
    return msg


def other() -> Image:
    msg = depth(7)
    msg.encoding = "32SC4"
    return msg


@pytest.mark.parametrize(
    ("kind", "topic", "msg", "text"),
    [
        (Image, "depth/image", lying(), "4000000000"),
        (Image, "depth/image", other(), "32SC4"),
        (Image, "depth/image", Image(), "depth encoding '' is not supported"),
        (OccupancyGrid, "occupancy", OccupancyGrid(), "an occupancy grid has 0x0 cells and 0 values"),
        (MarkerArray, "detections/markers", boxes((np.inf, 0.0, 0.0)), "a box has centres that are not finite"),
    ],
)
def test_what_cannot_be_drawn_is_said_once_and_the_next_one_is_drawn(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, kind: type, topic: str, msg: Any, text: str
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(stage.node.get_logger(), "warning", warnings.append)
    publisher = stage.publisher(kind, f"/live/{topic}")
    stage.until(lambda: stage.look("/live") or stage.pictures.sources)
    stage.until(publisher.get_subscription_count)
    publisher.publish(msg)
    stage.until(lambda: warnings)
    assert warnings[0].startswith(f"no picture of /live/{topic}: ") and text in warnings[0]
    stage.now_s += PERIOD_S
    (subscription,) = stage.node.subscriptions
    assert subscription.callback_group.can_execute(subscription)
    publisher.publish(msg)
    stage.until(lambda: not subscription.callback_group.can_execute(subscription))
    good = {Image: depth(8), MarkerArray: boxes(), OccupancyGrid: occupancy_to_msg(np.ones((4, 4)), 1.0, header(8))}
    stage.until(lambda: setattr(stage, "now_s", stage.now_s + PERIOD_S) or publisher.publish(good[kind]) or stage.told)
    assert len(warnings) == 1


def test_a_message_of_too_many_bytes_is_not_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_BYTES", 1_000)
    warnings: list[str] = []
    monkeypatch.setattr(stage.node.get_logger(), "warning", warnings.append)
    publisher = stage.publisher(Image, "/live/depth/image")
    stage.until(lambda: stage.look("/live") or stage.pictures.sources)
    stage.until(publisher.get_subscription_count)
    publisher.publish(depth(7))
    stage.until(lambda: warnings)
    assert warnings == ["no picture of /live/depth/image: a message of 0 MB; at most 0 MB are read"]


def test_only_so_many_sources_are_followed_and_those_that_end_make_room(stage: Stage) -> None:
    names = [f"/live{number:02d}" for number in range(MAX_SOURCES + 1)]
    publishers = [stage.publisher(Image, f"{name}/depth/image") for name in names]
    stage.until(lambda: stage.look("/nobody", *names) or len(stage.pictures.sources) == MAX_SOURCES)
    assert stage.pictures.sources == tuple(names[:-1])
    stage.node.destroy_publisher(publishers[0])
    stage.until(lambda: stage.look(*names) or names[-1] in stage.pictures.sources)
    assert set(stage.pictures.sources) == set(names[1:])
    assert len(list(stage.node.subscriptions)) == MAX_SOURCES


def test_a_node_that_changes_its_task_is_followed(stage: Stage) -> None:
    publisher = stage.publisher(Image, "/live/depth/image")
    stage.until(lambda: stage.look("/live") or stage.pictures.sources)
    stage.node.destroy_publisher(publisher)
    stage.until(lambda: stage.look("/live") or not stage.pictures.sources)
    assert stage.show(MarkerArray, "/live/detections/markers", boxes((0.0, 5.0, 0.0)))["what"] == "boxes"


def test_an_inference_node_in_the_root_namespace_and_a_topic_of_another_type(stage: Stage) -> None:
    stage.publisher(MarkerArray, "/other/depth/image")
    picture = stage.show(Image, "/depth/image", depth(7), source="/")
    stage.look("/", "/other")
    assert picture["source"] == "/" and stage.pictures.sources == ("/",)
