"""Replays over DDS: pace, stop and start, loops, and every topic of real bags as it was recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_msgs.msg import String
from std_srvs.srv import Trigger

from fed_core.data.bag_files import BagFile
from fed_core.data.open import open_sequence
from fed_nodes import qos
from fed_nodes.convert.clouds import points_from_msg
from fed_nodes.convert.images import depth_from_msg, rgb_from_msg, stamp_ns
from tests.ros.fleets import Fleet, record
from tests.ros.test_bad_input import refused_at_start

COLOUR, CLOCK = "/spot/camera/image_raw", "/spot/clock"
ALL = qos.recorded(reliable=True, latched=True, depth=10_000)
LATEST = qos.recorded(reliable=False, latched=False, depth=100)


@pytest.fixture
def told(fleet: Fleet) -> Callable[[str], str]:
    """Call a service of the replay and return its answer."""

    def call(name: str) -> str:
        client = fleet.watcher.node.create_client(Trigger, f"/spot/replay/{name}")
        fleet.watcher.until(client.service_is_ready)
        answer = fleet.watcher.call(client, Trigger.Request())
        assert answer.success
        return str(answer.message)

    return call


def colours(fleet: Fleet) -> list[int]:
    return [stamp_ns(msg.header.stamp) for msg in fleet.watcher.messages[COLOUR]]


def test_stop_start_and_loop(fleet: Fleet, told: Callable[[str], str]) -> None:
    bag = record(fleet.folder / "yard", frames=5)
    with BagFile(bag) as opened:
        first_ns, last_ns = opened.span_ns
    recorded = [first_ns + i * 100_000_000 for i in range(5)]
    fleet.watcher.watch(Image, COLOUR, qos.SENSORS_RELIABLE)
    fleet.watcher.watch(CameraInfo, "/spot/camera/camera_info", qos.SENSORS_RELIABLE)
    fleet.watcher.watch(Clock, CLOCK, qos.SENSORS)
    fleet.watcher.watch(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
    process = fleet.replay("spot", bag, start_paused=True, loop=True, rate_hz=0.1)
    process.wait_line(r".*plays yard, 5 frames; waits for ~/start")
    state = fleet.watcher.wait("/diagnostics", lambda m: m.status[0].hardware_id == "yard").status[0]
    assert {v.key: v.value for v in state.values} == {
        "state": "stopped",
        "frame": "0",
        "frames": "5",
        "skipped": "0",
        "pace": "0.1 Hz",
    }
    assert colours(fleet) == []

    assert told("start") == "goes on at frame 0 of 5"
    fleet.watcher.until(lambda: len(colours(fleet)) == 1)
    assert told("start") == "it plays already"
    assert told("stop") == "stopped at frame 1 of 5"
    # At the same frame again, though the next one was not due for 10 s; a clock that stands still.
    assert told("start") == "goes on at frame 1 of 5"
    fleet.watcher.until(lambda: colours(fleet) == recorded[:2])

    # A change at run time counts at once.
    client = fleet.watcher.node.create_client(SetParameters, "/spot/replay/set_parameters")
    fleet.watcher.until(client.service_is_ready)
    for value, taken in ((-1.0, False), (20.0, True)):
        request = SetParameters.Request(parameters=[Parameter("speed", value=value).to_parameter_msg()])
        assert fleet.watcher.call(client, request).results[0].successful is taken
    fleet.watcher.until(lambda: len(colours(fleet)) >= 12)
    assert colours(fleet)[:12] == [*recorded, *recorded, *recorded[:2]]
    clocks = [stamp_ns(msg.clock) for msg in fleet.watcher.messages[CLOCK]]
    assert set(clocks) <= set(recorded) and any(b < a for a, b in zip(clocks, clocks[1:], strict=False))
    assert told("restart") == "starts at frame 0 of 5"
    assert process.stop() == 0


def test_after_its_end_start_plays_it_again(fleet: Fleet, told: Callable[[str], str]) -> None:
    fleet.watcher.watch(Image, COLOUR, qos.SENSORS_RELIABLE)
    fleet.watcher.watch(CameraInfo, "/spot/camera/camera_info", qos.SENSORS_RELIABLE)
    process = fleet.replay("spot", record(fleet.folder / "yard", frames=3), speed=50.0)
    process.wait_line(r".*plays yard, 3 frames$")
    process.wait_line(r".*played 3 of 3 frames of yard")
    assert told("stop") == "it stands already"
    assert told("start") == "starts at frame 0 of 3"
    fleet.watcher.until(lambda: len(colours(fleet)) == 6)


def raw(fleet: Fleet, kind: type, topic: str) -> list[bytes]:
    """Return the list that fills with the bytes of a topic's messages."""
    kept: list[bytes] = []
    fleet.watcher.node.create_subscription(kind, topic, kept.append, ALL, raw=True)
    fleet.watcher.watch(kind, topic, ALL)
    return kept


