"""What a replay of a vehicle publishes is what a robot records: both ends on one table, without DDS."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fed_core.data.opv2v.mounts import rig_tree
from fed_core.data.opv2v.poses import world_from
from fed_core.data.opv2v.writer import recorded_source
from fed_core.data.samples import open_samples
from fed_core.errors import ConfigError, DataError
from fed_core.types import BevFrame
from fed_nodes import qos
from fed_nodes.playing.rig_publisher import RigPublisher, rig_transforms
from fed_nodes.recording.recorder import Recorder, RecorderConfig
from fed_nodes.robot_client import _require_cameras
from fed_nodes.sensing import waiting
from fed_nodes.sensing.labelled_sets import LabelledSets
from fed_nodes.sensing.rigs import rig_from_tree

START_NS = 1_700_000_000_000_000_000


class Table:
    """A node whose publishers call its subscriptions; ``held`` topics wait until they are let go."""

    def __init__(self) -> None:
        self.readers: dict[str, Callable[[Any], None]] = {}
        self.held: dict[str, list[Any]] = {}
        self.log: list[str] = []

    def create_publisher(self, kind: type, topic: str, profile: Any) -> Any:
        return SimpleNamespace(
            publish=lambda msg: self._deliver(topic, msg), get_subscription_count=lambda: int(topic in self.readers)
        )

    def create_subscription(self, kind: type, topic: str, callback: Callable[[Any], None], profile: Any) -> Any:
        self.readers[topic] = callback
        return SimpleNamespace(topic_name=topic)

    def destroy_subscription(self, subscription: Any) -> None:
        del self.readers[subscription.topic_name]

    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0))

    def create_timer(self, period_s: float, callback: Callable[[], None], **_: Any) -> None:
        return None

    def count_publishers(self, topic: str) -> int:
        return 1

    def resolve_topic_name(self, topic: str) -> str:
        return f"/car/{topic}"

    def get_logger(self) -> Any:
        def keep(text: str, **_: Any) -> None:
            self.log.append(text)

        return SimpleNamespace(info=keep, error=keep, warning=keep)

    def let_go(self, topic: str) -> None:
        for msg in self.held.pop(topic):
            self._deliver(topic, msg)

    def _deliver(self, topic: str, msg: Any) -> None:
        if topic in self.held:
            self.held[topic].append(msg)
        elif topic in self.readers:
            self.readers[topic](msg)


def frame(number: int = 0) -> BevFrame:
    mask = np.zeros((16, 16), bool)
    mask[3, number] = True
    known = np.ones((16, 16), bool)
    known[15] = False
    rng = np.random.default_rng(number)
    return BevFrame(
        cameras=(0, 3),
        images=tuple(rng.integers(0, 256, size, np.uint8) for size in ((6, 8, 3), (12, 16, 3))),
        intrinsics=np.array([[[3.5, 0, 4], [0, 3.5, 3], [0, 0, 1]], [[7.0, 0, 8.25], [0, 7, 6], [0, 0, 1]]]),
        extrinsics=np.stack([world_from([2.5, 0, 1.0, 0, 0, 0]), world_from([-2, 0.4, 1.5, 3, 170, -8])]),
        mask=mask,
        known=known,
        metres_per_cell=6.25,
        stamp_ns=START_NS + number * 500_000_000,
        vehicle="",
    )


def listening(table: Any) -> tuple[RigPublisher, LabelledSets, list[BevFrame]]:
    taken: list[BevFrame] = []
    rig = rig_from_tree(rig_tree(frame()))
    return RigPublisher(table, frame(), reliable=True), LabelledSets(table, rig, qos.SENSORS, 0.02, taken.append), taken


def same(found: BevFrame, sent: BevFrame) -> None:
    assert (found.cameras, found.stamp_ns, found.metres_per_cell) == (sent.cameras, sent.stamp_ns, sent.metres_per_cell)
    for mine, theirs in zip(found.images, sent.images, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(found.intrinsics, sent.intrinsics, atol=1e-12)
    np.testing.assert_allclose(found.extrinsics, sent.extrinsics, atol=1e-9)
    np.testing.assert_array_equal(found.mask, sent.mask)
    np.testing.assert_array_equal(found.known, sent.known)


def test_what_is_played_is_what_is_taken() -> None:
    table = Table()
    publisher, sets, taken = listening(table)
    assert publisher.readers() == 1
    for number in range(2):
        publisher.publish(frame(number))
    same(taken[0], frame(0))
    same(taken[1], frame(1))
    assert len(taken) == 2 and sets.dropped == 0
    sets.close()
    assert table.readers == {} and publisher.readers() == 0


@pytest.mark.parametrize("late", ["truth/occupancy", "back/camera_info", "front/image_raw"])
def test_no_frame_is_lost_where_one_topic_comes_last(late: str) -> None:
    table = Table()
    publisher, sets, taken = listening(table)
    table.held[late] = []
    for number in range(3):
        publisher.publish(frame(number))
    assert taken == []
    table.let_go(late)
    for number, found in enumerate(taken):
        same(found, frame(number))
    assert len(taken) == 3 and sets.dropped == 0


def test_fewer_frames_wait_for_their_maps_where_pictures_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table()
    publisher, sets, taken = listening(table)
    monkeypatch.setattr(waiting, "MOST_BYTES", 5 * 3 * (6 * 8 + 12 * 16))  # five frames of both cameras
    table.held["truth/occupancy"] = []
    for number in range(8):
        publisher.publish(frame(number))
    assert sets.dropped == 3
    table.let_go("truth/occupancy")
    assert [found.stamp_ns for found in taken] == [frame(number).stamp_ns for number in range(3, 8)]


def test_fewer_sets_wait_for_camera_infos_where_pictures_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table()
    publisher, sets, taken = listening(table)
    monkeypatch.setattr(waiting, "MOST_BYTES", 1)
    table.held["back/camera_info"] = []
    for number in range(6):
        publisher.publish(frame(number))
    assert sets.dropped == 4 and taken == []  # two sets, and the maps of them
    table.let_go("back/camera_info")
    assert [found.stamp_ns for found in taken] == [frame(number).stamp_ns for number in range(2, 6)]


def test_a_frame_with_other_cameras_than_the_first_is_refused() -> None:
    publisher, _, taken = listening(Table())
    one = frame()
    other = replace(one, cameras=(0, 1), vehicle="641")
    with pytest.raises(DataError, match="a frame of vehicle 641 has cameras 0, 1, the recording's first frame 0, 3"):
        publisher.publish(other)
    assert taken == []


def test_a_map_of_another_size_is_dropped_and_told() -> None:
    table = Table()
    publisher, sets, taken = listening(table)
    publisher.publish(frame(0))
    small = replace(frame(1), mask=np.zeros((8, 8), bool), known=np.ones((8, 8), bool), metres_per_cell=12.5)
    publisher.publish(small)
    assert len(taken) == 1 and sets.dropped == 1
    assert table.log[-1] == (
        "dropped a map: it has 8 cells a side and 100 m, those before had 16 cells a side and 100 m"
    )


def test_a_robot_records_what_is_played(tmp_path: Path) -> None:
    table: Any = Table()
    done: list[bool] = []
    config = RecorderConfig(record_frames=3, rig=rig_tree(frame()), known_cells="off")
    recorder = Recorder(table, config, tmp_path / "samples", lambda: done.append(True))
    assert recorder.source() is None
    assert recorder.progress()[2] == (
        "waiting for images on /car/front/image_raw, /car/back/image_raw, /car/truth/occupancy"
    )
    publisher = RigPublisher(table, frame(), reliable=True)
    for number in range(4):
        publisher.publish(frame(number))
    assert done == [True]
    source = recorder.source()
    assert source == recorded_source(tmp_path / "samples")
    recorded = open_samples("bev", source, Path())
    assert len(recorded) == 3
    # Which cells are known follows from known_cells, so that is the one thing that does not come from the map.
    same(recorded[2], replace(frame(2), known=np.ones((16, 16), bool)))


def test_static_frames_are_the_mounts_in_the_vehicles_frame() -> None:
    front, back = rig_transforms(frame())
    assert (front.header.frame_id, front.child_frame_id) == ("base_link", "front_optical_frame")
    assert back.child_frame_id == "back_optical_frame"
    place, turn = front.transform.translation, front.transform.rotation
    assert (place.x, place.y, place.z) == (2.5, 0.0, 1.0)
    # An optical frame that looks forward: the published quaternion is (-0.5, 0.5, -0.5, 0.5) or its negative.
    found = np.array([turn.x, turn.y, turn.z, turn.w])
    np.testing.assert_allclose(abs(found @ [-0.5, 0.5, -0.5, 0.5]), 1.0, atol=1e-12)


def test_robots_that_could_never_record_are_refused() -> None:
    with pytest.raises(ConfigError, match="task bev records from several cameras: set rig to where they sit, or"):
        _require_cameras("bev", {}, RecorderConfig())
    with pytest.raises(ConfigError, match="rig is for tasks bev and detection, and this robot's task is depth"):
        _require_cameras("depth", {}, RecorderConfig(rig=rig_tree(frame())))
    _require_cameras("bev", {"data": "x"}, RecorderConfig())
