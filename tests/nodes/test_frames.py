"""Sensor topics to frames, over DDS in one process: a depth camera, and what goes wrong with sensors."""

import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage

from fed_core.errors import ConfigError
from fed_nodes import qos
from fed_nodes.convert.images import to_stamp
from fed_nodes.sensing import waiting
from fed_nodes.sensing.frames import FrameOptions, pair_frames, sensor_names
from tests.nodes.frame_bench import MOUNT, SIZE, START_NS, Bench, K, cloud, colour, depth, header, info


def test_colour_and_depth_of_one_time_are_a_frame(bench: Callable[..., Bench]) -> None:
    robot = bench()
    robot.send("camera/camera_info", info())
    robot.camera(10)
    robot.camera(43, metres=3.0)
    assert robot.stamps_ms() == [10, 43]
    frame = robot.frames[1]
    assert (frame.rgb[0, 0, 0], frame.depth_m[0, 0], frame.frame_id) == (9, 3.0, "camera_optical_frame")
    np.testing.assert_array_equal(frame.intrinsics, K)
    assert (robot.problem(), robot.pairer.dropped) == ("", 0)
    assert robot.pairer.counts()["frames"] == "2"
    robot.pairer.close()
    assert robot.node.count_subscribers("camera/image_raw") == 0


def test_the_nearest_depth_is_taken_and_the_rest_is_counted(bench: Callable[..., Bench]) -> None:
    robot = bench()
    robot.send("camera/camera_info", info())
    robot.send("camera/image_raw", colour(0))
    robot.send("camera/image_raw", colour(10))
    robot.send("camera/depth/image_raw", depth(12))
    assert robot.stamps_ms() == []  # an image of 13 might come
    robot.send("camera/image_raw", colour(20))
    assert robot.stamps_ms() == [10]
    robot.send("camera/depth/image_raw", depth(45))  # 25 ms after the last image
    counts = robot.pairer.counts()
    assert (counts["unpaired_colour"], counts["unpaired_depth"], robot.pairer.dropped) == ("2", "0", 2)