def recorded_bytes(path: Path, topic: str) -> list[bytes]:
    with BagFile(path) as bag:
        return [bytes(message.data) for message in bag.messages([topic])]


def test_real_bag_of_ros2_arrives_byte_by_byte(fleet: Fleet, shared_data: Path) -> None:
    bag = shared_data / "rosbags/mcap/nav2_turtlebot.mcap"
    with BagFile(bag) as opened:
        names = sorted(t.name for t in opened.topics.values() if t.type == "nav_msgs/msg/Odometry")
        first_ns, _ = opened.span_ns
    new = {names[0]: "wheels/odometry"}
    kept = {name: raw(fleet, Odometry, f"/spot/{new.get(name, name.lstrip('/'))}") for name in names}
    fleet.watcher.watch(Clock, CLOCK, LATEST)
    process = fleet.replay("spot", bag, task="any", source={"bag": str(bag)}, topics=new, speed=60.0)
    if "tf2_msgs" not in {name.split("/")[0] for name in _installed()}:
        process.wait_line(r".*not played: /tf: tf2_msgs/msg/TFMessage is not installed")
    process.wait_line(r".*played \d+ of \d+ messages of nav2_turtlebot", 60.0)
    for name in names:
        expected = recorded_bytes(bag, name)
        fleet.watcher.until(lambda name=name, count=len(expected): len(kept[name]) >= count)  # noqa: B008
        assert kept[name] == expected
    clocks = [stamp_ns(msg.clock) for msg in fleet.watcher.messages[CLOCK]]
    assert clocks == sorted(clocks) and clocks[0] >= first_ns


def _installed() -> list[str]:
    from importlib.util import find_spec

    return ["tf2_msgs/msg"] if find_spec("tf2_msgs") else []


def test_real_bag_of_ros1_plays_its_images(fleet: Fleet, shared_data: Path) -> None:
    bag = shared_data / "rosbags/ros1/realsense_depth_color_640x480.bag"
    topic = "/device_0/sensor_0/Depth_0/image/data"
    kept = raw(fleet, Image, "/spot/camera/depth/image_raw")
    process = fleet.replay(
        "spot", bag, task="any", source={"bag": str(bag)}, topics={topic: "camera/depth/image_raw"}, speed=1000.0
    )
    process.wait_line(r".*not played: .*realsense_msgs/msg/StreamInfo is not installed.*is no name of a topic in ROS 2")
    with BagFile(bag) as opened:
        images = [opened.decode(message) for message in opened.messages([topic])]
    fleet.watcher.until(lambda: len(kept) == len(images))
    for image, message in zip(images, fleet.watcher.messages["/spot/camera/depth/image_raw"], strict=True):
        assert (message.height, message.width, message.encoding) == (image.height, image.width, image.encoding)
        assert bytes(message.data) == image.data.tobytes()
        assert (message.header.stamp.sec, message.header.stamp.nanosec) == (
            image.header.stamp.sec,
            image.header.stamp.nanosec,
        )


def test_quality_of_service_is_that_of_the_bag(fleet: Fleet, shared_data: Path) -> None:
    bag = shared_data / "rosbags/mcap/nav2_turtlebot.mcap"
    with BagFile(bag) as opened:
        offered = {c.topic: c.ext.offered_qos_profiles[0] for c in opened.connections}
    fleet.replay("spot", bag, task="any", source={"bag": str(bag)}, reliable=False, start_paused=True)
    node = fleet.watcher.node
    for topic in ("/odom", "/amcl_pose"):
        (info,) = fleet.watcher.until(lambda topic=topic: node.get_publishers_info_by_topic(f"/spot{topic}"))
        profile = info.qos_profile
        assert (profile.reliability is ReliabilityPolicy.RELIABLE) == (offered[topic].reliability.value == 1)
        assert (profile.durability is DurabilityPolicy.TRANSIENT_LOCAL) == (offered[topic].durability.value == 1)


