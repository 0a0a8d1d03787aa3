"""Sensor topics over real DDS: what reaches the caller, and what is said of the topic's health."""

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cv2
import numpy as np
import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from rclpy.time import Time
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, LaserScan, PointCloud2

from fed_core.data.images import COLOUR_ENCODINGS, DEPTH_ENCODINGS, decode_colour, decode_depth
from fed_core.errors import ConfigError, DataError
from fed_nodes import qos
from fed_nodes.convert.images import depth_from_msg, rgb_from_msg, stamp_ns, to_stamp
from fed_nodes.sensing import sensors
from fed_nodes.sensing.sensors import (
    COMPRESSED,
    COMPRESSED_DEPTH,
    RAW,
    SensorTopic,
    first_problem,
    health_values,
    image_topic,
)

TOPIC = "camera/image_raw"
SECOND = 1_000_000_000


class Clock:
    """The machine's steady clock, moved by the test."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Log:
    """What a node logs."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.infos: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def info(self, text: str) -> None:
        self.infos.append(text)


class Bench:
    """One listening node, any number of cameras, and a clock that stands still."""

    def __init__(self, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        self._context = context
        self._nodes: list[Node] = []
        self._topics: list[SensorTopic] = []
        self._executor = SingleThreadedExecutor(context=context)
        self.clock, self.log = Clock(), Log()
        self.used: list[Any] = []
        monkeypatch.setattr(sensors, "time", self.clock)
        self.node = self.new_node("listener")

    def new_node(self, name: str, *remaps: str, **parameters: Any) -> Node:
        cli = ["--ros-args", *[word for remap in remaps for word in ("-r", remap)]]
        overrides = [Parameter(key, value=value) for key, value in parameters.items()]
        node = Node(name, context=self._context, cli_args=cli, parameter_overrides=overrides)
        node.get_logger = lambda: self.log  # type: ignore[method-assign, assignment, return-value]
        self._nodes.append(node)
        self._executor.add_node(node)
        return node

    def camera(self, name: str = "camera", kind: type = Image, topic: str = TOPIC, profile: Any = qos.OUTPUTS) -> Any:
        return self.new_node(name).create_publisher(kind, topic, profile)

    def listen(
        self, kind: type = Image, topic: str = TOPIC, use: Any = None, profile: Any = qos.OUTPUTS
    ) -> SensorTopic:
        return self.keep(SensorTopic(self.node, kind, topic, use or self.used.append, profile))

    def keep(self, made: SensorTopic) -> SensorTopic:
        self._topics.append(made)
        return made

    def until(self, condition: Callable[[], Any]) -> None:
        """Take the executor's steps until something is true; 10 s without it fail the test."""
        for _ in range(1000):
            if condition():
                return
            self._executor.spin_once(timeout_sec=0.01)
        pytest.fail("not true within 10 s")

    def send(self, publisher: Any, msg: Any, topic: SensorTopic) -> None:
        """Publish a message and wait until the topic took it."""
        self.until(publisher.get_subscription_count)
        before = topic.health().received
        publisher.publish(msg)
        self.until(lambda: topic.health().received == before + 1)

    def close(self) -> None:
        self._executor.shutdown()
        for topic in self._topics:
            topic.close()
        for node in self._nodes:
            node.destroy_node()


@pytest.fixture
def bench(ros_context: Context, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(ros_context, monkeypatch)
    yield made
    made.close()


def image(time_ns: int = SECOND, width: int = 4, height: int = 3, encoding: str = "mono8") -> Image:
    msg = Image(width=width, height=height, step=width, encoding=encoding, data=bytes(range(width * height)))
    msg.header.stamp = to_stamp(time_ns)
    return msg


def test_messages_are_used_and_counted(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()

    for number in range(6):
        bench.send(camera, image((number + 1) * SECOND), topic)
        bench.clock.now_s += 0.1

    health = topic.health()
    assert [stamp_ns(msg.header.stamp) // SECOND for msg in bench.used] == [1, 2, 3, 4, 5, 6]
    assert (health.received, health.dropped, health.publishers, health.problem) == (6, 0, 1, "")
    # Six messages, the first 0.5 s before the last.
    assert health.rate_hz == pytest.approx(10.0) and health.age_s == pytest.approx(0.1)
    assert topic.name == "/camera/image_raw" and bench.log.warnings == []


def test_rates_are_those_of_late(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    for gap_s in (0.01, 0.01, 0.01, 4.0, 1.0, 1.0, 1.0):
        bench.send(camera, image(), topic)
        bench.clock.now_s += gap_s
    # The first four came more than 5 s ago; the last three were 1 s apart.
    assert topic.health().rate_hz == pytest.approx(1.0)


def test_a_topic_that_nobody_publishes_or_on_which_nothing_comes(bench: Bench) -> None:
    topic = bench.listen()
    assert topic.health() == sensors.TopicHealth(0, 0, 0.0, math.inf, 0, "")  # it has just begun
    bench.clock.now_s += 5.5
    assert topic.health().problem == "/camera/image_raw: nobody publishes it; start the driver or remap the topic"
    bench.camera()
    bench.until(lambda: topic.health().publishers == 1)
    assert topic.health().problem == "/camera/image_raw: no message yet, though 1 node(s) publish it"


def test_a_quality_of_service_that_does_not_fit_is_named(bench: Bench) -> None:
    topic = bench.listen(profile=qos.SENSORS_RELIABLE)
    bench.camera("front_camera", profile=qos.SENSORS)
    bench.clock.now_s += 5.5
    bench.until(lambda: topic.health().publishers == 1)
    problem = topic.health().problem
    assert problem.startswith("/camera/image_raw: the quality of service of /front_camera does not fit: ")
    assert "reliab" in problem.lower() and "\n" not in problem


def test_a_topic_of_another_type_is_named(bench: Bench) -> None:
    topic = bench.listen(PointCloud2, "points")
    bench.clock.now_s += 5.5
    other = Context()  # a process has one type for a topic
    rclpy.init(context=other, domain_id=101)
    laser = Node("laser", context=other)
    laser.create_publisher(LaserScan, "points", qos.OUTPUTS)
    try:
        bench.until(lambda: "/laser publishes" in topic.health().problem)
        problem = topic.health().problem
    finally:
        laser.destroy_node()
        rclpy.try_shutdown(context=other)
    types = "sensor_msgs/msg/LaserScan, not sensor_msgs/msg/PointCloud2"
    assert problem == f"/points: /laser publishes {types}; remap the topic"


def test_images_that_only_travel_compressed_are_found(bench: Bench) -> None:
    topic = bench.listen()
    bench.camera(kind=CompressedImage, topic=f"{TOPIC}/compressed")
    bench.clock.now_s += 5.5
    bench.until(lambda: "compressed" in topic.health().problem)
    why = "nobody publishes it, but /camera/image_raw/compressed; choose that image transport"
    assert topic.health().problem == f"/camera/image_raw: {why}"


def test_a_camera_that_stops_and_returns(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    bench.send(camera, image(), topic)
    bench.clock.now_s += 2.0
    assert topic.health().problem == ""
    bench.clock.now_s += 5.0
    health = topic.health()
    assert health.problem == "/camera/image_raw: no message for 5 s; is the sensor's driver still running?"
    assert (health.rate_hz, health.age_s) == (0.0, 7.0)
    assert first_problem([topic]) == health.problem
    bench.clock.now_s += 2.0  # the text stays for a while: who logs what has changed must not log each second
    assert topic.health().problem == health.problem

    bench.send(camera, image(9 * SECOND), topic)

    assert topic.health().problem == "" and len(bench.used) == 2
    assert bench.log.infos == ["/camera/image_raw: messages come again after 9.0 s"]


def test_a_stamp_of_zero_is_refused(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    bench.send(camera, image(0), topic)
    assert bench.used == [] and topic.health().dropped == 1
    why = "dropped a message without a time (header.stamp is zero); let the driver stamp what it publishes"
    assert topic.health().problem == f"/camera/image_raw: {why}" == bench.log.warnings[0]
    bench.send(camera, image(), topic)
    assert len(bench.used) == 1
    bench.clock.now_s += 1.0
    assert why in topic.health().problem  # shown for some seconds, so that people see it
    bench.send(camera, image(2 * SECOND), topic)
    bench.clock.now_s += 1.0
    bench.send(camera, image(3 * SECOND), topic)
    bench.clock.now_s += 1.9
    bench.send(camera, image(4 * SECOND), topic)
    bench.clock.now_s += 1.2
    assert topic.health().problem == ""


def test_a_stamp_in_the_future_is_used_and_told(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    now_ns = bench.node.get_clock().now().nanoseconds
    bench.send(camera, image(now_ns + SECOND // 2), topic)
    assert topic.health().problem == ""
    bench.send(camera, image(now_ns + 60 * SECOND), topic)
    assert len(bench.used) == 2 and topic.health().dropped == 0
    problem = topic.health().problem
    assert problem.startswith("/camera/image_raw: the clock of the sensor is ")
    found = re.fullmatch(r".* is (\S+) s ahead of this node's; synchronise the clocks", problem)
    assert found and 50.0 < float(found[1]) <= 60.0


def test_simulated_time_counts_and_before_its_first_message_nothing_is_in_the_future(bench: Bench) -> None:
    node = bench.new_node("simulated", use_sim_time=True)
    topic = bench.keep(SensorTopic(node, Image, TOPIC, bench.used.append, qos.OUTPUTS))
    camera = bench.camera()
    bench.send(camera, image(1000 * SECOND), topic)
    assert topic.health().problem == ""
    node.get_clock().set_ros_time_override(Time(seconds=1000.0))  # type: ignore[attr-defined]
    bench.send(camera, image(1003 * SECOND), topic)
    assert "3 s ahead of this node's" in topic.health().problem


def test_stamps_that_go_back_are_used_and_counted(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    for seconds in (10, 11, 4, 5):
        bench.send(camera, image(seconds * SECOND), topic)
    assert len(bench.used) == 4 and topic.stepped_back == 1 and topic.health().dropped == 0
    why = "/camera/image_raw: stamps went back by 7 s; a replay began again, or a clock was set back"
    assert topic.health().problem == why
    assert health_values([topic])["/camera/image_raw stepped_back"] == "1"
    assert topic.has_told(why) and not topic.has_told("another")


def test_a_replay_in_a_loop_is_told_ever_more_rarely(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    for seconds in (4, 11) * 9:
        bench.send(camera, image(seconds * SECOND), topic)
        bench.clock.now_s += 1.5
    assert topic.stepped_back == 8 and len(bench.log.warnings) == 4  # the 1st, 2nd, 4th and 8th time


def test_two_publishers_are_named(bench: Bench) -> None:
    topic, first, second = bench.listen(), bench.camera("left_camera"), bench.camera("right_camera")
    bench.send(first, image(), topic)
    bench.send(second, image(2 * SECOND), topic)
    bench.until(lambda: topic.health().publishers == 2)
    assert len(bench.used) == 2
    text = "/camera/image_raw: 2 publishers at once (/left_camera, /right_camera); stop or remap all but one"
    assert topic.health().problem == text


def test_what_the_caller_cannot_use_is_dropped_and_told_with_patience(bench: Bench) -> None:
    def use(msg: Image) -> None:
        raise DataError(f"no picture {stamp_ns(msg.header.stamp) // SECOND}")

    topic, camera = bench.listen(use=use), bench.camera()
    for number in range(1, 5):
        bench.send(camera, image(number * SECOND), topic)
        bench.clock.now_s += 1.0
    topic.drop("found no partner")

    assert topic.health().dropped == 5 and topic.health().problem == "/camera/image_raw: found no partner"
    # One line in two seconds, however many are dropped.
    assert [text.rpartition(" ")[2] for text in bench.log.warnings] == ["1", "3", "partner"]
    assert bench.log.warnings[0] == "/camera/image_raw: dropped a message: no picture 1"


def test_a_camera_info_may_be_said_once_and_without_a_time(bench: Bench) -> None:
    topic = bench.listen(CameraInfo, "camera/camera_info")
    publisher = bench.camera(kind=CameraInfo, topic="camera/camera_info")
    bench.send(publisher, CameraInfo(width=4), topic)
    bench.clock.now_s += 100.0
    assert [msg.width for msg in bench.used] == [4] and topic.health().problem == ""
    assert topic.health().dropped == 0


def test_compressed_images_are_where_image_transport_publishes_them(bench: Bench) -> None:
    node = bench.new_node("remapped", "camera/image_raw:=/front/image")
    open_topic = partial(image_topic, node, TOPIC, use=bench.used.append, profile=qos.OUTPUTS)
    names = [bench.keep(open_topic(transport)).name for transport in (RAW, COMPRESSED, COMPRESSED_DEPTH)]
    assert names == ["/front/image", "/front/image/compressed", "/front/image/compressedDepth"]
    with pytest.raises(ConfigError, match="'theora' is not known; known: raw, compressed, compressedDepth"):
        open_topic("theora")


def test_values_for_diagnostics(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    assert health_values([topic])["/camera/image_raw age_s"] == "inf"
    for _ in range(3):
        bench.send(camera, image(), topic)
        bench.clock.now_s += 0.5
    expected = {"rate_hz": "2.0", "age_s": "0.5", "dropped": "0"}
    assert health_values([topic]) == {f"/camera/image_raw {key}": value for key, value in expected.items()}
    assert first_problem([topic]) == "" == first_problem([])


def test_a_closed_topic_takes_nothing_more(bench: Bench) -> None:
    topic, camera = bench.listen(), bench.camera()
    bench.send(camera, image(), topic)
    topic.close()
    topic.close()
    bench.until(lambda: camera.get_subscription_count() == 0)
    assert topic.health().publishers == 0 and topic.health().received == 1


#: Bytes of a pixel.
SIZES = {"mono8": 1, "mono16": 2, "16UC1": 2, "32FC1": 4, "yuv422": 2, "yuv422_yuy2": 2, "uyvy": 2, "yuyv": 2}


def bytes_of(encoding: str) -> int:
    if encoding in SIZES:
        return SIZES[encoding]
    channels = 1 if encoding.startswith("bayer") else 4 if encoding[3] == "a" else 3
    return channels * (2 if encoding.endswith("16") else 1)


def test_every_encoding_comes_through(bench: Bench) -> None:
    """One camera that goes through all encodings, and is of another size each time."""
    topic, camera = bench.listen(), bench.camera()
    rng = np.random.default_rng(3)
    for number, encoding in enumerate((*COLOUR_ENCODINGS, *DEPTH_ENCODINGS)):
        height, width = 4 + number, 6 + 2 * number
        data = rng.integers(0, 100, (height, width * bytes_of(encoding)), np.uint8)
        msg = Image(height=height, width=width, encoding=encoding, step=data.shape[1], data=data.tobytes())
        msg.header.stamp = to_stamp(number + 1)
        bench.send(camera, msg, topic)
        as_depth = number >= len(COLOUR_ENCODINGS)  # mono16 may be both
        read, decode = (depth_from_msg, decode_depth) if as_depth else (rgb_from_msg, decode_colour)
        np.testing.assert_array_equal(read(bench.used[-1]), decode(data, encoding, height, width))
    assert topic.health().problem == ""


def test_every_compressed_form_comes_through(bench: Bench) -> None:
    topic = bench.keep(image_topic(bench.node, TOPIC, COMPRESSED, bench.used.append, qos.OUTPUTS))
    camera = bench.camera(kind=CompressedImage, topic=f"{TOPIC}/compressed")
    flat = np.full((8, 6, 3), (30, 90, 200), np.uint8)
    for number, (form, kind) in enumerate((("jpeg", ".jpg"), ("rgb8; png compressed bgr8", ".png"))):
        msg = CompressedImage(format=form, data=cv2.imencode(kind, flat)[1].tobytes())
        msg.header.stamp = to_stamp(number + 1)
        bench.send(camera, msg, topic)
        assert np.abs(rgb_from_msg(bench.used[-1]).astype(int) - flat[..., ::-1]).max() <= 4
    msg = CompressedImage(format="16UC1; compressedDepth png")
    msg.header.stamp = to_stamp(9)
    msg.data.frombytes(bytes(12) + cv2.imencode(".png", np.array([[2500]], np.uint16))[1].tobytes())
    bench.send(camera, msg, topic)
    assert depth_from_msg(bench.used[-1])[0, 0] == np.float32(2.5)


def test_text_that_is_no_text_does_not_end_the_node(bench: Bench) -> None:
    """Bytes that no publisher of ours makes: an encoding that is not UTF-8."""
    topic, camera = bench.listen(use=lambda msg: bench.used.append(rgb_from_msg(msg))), bench.camera()
    raw = serialize_message(image()).replace(b"mono8", b"\xff\xfe\xc3\x28\x80")
    bench.send(camera, raw, topic)
    assert bench.used == [] and "is not supported; supported: rgb8" in topic.health().problem
    bench.send(camera, image(2 * SECOND), topic)
    assert len(bench.used) == 1
