"""Images to arrays and back: encodings, padded rows, sizes that do not fit."""

import sys

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.errors import DataError, EncodingError
from fed_core.types import DepthFrame
from fed_nodes.convert import images

RGB = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
DEPTH = np.array([[1.0, np.nan], [0.25, 70.0]], np.float32)


def picture(encoding: str, pixels: np.ndarray, *, padding: int = 0) -> Image:
    """Return an image whose rows end in ``padding`` bytes of 255."""
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, -1)
    rows = np.hstack([rows, np.full((height, padding), 255, np.uint8)])
    return Image(height=height, width=width, encoding=encoding, step=rows.shape[1], data=rows.tobytes())


@pytest.mark.parametrize("padding", [0, 1, 7])
def test_colour_with_padded_rows(padding: int) -> None:
    np.testing.assert_array_equal(images.rgb_from_msg(picture("rgb8", RGB, padding=padding)), RGB)


def test_colour_encodings_come_out_as_rgb() -> None:
    np.testing.assert_array_equal(images.rgb_from_msg(picture("bgr8", RGB[..., ::-1])), RGB)
    alpha = np.full((4, 5, 1), 9, np.uint8)
    np.testing.assert_array_equal(images.rgb_from_msg(picture("rgba8", np.dstack([RGB, alpha]))), RGB)
    np.testing.assert_array_equal(images.rgb_from_msg(picture("bgra8", np.dstack([RGB[..., ::-1], alpha]))), RGB)
    grey = RGB[..., :1]
    np.testing.assert_array_equal(images.rgb_from_msg(picture("mono8", grey)), np.repeat(grey, 3, axis=2))


@pytest.mark.parametrize("encoding", ["nv99", "", "rgb8; rm -rf"])
def test_unsupported_colour_names_what_works(encoding: str) -> None:
    with pytest.raises(EncodingError, match="is not supported; supported: .*rgb8.*bgr8"):
        images.rgb_from_msg(picture(encoding, RGB))


def test_images_that_lie_about_their_size() -> None:
    msg = picture("rgb8", RGB)
    msg.height = 100
    with pytest.raises(DataError, match="image of 5x100 has 60 bytes, not 1500"):
        images.rgb_from_msg(msg)
    with pytest.raises(DataError, match="image of 0x0 has 0 bytes"):
        images.rgb_from_msg(Image(encoding="rgb8"))
    msg = picture("rgb8", RGB)
    msg.width = 50  # rows would overlap
    with pytest.raises(DataError, match="has rows of 15 bytes, not 150"):
        images.rgb_from_msg(msg)


@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("big", [False, True])
def test_depth_in_metres_and_millimetres(padding: int, big: bool) -> None:
    order = ">" if big else "<"
    msg = picture("32FC1", DEPTH.astype(f"{order}f4"), padding=padding)
    msg.is_bigendian = int(big)
    np.testing.assert_array_equal(images.depth_from_msg(msg), DEPTH)
    msg = picture("16UC1", np.array([[1500, 0], [65535, 1]], f"{order}u2"), padding=padding)
    msg.is_bigendian = int(big)
    found = images.depth_from_msg(msg)
    assert found.dtype == np.float32 and np.isnan(found[0, 1])
    np.testing.assert_allclose(found[[0, 1, 1], [0, 0, 1]], [1.5, 65.535, 0.001], rtol=1e-6)


def test_unknown_depth_encoding_names_what_works() -> None:
    with pytest.raises(EncodingError, match="64FC1.*32FC1"):
        images.depth_from_msg(picture("64FC1", DEPTH.astype(np.float64)))


def info(focal_px: float = 60.0) -> CameraInfo:
    return CameraInfo(k=[focal_px, 0.0, 2.0, 0.0, focal_px, 1.5, 0.0, 0.0, 1.0])


def test_frame_needs_registered_depth_and_a_calibrated_camera() -> None:
    colour = picture("rgb8", RGB)
    with pytest.raises(DataError, match="colour is 5x4 and depth 2x2; publish depth registered to the colour image"):
        images.frame_from_msgs(colour, picture("32FC1", DEPTH), info())
    depth = picture("32FC1", np.ones((4, 5), np.float32))
    with pytest.raises(DataError, match="focal length 0; calibrate the camera"):
        images.frame_from_msgs(colour, depth, info(0.0))
    with pytest.raises(DataError, match="focal length nan"):
        images.frame_from_msgs(colour, depth, info(float("nan")))
    assert images.frame_from_msgs(colour, depth, info()).frame_id == "camera_optical_frame"


def test_frame_round_trip() -> None:
    depth = np.linspace(0.5, 9.0, 20, dtype=np.float32).reshape(4, 5)
    depth[1, 1] = np.nan
    frame = DepthFrame(RGB, depth, 1_234_567_890_123_456_789, np.array(info().k).reshape(3, 3), "optical")
    colour, depth_msg, camera = images.frame_to_msgs(frame)
    assert (colour.encoding, depth_msg.encoding) == ("rgb8", "32FC1")
    assert (
        colour.header
        == depth_msg.header
        == camera.header
        == Header(stamp=images.to_stamp(frame.stamp_ns), frame_id="optical")
    )
    assert (camera.width, camera.height, camera.distortion_model) == (5, 4, "plumb_bob")
    assert list(camera.p) == [60.0, 0.0, 2.0, 0.0, 0.0, 60.0, 1.5, 0.0, 0.0, 0.0, 1.0, 0.0]
    back = images.frame_from_msgs(colour, depth_msg, camera)
    assert (back.stamp_ns, back.frame_id) == (frame.stamp_ns, "optical")
    np.testing.assert_array_equal(back.rgb, RGB)
    np.testing.assert_array_equal(back.depth_m, depth)
    assert bool(depth_msg.is_bigendian) == (sys.byteorder == "big")
