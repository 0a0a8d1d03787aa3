"""Clouds made of depth: hand-computed points, colours, and pixels of distorted lenses."""

from typing import Any

import cv2
import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header

from fed_core.errors import DataError
from fed_nodes.convert.depth_clouds import depth_to_cloud, rays_of

NAN = np.float32(np.nan)
HEADER = Header(frame_id="camera_optical_frame")


def info(model: str = "plumb_bob", d: tuple[float, ...] = (), **changes: Any) -> CameraInfo:
    k = [2.0, 0.0, 1.0, 0.0, 4.0, 0.5, 0.0, 0.0, 1.0]
    p = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    return CameraInfo(**{"height": 2, "width": 3, "k": k, "p": p, "d": list(d), "distortion_model": model, **changes})


def test_points_are_where_hand_computed_pixels_look() -> None:
    depth_m = np.array([[2.0, NAN, 1.0], [0.0, -1.0, np.inf]], np.float32)
    rgb = np.zeros((2, 3, 3), np.uint8)
    rgb[0, 0] = (255, 128, 1)
    cloud = depth_to_cloud(depth_m, rgb, rays_of(info(), 2, 3), HEADER)

    assert [(f.name, f.offset, f.datatype, f.count) for f in cloud.fields] == [
        ("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1), ("rgb", 12, 7, 1),
    ]  # fmt: skip
    assert (cloud.height, cloud.width, cloud.point_step, cloud.row_step, cloud.is_dense) == (2, 3, 16, 48, False)
    found = np.frombuffer(cloud.data, np.float32).reshape(2, 3, 4)
    # (0 - 1) / 2 * 2 m, (0 - 0.5) / 4 * 2 m
    assert found[0, 0, :3].tolist() == [-1.0, -0.25, 2.0]
    assert found[0, 2, :3].tolist() == [0.5, -0.125, 1.0]
    for place in ((0, 1), (1, 0), (1, 1), (1, 2)):
        assert np.isnan(found[place][:3]).all()
    assert found[0, 0, 3:].view(np.uint32)[0] == 0xFF8001
    assert cloud.header is HEADER


def test_a_rectified_image_has_the_camera_p() -> None:
    rays = rays_of(info("plumb_bob", (0.1, 0.0, 0.0, 0.0, 0.0)), 2, 3, rectified=True)
    assert rays[1, 2].tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("model", "d"),
    [
        ("plumb_bob", (-0.2, 0.05, 0.001, -0.002, 0.0)),
        ("rational_polynomial", (0.1, -0.05, 0.001, 0.0, 0.01, 0.12, -0.02, 0.0)),
        ("equidistant", (0.05, -0.01, 0.002, 0.0)),
    ],
)
def test_a_distorted_pixel_looks_at_the_point_that_the_lens_shows_there(model: str, d: tuple[float, ...]) -> None:
    k = [60.0, 0.0, 40.0, 0.0, 60.0, 30.0, 0.0, 0.0, 1.0]
    rays = rays_of(info(model, d, height=60, width=80, k=k), 60, 80)
    points = np.array([[[0.3, -0.2, 1.0]], [[-0.4, 0.25, 1.0]]])
    project = cv2.fisheye.projectPoints if model == "equidistant" else cv2.projectPoints
    pixels = project(points, np.zeros(3), np.zeros(3), np.reshape(k, (3, 3)), np.array(d))[0].reshape(-1, 2)
    for (u, v), point in zip(pixels, points[:, 0], strict=True):
        near = rays[int(v), int(u)] + (u % 1, v % 1) * (rays[int(v) + 1, int(u) + 1] - rays[int(v), int(u)])
        np.testing.assert_allclose(near, point[:2], atol=2e-3)  # between four pixels, linearly
    assert np.isfinite(rays).all()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"width": 4}, "camera_info is of 4x2 pixels, the image 3x2"),
        ({"k": [0.0] * 9}, "camera_info says focal lengths 0, 0 in k"),
        ({"distortion_model": "mirror", "d": [0.1]}, "distortion model 'mirror' is not supported"),
        ({"d": [0.1, 0.2]}, "camera_info has 2 numbers of distortion"),
    ],
)
def test_a_camera_that_cannot_be_is_refused_in_one_line(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        rays_of(info(**changes), 2, 3)
