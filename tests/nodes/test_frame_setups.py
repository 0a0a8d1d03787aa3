"""Frames of a camera beside a LiDAR, and of two cameras: depth by hand, over DDS in one process."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo

from fed_core.data.samples import open_samples
from fed_nodes.convert.images import colour_to_msg
from fed_nodes.recording.recorder import Recorder, RecorderConfig
from tests.nodes.frame_bench import MOUNT, SIZE, START_NS, Bench, cloud, colour, header, info

# --- LiDAR


def test_a_cloud_is_seen_by_the_camera_beside_it(bench: Callable[..., Bench]) -> None:
    robot = bench(depth_from="lidar", lidar_mount=MOUNT)
    robot.send("camera/camera_info", info())
    robot.send("camera/image_raw", colour(5))
    # Camera (x, y, z): (1, -0.5, 4), twice behind each other; behind the camera; too near; without a place.
    points = [(4.0, -1.0, 0.5), (8.0, -2.0, 1.0), (-4.0, 0.0, 0.0), (0.2, 0.0, 0.0), (math.nan, 0.0, 0.0)]
    robot.send("lidar/points", cloud(5, *points))
    (frame,) = robot.frames
    # u = 8 / 4 + 7.5 = 9.5 rounds to 10, v = -4 / 4 + 5.5 = 4.5 to 4.
    assert np.argwhere(np.isfinite(frame.depth_m)).tolist() == [[4, 10]]
    assert frame.depth_m[4, 10] == 4.0
    assert robot.pairer.counts()["points_without_place"] == "1"


def test_a_robot_with_a_lidar_records_what_its_camera_sees(bench: Callable[..., Bench], tmp_path: Path) -> None:
    """The parameters of a robot, its recording, and what training opens of it."""
    robot = bench()
    robot.pairer.close()
    config = RecorderConfig(depth_from="lidar", lidar_mount=MOUNT, record_frames=2, reliable_sensors=True)
    done: list[bool] = []
    recorder = Recorder(robot.node, config, tmp_path / "samples", lambda: done.append(True))
    robot.pairer = recorder._sensors
    robot.send("camera/camera_info", info())
    robot.send("camera/image_raw", colour(0))
    robot.send("lidar/points", cloud(0, (4.0, -1.0, 0.5)))
    robot.send("lidar/points", cloud(108, (4.0, -1.0, 0.5)))
    robot.send("camera/image_raw", colour(100, value=51))
    assert done == []  # an image of 110 might come
    robot.send("camera/image_raw", colour(133), until=lambda: bool(done))
    assert done == [True]
    recorder.close()
    source = recorder.source()
    assert source is not None
    recorded = open_samples("depth", source, Path())
    assert [frame.stamp_ns - START_NS for frame in (recorded[0], recorded[1])] == [0, 100_000_000]
    assert recorded[1].rgb[0, 0, 0] == 51
    assert np.argwhere(np.isfinite(recorded[1].depth_m)).tolist() == [[4, 10]]


def test_both_sensors_may_be_placed_on_the_vehicle(bench: Callable[..., Bench]) -> None:
    """Both look ahead; the LiDAR is 1 m behind the camera and half a metre above."""
    camera = {"position": [1.0, 0.0, 1.5], "rotation": [-math.pi / 2, 0.0, -math.pi / 2]}
    lidar = {"position": [0.0, 0.0, 2.0], "rotation": [0.0, 0.0, 0.0]}
    robot = bench(depth_from="lidar", camera_mount=camera, lidar_mount=lidar)
    robot.send("camera/camera_info", info())
    robot.send("camera/image_raw", colour(5))
    robot.send("lidar/points", cloud(5, (5.0, -1.0, 0.0)))  # camera (1, 0.5, 4 - ...): 4 m ahead
    (frame,) = robot.frames
    # (1, -0.5, 4): u = 9.5, v = 8 * -0.5 / 4 + 5.5 = 4.5.
    found = np.argwhere(np.isfinite(frame.depth_m)).tolist()
    assert found in ([[4, 10]], [[4, 9]], [[5, 10]], [[5, 9]])  # both on an edge between two pixels
    assert frame.depth_m[tuple(found[0])] == pytest.approx(4.0, abs=1e-6)


def spot(u: float, v: float, size: tuple[int, int]) -> np.ndarray:
    """Return a black image with a white square of 3x3 around a pixel."""
    image = np.zeros((*size, 3), np.uint8)
    image[round(v) - 1 : round(v) + 2, round(u) - 1 : round(u) + 2] = 255
    return image


def plumb_bob(x: float, y: float) -> tuple[float, float]:
    """k1 -0.3, p1 0.01."""
    r2 = x * x + y * y
    radial = 1 - 0.3 * r2
    return x * radial + 2 * 0.01 * x * y, y * radial + 0.01 * (r2 + 2 * y * y)


def rational(x: float, y: float) -> tuple[float, float]:
    """k1 0.2, k4 0.5."""
    radial = (1 + 0.2 * (x * x + y * y)) / (1 + 0.5 * (x * x + y * y))
    return x * radial, y * radial


def equidistant(x: float, y: float) -> tuple[float, float]:
    """k1 0.05; an image's radius is the angle."""
    radius = math.hypot(x, y)
    angle = math.atan(radius)
    scale = angle * (1 + 0.05 * angle**2) / radius
    return x * scale, y * scale


