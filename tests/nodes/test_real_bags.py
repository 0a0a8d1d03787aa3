"""Real recordings over real DDS give the pictures that the readers of bags see; what has no frames says so."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_core.data.bag_files import BagFile
from fed_core.data.open import open_sequence
from fed_core.errors import DataError
from fed_nodes import qos
from fed_nodes.convert.images import depth_from_msg, frame_from_msgs, rgb_from_msg, stamp_ns, to_stamp
from fed_nodes.sensing.sensors import SensorTopic, first_problem

load_verbs()

REALSENSE = "rosbags/ros1/realsense_depth_color_640x480.bag"
COLOUR, DEPTH, INFO = "camera/image_raw", "camera/depth/image_raw", "camera/camera_info"


def header_of(old: Any) -> Header:
    stamp = to_stamp(old.header.stamp.sec * 1_000_000_000 + old.header.stamp.nanosec)
    return Header(stamp=stamp, frame_id=old.header.frame_id)


def image_of(old: Any) -> Image:
    """Return a message of ROS 1 as one of ROS 2."""
    made = Image(header=header_of(old), height=old.height, width=old.width, encoding=old.encoding, step=old.step)
    made.data.frombytes(old.data.tobytes())
    return made


def info_of(old: Any) -> CameraInfo:
    return CameraInfo(
        header=header_of(old),
        height=old.height,
        width=old.width,
        distortion_model=old.distortion_model,
        d=old.D.tolist(),
        k=old.K.tolist(),
    )


def test_a_real_depth_camera_gives_live_what_its_bag_gives(shared_data: Path, make_node: Callable[..., Node]) -> None:
    path = shared_data / REALSENSE
    expected = open_sequence(path, slop_s=0.11)
    with BagFile(path) as bag:
        named = expected.topics  # type: ignore[attr-defined]
        colour, info = image_of(bag.first(named.colour)), info_of(bag.first(named.info))
        depths = [image_of(bag.decode(raw)) for raw in bag.messages([named.depth])]
    node, came = make_node(), {}
    sent = {COLOUR: (Image, [colour]), DEPTH: (Image, depths), INFO: (CameraInfo, [info])}
    topics, publishers = [], {}
    for name, (kind, _) in sent.items():
        kept: list[Any] = came.setdefault(name, [])
        topics.append(SensorTopic(node, kind, name, kept.append, qos.SENSORS_RELIABLE))
        publishers[name] = node.create_publisher(kind, name, qos.SENSORS_RELIABLE)
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)

    for name, (_, messages) in sent.items():
        for message in messages:
            publishers[name].publish(message)
    for _ in range(500):
        if [len(came[name]) for name in (COLOUR, DEPTH, INFO)] == [1, 2, 1]:
            break
        executor.spin_once(timeout_sec=0.02)

    frame = expected[0]
    near = min(came[DEPTH], key=lambda msg: abs(stamp_ns(msg.header.stamp) - frame.stamp_ns))
    made = frame_from_msgs(came[COLOUR][0], near, came[INFO][0])
    np.testing.assert_array_equal(made.rgb, frame.rgb)
    np.testing.assert_array_equal(made.depth_m, frame.depth_m)
    np.testing.assert_array_equal(made.intrinsics, frame.intrinsics)
    assert made.stamp_ns == frame.stamp_ns and made.rgb.shape == (480, 640, 3)
    assert first_problem(topics) == "" and [topic.health().dropped for topic in topics] == [0, 0, 0]
    # Its grey depth cannot be taken for colour without notice, nor its colour for depth.
    with pytest.raises(DataError, match="depth encoding 'rgb8' is not supported"):
        depth_from_msg(came[COLOUR][0])
    assert rgb_from_msg(near).std() < 5  # mono16 of millimetres is an almost black picture
    executor.shutdown()
    for topic in topics:
        topic.close()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "rosbag2_sqlite3/velodyne_vlp16/1673400471837873222",
            "has no depth image topic; topics there: /velodyne_packets (velodyne_msgs/msg/VelodyneScan)",
        ),
        ("rosbag2_sqlite3/velodyne_vlp16", "recordings in it, name one: 1673400471837873222"),
        ("ros1/tilt_laser.bag", "has no depth image topic; topics there: /gravity_vector"),
    ],
)
def test_recordings_of_a_lidar_alone_are_no_frames(shared_data: Path, path: str, text: str) -> None:
    with pytest.raises(DataError) as caught:
        open_sequence(shared_data / "rosbags" / path)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_inspect_shows_the_topics_of_a_lidar_and_why_there_are_no_frames(shared_data: Path) -> None:
    bag = shared_data / "rosbags/rosbag2_sqlite3/velodyne_vlp16/1673400471837873222"
    result = CliRunner().invoke(app, ["inspect", str(bag)])
    assert result.exit_code == 0 and "/velodyne_packets" in result.output and "no depth image topic" in result.output


@pytest.mark.parametrize("kind", ["rosbag2_mcap", "rosbag2_sqlite3"])
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda text: text[: len(text) // 3], "metadata"),
        (lambda text: text.replace("rosbag2_bagfile_information", "something"), "metadata"),
        (lambda text: "{[", "metadata"),
        (lambda text: "", "metadata"),
        (lambda text: text.replace("wbag_0", "wbag_99"), "wbag_99"),
    ],
)
def test_a_real_bag_whose_metadata_is_broken(
    shared_data: Path, tmp_path: Path, kind: str, change: Callable[[str], str], text: str
) -> None:
    bag = shutil.copytree(shared_data / "rosbags" / kind / "wbag", tmp_path / "wbag", copy_function=shutil.copyfile)
    bag.chmod(0o755)
    metadata = bag / "metadata.yaml"
    metadata.write_text(change(metadata.read_text()))
    with pytest.raises(DataError) as caught:
        open_sequence(bag)
    assert text in str(caught.value) and "\n" not in str(caught.value)
    result = CliRunner().invoke(app, ["inspect", str(bag)])
    told = " ".join(result.output.split())
    assert result.exit_code == 2 and told.startswith("error: ") and "Traceback" not in told, result.output