def write_texts(path: Path, topic: str = "/note", kind: str = "std_msgs/msg/String") -> Path:
    store = get_typestore(Stores.ROS2_KILTED)
    message = store.serialize_cdr(store.types["std_msgs/msg/String"](data="hello"), "std_msgs/msg/String")
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        way = writer.add_connection(topic, kind, msgdef="string data\n", rihs01="RIHS01_0")
        writer.write(way, 1_000_000_000, message)
    return path


def test_what_cannot_be_played_ends_in_one_line(fleet: Fleet) -> None:
    foreign = write_texts(fleet.folder / "foreign", kind="antigravity/msg/String")
    changed = write_texts(fleet.folder / "changed", kind="sensor_msgs/msg/Image")
    clock = write_texts(fleet.folder / "clock", "/clock")
    good = write_texts(fleet.folder / "good")
    both = "task any plays a bag, and only it does"
    cases: list[tuple[str, dict[str, Any]]] = [
        (both, {"task": "any", "source": {"data": str(good)}}),
        (both, {"task": "depth", "source": {"bag": str(good)}}),
        ("antigravity/msg/String is not installed", {"task": "any", "source": {"bag": str(foreign)}}),
        ("was recorded with other fields", {"task": "any", "source": {"bag": str(changed)}}),
        ("the replay has a clock of its own", {"task": "any", "source": {"bag": str(clock)}}),
        ("topics names /no, which", {"task": "any", "source": {"bag": str(good)}, "topics": {"/no": "a"}}),
        ("nowhere does not exist", {"task": "any", "source": {"bag": str(fleet.folder / "nowhere")}}),
    ]
    started = [(fleet.replay(f"spot{n}", good, **parameters), text) for n, (text, parameters) in enumerate(cases)]
    for process, text in started:
        refused_at_start(process, text)


def test_small_bag_with_a_loop_and_its_own_namespace(fleet: Fleet) -> None:
    bag = write_texts(fleet.folder / "good")
    fleet.watcher.watch(String, "/spot/note", ALL)
    fleet.replay("spot", bag, task="any", source={"bag": str(bag)}, loop=True)
    fleet.watcher.until(lambda: len(fleet.watcher.messages["/spot/note"]) >= 3)
    assert {msg.data for msg in fleet.watcher.messages["/spot/note"]} == {"hello"}


def test_kitti_plays_camera_depth_and_laser(fleet: Fleet, shared_data: Path) -> None:
    folder = shared_data / "kitti_object"
    frame = open_sequence(folder)[0]
    topics = {
        COLOUR: Image,
        "/spot/camera/depth/image_raw": Image,
        "/spot/camera/camera_info": CameraInfo,
        "/spot/lidar/points": PointCloud2,
    }
    for topic, kind in topics.items():
        fleet.watcher.watch(kind, topic, qos.SENSORS_RELIABLE)
    fleet.replay("spot", folder)
    colour, depth, info, cloud = (fleet.watcher.wait(topic, lambda m: True) for topic in topics)
    np.testing.assert_array_equal(rgb_from_msg(colour), frame.rgb)
    np.testing.assert_array_equal(depth_from_msg(depth), frame.depth_m)
    np.testing.assert_allclose(np.reshape(info.k, (3, 3)), frame.intrinsics)
    assert cloud.header.frame_id == "velodyne" and stamp_ns(cloud.header.stamp) == frame.stamp_ns
    points = points_from_msg(cloud)
    np.testing.assert_array_equal(points[:, :4], np.fromfile(folder / "velodyne/000001.bin", "<f4").reshape(-1, 4))
    assert not points[:, 4].any()


def test_static_frames_are_latched_and_keep_their_name(fleet: Fleet) -> None:
    frames = write_texts(fleet.folder / "frames", "/tf_static")
    process = fleet.replay("spot", frames, task="any", source={"bag": str(frames)}, reliable=False)
    process.wait_line(r".*played 1 of 1 messages of frames")
    fleet.watcher.watch(String, "/tf_static", ALL)
    fleet.watcher.wait("/tf_static", lambda m: m.data == "hello")  # though it came late


def test_kitti_depth_plays_at_recorded_speed(fleet: Fleet, shared_data: Path) -> None:
    for topic, kind in {COLOUR: Image, "/spot/camera/camera_info": CameraInfo}.items():
        fleet.watcher.watch(kind, topic, qos.SENSORS_RELIABLE)
    sequence = open_sequence(shared_data / "depth_kitti")
    fleet.replay("spot", shared_data / "depth_kitti", speed=2.0)
    fleet.watcher.until(lambda: colours(fleet) == [sequence[index].stamp_ns for index in range(3)])