@pytest.mark.parametrize(
    ("model", "d", "lens"),
    [
        ("plumb_bob", [-0.3, 0.0, 0.01, 0.0, 0.0], plumb_bob),
        ("rational_polynomial", [0.2, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0], rational),
        ("equidistant", [0.05, 0.0, 0.0, 0.0], equidistant),
    ],
)
def test_depth_lies_on_what_it_belongs_to_whatever_the_lens_does(
    bench: Callable[..., Bench], model: str, d: list[float], lens: Callable[[float, float], tuple[float, float]]
) -> None:
    """A white square is painted where the lens puts a point; its depth is in the middle of the square."""
    size, x, y, z = (120, 160), 0.5, 0.35, 6.0
    k = np.array([[100.0, 0.0, 80.0], [0.0, 100.0, 60.0], [0.0, 0.0, 1.0]])
    seen = lens(x, y)
    robot = bench(depth_from="lidar", lidar_mount=MOUNT)
    robot.send("camera/camera_info", info(size, k=k.reshape(9), d=d, distortion_model=model))
    image = spot(100 * seen[0] + 80, 100 * seen[1] + 60, size)
    robot.send("camera/image_raw", colour_to_msg(image, header(5)))
    robot.send("lidar/points", cloud(5, (z, -x * z, -y * z)))
    (frame,) = robot.frames
    assert np.argwhere(np.isfinite(frame.depth_m)).tolist() == [[95, 130]]  # 100 (x, y) + (80, 60)
    assert frame.depth_m[95, 130] == pytest.approx(z)
    assert frame.rgb[95, 130].min() > 150
    middle = np.argwhere(frame.rgb[..., 0] > 60).mean(axis=0)
    np.testing.assert_allclose(middle, [95, 130], atol=1.0)
    assert math.hypot(100 * seen[0] + 80 - 130, 100 * seen[1] + 60 - 95) > 3  # where it would be without that


def test_there_is_no_depth_where_taking_distortion_out_leaves_nothing(bench: Callable[..., Bench]) -> None:
    """k1 = 0.5: what is at (0.7, 0.5) in the corner was at 1.37 times that, outside the picture."""
    size, k = (120, 160), [100.0, 0.0, 80.0, 0.0, 100.0, 60.0, 0.0, 0.0, 1.0]
    robot = bench(depth_from="lidar", lidar_mount=MOUNT)
    robot.send("camera/image_raw", colour_to_msg(np.full((*size, 3), 200, np.uint8), header(5)))
    robot.send("lidar/points", cloud(5, (6.0, -0.7 * 6, -0.5 * 6), (6.0, -0.1 * 6, 0.0)))
    robot.send("camera/camera_info", info(size, k=k, d=[0.5, 0.0, 0.0, 0.0, 0.0]))
    (frame,) = robot.frames
    assert frame.rgb[110, 150].tolist() == [0, 0, 0]
    assert np.argwhere(np.isfinite(frame.depth_m)).tolist() == [[60, 90]]


