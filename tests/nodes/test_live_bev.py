"""The stream of a rig: complete sets become frames and grids, and what keeps them from it is told once, in one line."""

import math
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_nodes import qos
from fed_nodes.convert.images import stamp_ns, to_stamp
from fed_nodes.live.bev import BevStream
from fed_nodes.live.streams import Feed, Taken
from fed_nodes.sensing.rigs import rig_from_tree

MOUNT = {"position": [1.0, 0.5, 1.5], "rotation": [-math.pi / 2, 0.0, -math.pi / 2]}


class Rig:
    """A stream with recorders on both sides, its topics called as DDS would."""

    def __init__(self, *names: str, known: str = "sector") -> None:
        self.taken: list[Taken] = []
        self.errors: list[str] = []
        self.grids: list[OccupancyGrid] = []
        self.topics: dict[str, Any] = {}
        self.wanted = True
        self.stream = BevStream(
            self._node(),
            rig_from_tree(dict.fromkeys(names, MOUNT)),
            base_frame="car/base_link",
            slop_s=0.02,
            known=known,
        )
        self.opened = ExitStack()
        self.stream.open(Feed(lambda: self.wanted, self.taken.append, self.errors.append), qos.SENSORS, self.opened)

    def _node(self) -> Any:
        def subscribe(kind: type, topic: str, callback: Any, profile: Any) -> Any:
            self.topics[topic] = callback
            return SimpleNamespace(topic_name=topic)

        def say(text: str, **options: Any) -> None: ...

        return SimpleNamespace(
            create_lifecycle_publisher=lambda kind, topic, profile: SimpleNamespace(publish=self.grids.append),
            create_subscription=subscribe,
            destroy_subscription=lambda subscription: self.topics.pop(subscription.topic_name),
            get_logger=lambda: SimpleNamespace(info=say, warning=say),
            get_clock=lambda: SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0)),
            count_publishers=lambda topic: 1,
            destroy_publisher=lambda publisher: None,
        )

    def image(self, name: str, time_ms: int = 1, encoding: str = "rgb8") -> None:
        header = Header(stamp=to_stamp(time_ms * 1_000_000))
        msg = Image(header=header, height=4, width=6, encoding=encoding, step=18, data=bytes(72))
        self.topics[f"{name}/image_raw"](msg)

    def info(self, name: str, focal: float = 5.0) -> None:
        k = [focal, 0.0, 2.5, 0.0, focal, 1.5, 0.0, 0.0, 1.0]
        self.topics[f"{name}/camera_info"](CameraInfo(width=6, height=4, k=k))

    def problems(self, checks: int) -> list[str]:
        return [self.stream.problem() for _ in range(checks)]


def test_a_complete_set_becomes_a_frame_in_the_vehicles_frame() -> None:
    rig = Rig("front", "right")
    rig.info("front")
    rig.info("right")
    rig.image("front", 1000)
    assert rig.taken == []
    rig.image("right", 1015)

    (taken,) = rig.taken
    assert (stamp_ns(taken.header.stamp), taken.header.frame_id) == (1_015_000_000, "car/base_link")
    assert taken.sample.cameras == (0, 1) and len(taken.pictures) == 2
    np.testing.assert_allclose(taken.sample.extrinsics[0, :3, 3], [1.0, -0.5, 1.5])
    assert rig.problems(5) == [""] * 5 and rig.errors == []
    assert set(rig.topics) == {f"{name}/{what}" for name in ("front", "right") for what in ("image_raw", "camera_info")}
    rig.opened.close()
    assert rig.topics == {}


def test_a_prediction_becomes_a_grid_with_unknown_cells() -> None:
    rig = Rig("front")
    rig.info("front")
    rig.image("front", 1000)
    probability = np.zeros((4, 4), np.float32)
    probability[0, 2] = 0.75  # the front row, a cell to the right of the middle

    rig.stream.served(SimpleNamespace(extent_m=8.0))
    rig.stream.publish(rig.taken[0], probability)

    (grid,) = rig.grids
    assert grid.header == rig.taken[0].header and grid.info.resolution == 2.0
    by_place = np.array(grid.data).reshape(4, 4)  # rows to the left, columns forward
    assert by_place[1, 3] == 75  # 2 to 4 m ahead, 0 to 2 m right
    assert by_place[0, 0] == by_place[3, 0] == -1  # behind


def test_images_wait_for_the_camera_info_that_comes_late() -> None:
    rig = Rig("front", "right")
    rig.info("right")
    for time_ms in (100, 200):
        rig.image("front", time_ms)
        rig.image("right", time_ms)
    assert rig.taken == []
    assert rig.problems(2) == ["", "images wait for front/camera_info; publish what the cameras are calibrated to"]

    rig.info("front")
    assert [stamp_ns(taken.header.stamp) for taken in rig.taken] == [200_000_000]  # the newest set counts
    assert rig.stream.counts() == {"images_without_set": "0", "dropped_sets": "1"}
    assert rig.problems(3) == [""] * 3


def test_cameras_that_do_not_come_are_named() -> None:
    rig = Rig("front", "right", "back")
    for time_ms in range(0, 300, 100):
        rig.image("front", time_ms)
    text = (
        "no set of images is complete: none comes on right/image_raw, back/image_raw; the rig lists front, right, back"
    )
    assert rig.problems(3) == ["", text, text]


def test_images_too_far_apart_are_told() -> None:
    rig = Rig("front", "right")
    for time_ms in range(0, 300, 100):
        rig.image("front", time_ms)
        rig.image("right", time_ms + 50)
    text = "images of the cameras front, right are further apart than sync_slop_s (0.02 s), so none is used"
    assert rig.problems(2) == ["", text]


def test_nothing_at_all_is_no_problem() -> None:
    assert Rig("front", "right").problems(4) == [""] * 4


@pytest.mark.parametrize(
    ("focal", "encoding", "text"),
    [
        (0.0, "rgb8", "dropped a set of images: camera right: camera_info says focal lengths 0, 0 in k"),
        (5.0, "weird", "dropped a set of images: camera right: colour encoding 'weird' is not supported"),
    ],
)
def test_a_set_that_cannot_be_used_is_dropped_and_the_next_one_counts(focal: float, encoding: str, text: str) -> None:
    rig = Rig("front", "right")
    rig.info("front")
    rig.info("right", focal)
    rig.image("front", 1)
    rig.image("right", 1, encoding)
    assert rig.taken == [] and len(rig.errors) == 1 and rig.errors[0].startswith(text)
    assert rig.stream.counts()["dropped_sets"] == "1"
    assert rig.problems(3) == rig.errors * 3  # stays visible in diagnostics

    rig.info("right")
    rig.image("front", 100)
    rig.image("right", 100)
    assert len(rig.taken) == 1 and rig.problems(1) == [""]


def test_an_inactive_node_takes_nothing_and_misses_nothing() -> None:
    rig = Rig("front", "right")
    rig.info("front")
    rig.image("front")  # half of a set
    rig.wanted = False
    rig.image("right")
    assert rig.taken == [] and rig.problems(3) == [""] * 3
