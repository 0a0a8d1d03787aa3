"""Images and camera infos of a rig become one frame in CARLA's pixels and axes, and back."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.data.opv2v.mounts import names_of, rig_tree
from fed_core.errors import DataError
from fed_core.types import RigFrame
from fed_nodes.convert.bev import frame_from_msgs, frame_to_msgs, known_cells
from fed_nodes.convert.images import stamp_ns, to_stamp
from fed_nodes.sensing.rigs import rig_from_tree

FORWARD = [-math.pi / 2, 0.0, -math.pi / 2]
RIG = rig_from_tree({"front": {"position": [2.0, 0.5, 1.0], "rotation": FORWARD}})
#: Of a picture of 8 x 6 pixels whose axis passes through its middle, as ROS counts.
K = [10.0, 0.0, 3.5, 0.0, 10.0, 2.5, 0.0, 0.0, 1.0]


def image(time_ns: int = 5, encoding: str = "rgb8", width: int = 8, height: int = 6) -> Image:
    data = np.arange(height * width * 3, dtype=np.uint8)
    header = Header(stamp=to_stamp(time_ns), frame_id="front_optical_frame")
    return Image(header=header, height=height, width=width, encoding=encoding, step=3 * width, data=data.tobytes())


def info(**changes: Any) -> CameraInfo:
    made = CameraInfo(width=8, height=6, distortion_model="plumb_bob", d=[0.0] * 5, k=K)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def frame(*cameras: int) -> RigFrame:
    rng = np.random.default_rng(3)
    poses = np.tile(np.eye(4), (len(cameras), 1, 1))
    for camera, pose in zip(cameras, poses, strict=True):
        yaw = math.radians((0.0, 100.0, -100.0, 180.0)[camera])
        pose[:2, :2] = [[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]]
        pose[:3, 3] = [camera, 0.5, 2.0]
    return RigFrame(
        cameras=cameras,
        images=tuple(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8) for _ in cameras),
        intrinsics=np.tile([[9.0, 0.0, 4.0], [0.0, 9.0, 3.0], [0.0, 0.0, 1.0]], (len(cameras), 1, 1)),
        extrinsics=poses,
        stamp_ns=1_600_000_000_250_000_000,
        vehicle="641",
    )


def test_a_frame_has_the_pixels_and_axes_of_the_networks() -> None:
    made = frame_from_msgs(RIG, [image()], [info()], vehicle="car")

    assert (made.cameras, made.stamp_ns, made.vehicle) == ((0,), 5, "car")
    # The middle of 8 x 6 pixels is at 4, 3 where the first pixel's centre is at 0.5.
    np.testing.assert_array_equal(made.intrinsics, [[[10.0, 0.0, 4.0], [0.0, 10.0, 3.0], [0.0, 0.0, 1.0]]])
    np.testing.assert_allclose(made.extrinsics[0, :3, 3], [2.0, -0.5, 1.0])
    np.testing.assert_array_equal(made.images[0].ravel(), np.arange(144))


def test_its_time_is_that_of_the_latest_image() -> None:
    rig = rig_from_tree({name: {"position": [0, 0, 1], "rotation": FORWARD} for name in ("a", "b")})

    assert frame_from_msgs(rig, [image(7), image(3)], [info(), info()]).stamp_ns == 7


@pytest.mark.parametrize("cameras", [(0, 1, 2, 3), (0,), (1, 3)])
def test_a_frame_survives_the_way_there_and_back(cameras: tuple[int, ...]) -> None:
    sent = frame(*cameras)
    pairs = frame_to_msgs(sent, names_of(cameras))

    got = frame_from_msgs(rig_from_tree(rig_tree(sent)), *zip(*pairs, strict=True), vehicle="641")  # type: ignore[misc]

    assert (got.cameras, got.stamp_ns, got.vehicle) == (sent.cameras, sent.stamp_ns, sent.vehicle)
    np.testing.assert_array_equal(np.stack(got.images), np.stack(sent.images))
    np.testing.assert_array_equal(got.intrinsics, sent.intrinsics)
    np.testing.assert_allclose(got.extrinsics, sent.extrinsics, atol=1e-12)
    assert {stamp_ns(msg.header.stamp) for pair in pairs for msg in pair} == {sent.stamp_ns}
    assert pairs[-1][1].header.frame_id == f"{names_of(cameras)[-1]}_optical_frame"
    assert pairs[0][1].k[2] == 3.5  # ROS counts the first pixel's centre as 0


def dotted(u: float, v: float) -> Image:
    """Return a picture of 64 x 48 pixels, black but for a soft dot."""
    column, row = np.meshgrid(np.arange(64), np.arange(48))
    bright = 255 * np.exp(-((column - u) ** 2 + (row - v) ** 2) / 8.0)
    rgb = np.repeat(bright[..., None].astype(np.uint8), 3, 2)
    return Image(height=48, width=64, encoding="rgb8", step=192, data=rgb.tobytes())


@pytest.mark.parametrize(
    ("model", "d"), [("plumb_bob", [-0.25, 0.05, 0.0, 0.0, 0.0]), ("equidistant", [0.05, 0.0, 0.0, 0.0])]
)
def test_distortion_is_taken_out(model: str, d: list[float]) -> None:
    """A point that lies at (0.5, 0.3) in front of the lens ends where a pinhole with K sees it."""
    k = np.array([[40.0, 0.0, 31.5], [0.0, 40.0, 23.5], [0.0, 0.0, 1.0]])
    radius = math.hypot(0.5, 0.3)
    if model == "plumb_bob":
        factor = 1 + d[0] * radius**2 + d[1] * radius**4
    else:
        theta = math.atan(radius)
        factor = theta * (1 + d[0] * theta**2) / radius
    seen = (31.5 + 40 * 0.5 * factor, 23.5 + 40 * 0.3 * factor)
    told = info(width=64, height=48, k=k.ravel(), d=d, distortion_model=model)

    made = frame_from_msgs(RIG, [dotted(*seen)], [told]).images[0][..., 0].astype(float)

    column, row = np.meshgrid(np.arange(64), np.arange(48))
    centre = ((made * column).sum() / made.sum(), (made * row).sum() / made.sum())
    assert centre == pytest.approx((31.5 + 20.0, 23.5 + 12.0), abs=0.25)
    assert math.dist(seen, (51.5, 35.5)) > 1.0  # it had to move


def test_rectified_images_stay_and_have_the_matrix_p() -> None:
    rig = rig_from_tree({"front": {"position": [0, 0, 1], "rotation": FORWARD, "rectified": True}})
    told = info(d=[-0.3, 0.1, 0.0, 0.0, 0.0], p=[20.0, 0, 3.0, 0, 0, 21.0, 2.0, 0, 0, 0, 1.0, 0])

    made = frame_from_msgs(rig, [image()], [told])

    np.testing.assert_array_equal(made.images[0].ravel(), np.arange(144))
    np.testing.assert_array_equal(made.intrinsics[0], [[20.0, 0.0, 3.5], [0.0, 21.0, 2.5], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("picture", "told", "text"),
    [
        (
            image(),
            {"width": 16, "height": 12},
            "camera_info is of 16x12 pixels, the image 8x6; publish the camera_info",
        ),
        (image(), {"k": [0.0] * 9}, "camera_info says focal lengths 0, 0 in k; calibrate"),
        (image(), {"k": [10.0, 0, 3, 0, math.nan, 2, 0, 0, 1]}, "focal lengths 10, nan in k"),
        (image(), {"k": [10.0, 0, 3, 0, 10.0, 2, 0, 0, 0]}, "camera_info has a singular matrix in k; calibrate"),
        (image(), {"d": [0.1], "distortion_model": "plumb_bob"}, "has 1 numbers of distortion"),
        (image(), {"d": [math.inf] * 5}, r"has a distortion \(d\) that is not finite"),
        (
            image(),
            {"d": [0.1], "distortion_model": "double_sphere"},
            "model 'double_sphere' is not supported; supported: plumb_bob",
        ),
        (image(encoding="weird"), {}, "encoding 'weird' is not supported"),
        (image(width=0), {}, "image has 0x6 pixels; both sides must be at least 1"),
    ],
)
def test_what_is_no_camera_is_refused_by_its_name(picture: Image, told: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=f"^camera front: .*{text}") as caught:
        frame_from_msgs(RIG, [picture], [info(**told)])
    assert "\n" not in str(caught.value)


def test_known_cells_are_those_of_the_samples() -> None:
    """Sectors are cut at the map's full size and a coarse cell is known where all of it is."""
    whole, front = frame(0, 1, 2, 3), frame(0)

    assert known_cells(whole, 32, 100.0, "sector").all() and known_cells(front, 32, 100.0, "off").all()
    sector = known_cells(front, 32, 100.0, "sector")
    assert sector[0, 16] and sector[8, 16] and not sector[16, 0] and not sector[31].any()
    assert sector.sum() == pytest.approx(32 * 32 / 4, abs=40)
    fine = known_cells(front, 256, 100.0, "sector")
    np.testing.assert_array_equal(sector, fine.reshape(32, 8, 32, 8).all((1, 3)))


def test_known_cells_by_the_borders_of_the_picture() -> None:
    """A camera 2 m in front with 8 pixels at f = 4 sees 90 degrees: right up to 48 m ahead of it, 47 m aside."""
    look = replace(frame(0), intrinsics=np.array([[[4.0, 0.0, 4.0], [0.0, 4.0, 3.0], [0.0, 0.0, 1.0]]]))
    look.extrinsics[0, :3, 3] = [2.0, 0.0, 1.0]

    known = known_cells(look, 100, 100.0, "fov")

    assert known[0, 10] and known[0, 90]  # 50 m ahead, 40 m aside
    assert not known[0, 1] and not known[49].any() and not known[60].any()


def test_an_odd_map_has_its_own_raster() -> None:
    assert known_cells(frame(0, 1), 30, 60.0, "sector").shape == (30, 30)