def test_a_cloud_that_cannot_be_read_costs_its_frame_only(bench: Callable[..., Bench]) -> None:
    robot = bench(depth_from="lidar", lidar_mount=MOUNT)
    robot.send("camera/camera_info", info())
    broken = cloud(5, (4.0, 0.0, 0.0))
    broken.fields = broken.fields[:2]
    for time_ms, points in ((5, broken), (105, cloud(105)), (205, cloud(205, (4.0, 0.0, 0.0)))):
        robot.send("camera/image_raw", colour(time_ms))
        robot.send("lidar/points", points)
    assert robot.stamps_ms() == [205]
    health = robot.pairer.topics[1].health()
    assert (health.dropped, robot.pairer.dropped) == (2, 2)
    assert "/lidar/points: dropped a frame: a cloud of 0x1 points is empty" in robot.problem()


# --- stereo


def right_info(**changes: Any) -> CameraInfo:
    p = [8.0, 0.0, 7.5, -2.0, 0.0, 8.0, 5.5, 0.0, 0.0, 0.0, 1.0, 0.0]
    return info(**{"p": p, **changes})


def test_a_second_camera_gives_depth(bench: Callable[..., Bench]) -> None:
    """Focal length 100 px, baseline 0.3 m, disparity 12 px: 2.5 m."""
    robot = bench(depth_from="stereo", max_disparity_px=32)
    wide = np.random.default_rng(0).integers(0, 256, (60, 212, 3), np.uint8)
    k = [100.0, 0.0, 99.5, 0.0, 100.0, 29.5, 0.0, 0.0, 1.0]
    p = [100.0, 0.0, 99.5, 0.0, 0.0, 100.0, 29.5, 0.0, 0.0, 0.0, 1.0, 0.0]
    robot.send("camera/camera_info", info((60, 200), k=k, p=p))
    robot.send("camera/right/camera_info", info((60, 200), k=k, p=[*p[:3], -30.0, *p[4:]]))
    robot.send("camera/image_raw", colour_to_msg(np.ascontiguousarray(wide[:, :200]), header(5)))
    robot.send("camera/right/image_raw", colour_to_msg(np.ascontiguousarray(wide[:, 12:]), header(5)))
    (frame,) = robot.frames
    assert np.nanmedian(frame.depth_m) == pytest.approx(2.5, rel=0.02)
    assert np.isnan(frame.depth_m[:, :12]).all()


@pytest.mark.parametrize(
    ("right", "size", "words"),
    [
        ({"p": info().p}, SIZE, "the right camera lies -0 m to the right of the left one (p[3] is 0)"),
        ({"p": [8, 0, 7.5, 2, 0, 8, 5.5, 0, 0, 0, 1, 0.0]}, SIZE, "lies -0.25 m to the right of the left one"),
        (
            {"p": [9, 0, 7.5, -2, 0, 9, 5.5, 0, 0, 0, 1, 0.0]},
            SIZE,
            "focal lengths of the left and right camera are (8, 8) and (9, 9)",
        ),
        ({"p": [0.0] * 12}, SIZE, "right camera: camera_info"),
        ({}, (12, 18), "the left image is 16x12 and the right 18x12; publish a stereo pair of one size"),
    ],
)
def test_a_pair_that_is_none_is_refused_in_one_line(
    bench: Callable[..., Bench], right: dict[str, Any], size: tuple[int, int], words: str
) -> None:
    robot = bench(depth_from="stereo", max_disparity_px=16)
    robot.send("camera/camera_info", info())
    robot.send("camera/right/camera_info", right_info(**{**right, "width": size[1]}))
    robot.send("camera/image_raw", colour(5))
    robot.send("camera/right/image_raw", colour(5, size=size))
    assert robot.frames == [] and robot.pairer.dropped == 1
    assert words in robot.problem() and "\n" not in robot.problem()