def test_rectified_images_have_the_camera_of_p(bench: Callable[..., Bench]) -> None:
    robot = bench(rectified=True)
    p = [9.0, 0.0, 7.0, 0.0, 0.0, 9.0, 5.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    robot.send("camera/camera_info", info(p=p, d=[0.1, 0.0, 0.0, 0.0, 0.0]))
    robot.camera(10)
    np.testing.assert_array_equal(robot.frames[0].intrinsics, [[9, 0, 7], [0, 9, 5], [0, 0, 1]])


def test_compressed_images_are_taken_from_their_own_topics(bench: Callable[..., Bench]) -> None:
    robot = bench(image_transport="compressed", depth_transport="compressedDepth")
    robot.send("camera/camera_info", info())
    png = cv2.imencode(".png", np.full((*SIZE, 3), (1, 2, 3), np.uint8))[1].tobytes()
    metres = bytes(12) + cv2.imencode(".png", np.full(SIZE, 2500, np.uint16))[1].tobytes()
    robot.send("camera/image_raw/compressed", CompressedImage(header=header(5), format="rgb8; png", data=png))
    msg = CompressedImage(header=header(5), format="16UC1; compressedDepth png", data=metres)
    robot.send("camera/depth/image_raw/compressedDepth", msg)
    (frame,) = robot.frames
    assert (frame.rgb[0, 0].tolist(), frame.depth_m[0, 0]) == ([3, 2, 1], 2.5)


# --- bad input


def test_a_stamp_of_zero_is_refused(bench: Callable[..., Bench]) -> None:
    robot = bench()
    robot.send("camera/camera_info", info())
    msg = colour(5)
    msg.header.stamp = to_stamp(0)
    robot.send("camera/image_raw", msg)
    robot.send("camera/depth/image_raw", depth(5))
    assert robot.frames == []
    assert "/camera/image_raw: dropped a message without a time" in robot.problem()
    robot.camera(15)
    assert robot.stamps_ms() == [15]


def test_a_replay_that_begins_again_goes_on_giving_frames(bench: Callable[..., Bench]) -> None:
    robot = bench()
    robot.send("camera/camera_info", info())
    for _ in range(2):
        robot.send("camera/image_raw", colour(0))
        robot.send("camera/depth/image_raw", depth(1))
        robot.camera(33)
        robot.send("camera/image_raw", colour(66))  # its depth is never sent
    assert robot.stamps_ms() == [0, 33, 0, 33]
    assert robot.pairer.dropped == 1  # the first 66, once the clock was back
    assert [topic.stepped_back for topic in robot.pairer.topics[:2]] == [1, 1]


def test_colour_that_stops_and_comes_back(bench: Callable[..., Bench]) -> None:
    robot = bench()
    robot.send("camera/camera_info", info())
    robot.camera(0)
    for number in range(1, 41):
        robot.send("camera/depth/image_raw", depth(33 * number))
    assert robot.stamps_ms() == [0]
    assert robot.pairer.dropped == 10  # 30 wait, whatever happens
    robot.camera(33 * 41)
    assert robot.stamps_ms() == [0, 33 * 41]
    assert robot.pairer.dropped == 40


def test_fewer_messages_wait_where_they_are_large(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    robot = bench()
    monkeypatch.setattr(waiting, "MOST_BYTES", 7 * 3 * 12 * 16)  # seven colour images, or five of depth
    for number in range(10):
        robot.camera(33 * number)
    assert (robot.pairer.counts()["unpaired_colour"], robot.pairer.counts()["unpaired_depth"]) == ("3", "5")
    robot.send("camera/camera_info", info())
    assert robot.stamps_ms() == [33.0 * number for number in range(5, 10)]


def test_frames_wait_for_the_camera(bench: Callable[..., Bench]) -> None:
    robot = bench()
    for number in range(35):
        robot.camera(33 * number)
    assert robot.frames == [] and robot.pairer.dropped == 10  # five of each
    robot.send("camera/camera_info", info())
    assert robot.stamps_ms() == [33.0 * number for number in range(5, 35)]


@pytest.mark.parametrize("options", [{}, {"depth_from": "lidar", "lidar_mount": MOUNT}])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": [0.0] * 9}, "focal length"),
        ({"k": [8.0, 0, 7.5, 0, math.nan, 5.5, 0, 0, 1]}, "focal length"),
        ({"width": 640, "height": 480}, "camera_info is of 640x480 pixels, the image 16x12"),
    ],
)
def test_a_camera_info_that_is_no_camera_of_the_image_is_refused(
    bench: Callable[..., Bench], options: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    robot = bench(**options)
    robot.send("camera/camera_info", info(**changes))
    robot.send("camera/image_raw", colour(5))
    if options:
        robot.send("lidar/points", cloud(5, (4.0, 0.0, 0.0)))
    else:
        robot.send("camera/depth/image_raw", depth(5))
    assert robot.frames == [] and robot.pairer.dropped == 1
    assert words in robot.problem() and "\n" not in robot.problem()
    robot.send("camera/camera_info", info())  # calibrated now
    robot.send("camera/image_raw", colour(15))
    robot.send(
        "lidar/points" if options else "camera/depth/image_raw", cloud(15, (4.0, 0, 0)) if options else depth(15)
    )
    assert robot.stamps_ms() == [15]


def test_a_resolution_that_changes_costs_the_frames_in_between(bench: Callable[..., Bench]) -> None:
    robot, small = bench(), (6, 8)
    robot.send("camera/camera_info", info())
    robot.camera(0)
    robot.send("camera/image_raw", colour(33, size=small))
    robot.send("camera/depth/image_raw", depth(33))  # still the old size
    assert "colour is 8x6 and depth 16x12" in robot.problem()
    robot.send("camera/image_raw", colour(66, size=small))
    robot.send("camera/depth/image_raw", depth(66, size=small))
    assert "camera_info is of 16x12 pixels, the image 8x6" in robot.problem()
    robot.send("camera/camera_info", info(small))
    robot.send("camera/image_raw", colour(100, size=small))
    robot.send("camera/depth/image_raw", depth(100, size=small))
    assert [frame.rgb.shape for frame in robot.frames] == [(12, 16, 3), (6, 8, 3)]
    assert robot.pairer.dropped == 2


# --- options


def test_frames_nobody_wants_are_not_made(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    robot = bench()
    asked: list[float] = []
    robot.pairer.close()
    robot.pairer = pair_frames(
        robot.node,
        FrameOptions(),
        qos.SENSORS_RELIABLE,
        0.02,
        robot.frames.append,
        wanted=lambda time_ns: bool(asked.append((time_ns - START_NS) / 1e6)),
    )
    robot.send("camera/camera_info", info())
    robot.camera(5)
    robot.pairer.close()
    assert (asked, robot.frames, robot.pairer.dropped) == ([5], [], 0)


def test_a_user_who_has_enough_gets_no_more(bench: Callable[..., Bench]) -> None:
    robot = bench()
    robot.camera(0)
    robot.camera(33)
    robot.frames = []
    robot.pairer._use = lambda frame: (robot.frames.append(frame), robot.pairer.close())  # type: ignore[assignment]
    robot.pairer._on_info("camera/camera_info", info())
    assert robot.stamps_ms() == [0]


def test_topics_of_each_set_up_are_named(make_node: Callable[..., Node]) -> None:
    node = make_node()
    assert list(sensor_names(node).values()) == ["/camera/image_raw", "/camera/depth/image_raw", "/camera/camera_info"]
    lidar = sensor_names(node, FrameOptions(depth_from="lidar", lidar_mount=MOUNT))
    assert list(lidar.values()) == ["/camera/image_raw", "/lidar/points", "/camera/camera_info"]
    stereo = ["/camera/image_raw", "/camera/right/image_raw", "/camera/camera_info", "/camera/right/camera_info"]
    assert list(sensor_names(node, FrameOptions(depth_from="stereo")).values()) == stereo


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"depth_from": "radar"}, "FrameOptions.depth_from is 'radar'; choose one of camera, lidar, stereo"),
        ({"depth_from": "lidar"}, "nothing says where it sits; give lidar_mount a position and a rotation, or set"),
        ({"lidar_mount": {"position": [0, 0]}}, "lidar_mount: key 'rotation' is missing"),
        ({"camera_mount": {"position": [0, 0, 0], "rotation": [0, 0, 0, 3]}}, "quaternion x, y, z, w of length 1"),
        ({"depth_near_m": 5.0, "depth_far_m": 5.0}, "depth_far_m is 5; it must be more than depth_near_m"),
        ({"max_disparity_px": 4}, "FrameOptions.max_disparity_px is 4; it must lie between 16 and 1024"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as err:
        FrameOptions(**options)
    assert words in str(err.value) and "\n" not in str(err.value)
