"""Replay of an M3ED recording: colour, depth and cameras as of any recording, and both event cameras besides."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo, Image

from fed_core.data.m3ed.sequence import open_m3ed
from fed_nodes import qos
from fed_nodes.convert.images import depth_from_msg, rgb_from_msg, stamp_ns
from scripts.write_interfaces import NODES, SOMETIMES
from tests.core.data import m3ed_fixture as made
from tests.ros.fleets import Fleet

COLOUR, DEPTH, INFO = "/spot/camera/image_raw", "/spot/camera/depth/image_raw", "/spot/camera/camera_info"
LEFT, RIGHT = "/spot/prophesee/left/camera_info", "/spot/prophesee/right/camera_info"
NATIVE = "/spot/prophesee/left/depth/image_raw"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_recording(tmp_path_factory.mktemp("m3ed") / "spot_forest_hard")


@pytest.fixture
def played(fleet: Fleet, recording: Path) -> Iterator[Fleet]:
    """A replay of frames 1 and later, with a reader of each topic."""
    for kind, topics in ((Image, (COLOUR, DEPTH, NATIVE)), (CameraInfo, (INFO, LEFT, RIGHT))):
        for topic in topics:
            fleet.watcher.watch(kind, topic, qos.SENSORS_RELIABLE)
    fleet.nodes["replay"] = fleet.replay("spot", recording, source={"data": str(recording), "start": 1})
    for topic in fleet.watcher.messages:
        fleet.watcher.until(lambda topic=topic: len(fleet.watcher.messages[topic]) == 3)
    yield fleet


def test_all_cameras_and_the_native_depth_are_published(played: Fleet, recording: Path) -> None:
    sequence, messages = open_m3ed(recording), played.watcher.messages
    for place in range(3):
        frame, native = sequence[place + 1], sequence.native(place + 1)
        colour, depth, info = (messages[topic][place] for topic in (COLOUR, DEPTH, INFO))
        np.testing.assert_array_equal(rgb_from_msg(colour), frame.rgb)
        np.testing.assert_array_equal(depth_from_msg(depth), frame.depth_m)
        assert {m.header.frame_id for m in (colour, depth, info)} == {"ovc_rgb"}
        assert {stamp_ns(m.header.stamp) for m in (colour, depth, info)} == {frame.stamp_ns}
        np.testing.assert_allclose(np.reshape(info.k, (3, 3)), frame.intrinsics)
        np.testing.assert_allclose(info.d, [*made.RGB.distortion, 0.0])
        np.testing.assert_array_equal(depth_from_msg(messages[NATIVE][place]), native.depth_m)
        assert stamp_ns(messages[NATIVE][place].header.stamp) == made.DEPTH_US[place + 1] * 1000
        for topic, name, camera in (
            (LEFT, "prophesee_left", made.EVENT_LEFT),
            (RIGHT, "prophesee_right", made.EVENT_RIGHT),
        ):
            told = messages[topic][place]
            assert told.header.frame_id == name and (told.height, told.width) == (camera.height, camera.width)
            assert stamp_ns(told.header.stamp) == made.DEPTH_US[place + 1] * 1000
            np.testing.assert_allclose(np.reshape(told.k, (3, 3)), camera.matrix)
            np.testing.assert_allclose(told.d, [*camera.distortion, 0.0])


def test_published_topics_are_the_documented_ones(played: Fleet) -> None:
    graph = played.watcher.node.get_publisher_names_and_types_by_node("replay", "/spot")
    told = [*NODES["replay"], *SOMETIMES["replay"][0][1]]
    expected = {row.name if row.name.startswith("/") else f"/spot/{row.name}" for row in told}
    assert {name for name, _ in graph} - {"/rosout", "/parameter_events", "/tf_static"} == expected


def test_recording_without_depth_is_refused_in_one_line(fleet: Fleet, tmp_path: Path) -> None:
    folder = made.write_recording(tmp_path / "spot_forest_hard")
    (folder / "spot_forest_hard_depth_gt.h5").unlink()
    process = fleet.replay("spot", folder)
    assert process.wait(30.0) == 2
    process.close()
    told = [line for line in process.output if line.startswith("error: ")]
    assert len(told) == 1 and "spot_forest_hard has no depth" in told[0]
