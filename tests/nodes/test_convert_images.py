"""Images to arrays and back: encodings, padded rows, sizes that do not fit, cameras that do not fit their images."""

import math
import re
from array import array
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header

from fed_core.data.images import COLOUR_ENCODINGS, DEPTH_ENCODINGS, decode_colour
from fed_core.errors import DataError, EncodingError, FedError
from fed_core.types import DepthFrame
from fed_nodes.convert import cameras, images

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
    with pytest.raises(DataError, match="image of 5x100 pixels needs 1500 bytes, but 60 are there"):
        images.rgb_from_msg(msg)
    with pytest.raises(DataError, match="image has 0x0 pixels; both sides must be at least 1"):
        images.rgb_from_msg(Image(encoding="rgb8"))
    msg = picture("rgb8", RGB)
    msg.width = 50  # rows would overlap
    with pytest.raises(DataError, match="rows of 50 pixels need 150 bytes, but step says 15"):
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
    with pytest.raises(DataError, match="focal lengths 0, 0 in k; calibrate the camera"):
        images.frame_from_msgs(colour, depth, info(0.0))
    with pytest.raises(DataError, match="focal lengths nan, nan in k"):
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
    assert not depth_msg.is_bigendian and depth_msg.data.tobytes() == depth.astype("<f4").tobytes()


def shares_memory(pixels: np.ndarray, msg: Image) -> bool:
    return np.shares_memory(pixels, np.frombuffer(msg.data, np.uint8))


def test_packed_rgb8_is_read_without_a_copy() -> None:
    msg = picture("rgb8", RGB)
    found = images.rgb_from_msg(msg)
    assert found.shape == (4, 5, 3) and found.dtype == np.uint8 and shares_memory(found, msg)
    for copied in (picture("rgb8", RGB, padding=3), picture("bgr8", RGB), picture("mono8", RGB[..., :1])):
        assert not shares_memory(images.rgb_from_msg(copied), copied)


def test_images_are_written_into_the_array_of_their_message() -> None:
    """One copy: an array.array goes on as it is, anything else would be copied again by the message."""
    header = Header(frame_id="optical")
    msg = images.depth_to_msg(DEPTH[:, ::-1], header)
    assert isinstance(msg.data, array) and msg.data.typecode == "B" and msg.header == header
    assert (msg.height, msg.width, msg.step, msg.encoding, msg.is_bigendian) == (2, 2, 8, "32FC1", 0)
    assert msg.data.tobytes() == DEPTH[:, ::-1].tobytes()
    colour = images.colour_to_msg(RGB[:, 1:], header)
    assert (colour.height, colour.width, colour.step, colour.encoding) == (4, 4, 12, "rgb8")
    assert colour.data.tobytes() == RGB[:, 1:].tobytes()


@pytest.mark.parametrize(
    ("encoding", "row"),
    [
        ("mono16", 2),
        ("rgb16", 6),
        ("bgr16", 6),
        ("rgba16", 8),
        ("bgra16", 8),
        *[(f"bayer_{pattern}8", 1) for pattern in ("rggb", "bggr", "gbrg", "grbg")],
        *[(f"bayer_{pattern}16", 2) for pattern in ("rggb", "bggr", "gbrg", "grbg")],
        ("yuv422", 2),
        ("yuv422_yuy2", 2),
        ("uyvy", 2),
        ("yuyv", 2),
        ("bgr8", 3),
        ("rgba8", 4),
        ("bgra8", 4),
        ("mono8", 1),
    ],
)
def test_live_images_look_like_those_of_bags(encoding: str, row: int) -> None:
    """The meaning of each encoding is tested by hand where bags are decoded."""
    data = np.random.default_rng(4).integers(0, 256, (6, 8 * row), np.uint8)
    found = images.rgb_from_msg(message(encoding, data))
    np.testing.assert_array_equal(found, decode_colour(data, encoding, 6, 8))


def message(encoding: str, rows: np.ndarray, padding: int = 4) -> Image:
    """Return an image of 6 x 8 pixels, rows (H, bytes) with rubbish behind each."""
    padded = np.hstack([rows, np.full((len(rows), padding), 255, np.uint8)])
    return Image(height=6, width=8, encoding=encoding, step=padded.shape[1], data=padded.tobytes())


def test_compressed_images_of_colour_and_depth() -> None:
    flat = np.full((8, 8, 3), (200, 100, 40), np.uint8)
    for kind in (".jpg", ".png"):
        data = cv2.imencode(kind, flat[..., ::-1])[1].tobytes()
        found = images.rgb_from_msg(CompressedImage(format=kind, data=data))
        assert np.abs(found.astype(int) - flat).max() <= 4
    counts = cv2.imencode(".png", np.array([[1500, 0]], np.uint16))[1].tobytes()
    for form, header in (("16UC1; compressedDepth png", 12), ("16UC1; png compressed ", 0)):
        depth = images.depth_from_msg(CompressedImage(format=form, data=bytes(header) + counts))
        np.testing.assert_array_equal(depth, np.array([[1.5, np.nan]], np.float32))
    with pytest.raises(EncodingError, match="'16UC1; compressedDepth rvl' is not supported; supported: 16UC1 as PNG"):
        images.depth_from_msg(CompressedImage(format="16UC1; compressedDepth rvl"))
    with pytest.raises(DataError, match="broken or of an unknown kind; supported: JPEG, PNG"):
        images.rgb_from_msg(CompressedImage(format="jpeg", data=b"\xff\xd8 no picture"))


SIZES = st.one_of(st.integers(0, 9), st.sampled_from([2**16, 2**31, 2**32 - 1]))
ENCODINGS = st.one_of(
    st.sampled_from(["rgb8", "bgr8", "mono8", "mono16", "bayer_grbg8", "bayer_rggb16", "yuv422", "16UC1", "32FC1", ""]),
    st.text(max_size=12),
)


@given(SIZES, SIZES, SIZES, ENCODINGS, st.integers(0, 255), st.binary(max_size=200))
def test_any_image_is_converted_or_refused_in_one_line(
    height: int, width: int, step: int, encoding: str, big: int, data: bytes
) -> None:
    msg = Image(height=height, width=width, step=step, encoding=encoding, is_bigendian=big, data=data)
    for convert in (images.rgb_from_msg, images.depth_from_msg):
        try:
            found = convert(msg)
        except FedError as err:
            assert len(str(err)) < 300
        else:
            assert found.shape[:2] == (height, width)


@given(st.text(max_size=30), st.binary(max_size=60))
def test_any_compressed_image_is_converted_or_refused(form: str, data: bytes) -> None:
    msg = CompressedImage(format=form, data=data)
    for convert in (images.rgb_from_msg, images.depth_from_msg):
        with pytest.raises(FedError) as caught:
            convert(msg)
        assert len(str(caught.value)) < 300


def test_a_camera_info_that_does_not_fit_its_image() -> None:
    with pytest.raises(DataError, match="no camera_info came yet; publish what the camera is calibrated to"):
        cameras.intrinsics_of(None, 4, 5)
    told = info()
    told.width, told.height = 640, 480
    with pytest.raises(DataError, match="camera_info is of 640x480 pixels, the image 5x4; publish the camera_info of"):
        cameras.intrinsics_of(told, 4, 5)
    told.width, told.height = 5, 4
    np.testing.assert_array_equal(cameras.intrinsics_of(told, 4, 5)[0], [60.0, 0.0, 2.0])
    told.p = [50.0, 0.0, 2.5, 0.0, 0.0, 50.0, 1.5, 0.0, 0.0, 0.0, 1.0, 0.0]
    np.testing.assert_array_equal(cameras.intrinsics_of(told, 4, 5, rectified=True)[0], [50.0, 0.0, 2.5])


def lens(model: str, *numbers: float) -> CameraInfo:
    """Return a camera of 64 x 48 pixels."""
    return CameraInfo(width=64, height=48, k=[40.0, 0, 31.5, 0, 40.0, 23.5, 0, 0, 1], distortion_model=model, d=numbers)


def test_distortion_models_that_are_known() -> None:
    assert cameras.distortion_of(lens("plumb_bob", -0.2, 0.1, 0, 0, 0)) == ("plumb_bob", (-0.2, 0.1, 0, 0, 0))
    assert cameras.distortion_of(lens("")) == cameras.distortion_of(lens("plumb_bob", *[0.0] * 5)) == ("", ())
    assert cameras.distortion_of(lens("double_sphere", 0.0, 0.0)) == ("", ())  # none, whatever it is called
    eight = (0.1, 0.2, 0.0, 0.0, 0.3, 0.1, 0.2, 0.3)
    assert cameras.distortion_of(lens("rational_polynomial", *eight, *[0.0] * 6))[1] == eight


@pytest.mark.parametrize(
    ("model", "numbers", "text"),
    [
        ("plumb_bob", [0.1] * 8, "has 8 numbers of distortion .*; the model 'plumb_bob' has 4 or 5"),
        ("rational_polynomial", [0.1] * 5, "has 5 numbers of distortion .*; the model 'rational_polynomial' has 8"),
        ("rational_polynomial", [0.1] * 12, "has 12 numbers .*: thin prisms and tilted sensors are not supported; cal"),
        ("equidistant", [0.1] * 5, "has 5 numbers of distortion .*; the model 'equidistant' has 4"),
        ("thin_prism_fisheye", [0.1] * 8, "model 'thin_prism_fisheye' is not supported; supported: plumb_bob, ration"),
        ("plumb_bob", [math.nan] * 5, "is not finite; calibrate the camera"),
    ],
)
def test_distortion_that_is_refused(model: str, numbers: list[float], text: str) -> None:
    with pytest.raises(DataError, match=text):
        cameras.undistorted(np.zeros((48, 64, 3), np.uint8), lens(model, *numbers))


def shift_of(told: CameraInfo, seen: tuple[float, float]) -> tuple[float, float]:
    """Return where a dot that the lens shows at ``seen`` is when its distortion is out."""
    column, row = np.meshgrid(np.arange(64), np.arange(48))
    bright = 255 * np.exp(-((column - seen[0]) ** 2 + (row - seen[1]) ** 2) / 8.0)
    found = cameras.undistorted(bright.astype(np.uint8), told)[0].astype(float)
    return float((found * column).sum() / found.sum()), float((found * row).sum() / found.sum())


def test_rational_polynomial_divides_its_two_polynomials() -> None:
    """A ray at (0.5, 0) is at r = 0.5 (1 + 0.2 r2) / (1 + 0.4 r2) with r2 = 0.25: at 0.5 * 1.05 / 1.1."""
    told = lens("rational_polynomial", 0.2, 0, 0, 0, 0, 0.4, 0, 0)
    seen = (31.5 + 40 * 0.5 * 1.05 / 1.1, 23.5)
    assert shift_of(told, seen) == pytest.approx((31.5 + 20.0, 23.5), abs=0.25)


@pytest.mark.parametrize("name", ["equidistant", "fisheye"])
def test_a_fisheye_without_numbers_is_no_pinhole(name: str) -> None:
    """Its pixels grow with the angle: the ray at (0.5, 0) is at atan(0.5)."""
    seen = (31.5 + 40 * math.atan(0.5), 23.5)
    assert shift_of(lens(name, 0.0, 0.0, 0.0, 0.0), seen) == pytest.approx((31.5 + 20.0, 23.5), abs=0.25)


def test_images_too_wide_for_opencv_are_refused() -> None:
    told = CameraInfo(k=[40.0, 0, 31.5, 0, 40.0, 1.5, 0, 0, 1], distortion_model="plumb_bob", d=[0.1, 0, 0, 0, 0])
    with pytest.raises(DataError, match="the distortion of an image of 40000x2 pixels cannot be taken out"):
        cameras.undistorted(np.zeros((2, 40_000, 3), np.uint8), told)


def test_a_camera_that_changes_keeps_few_maps() -> None:
    for number in range(20):
        told = lens("plumb_bob", 0.01 * (number + 1), 0, 0, 0, 0)
        cameras.undistorted(np.zeros((48, 64), np.uint8), told)
    assert cameras._maps.cache_info().currsize == 8, "50 MB each at 4K"


NUMBERS = st.one_of(st.sampled_from([0.0, 1.0, 60.0, math.nan, math.inf, -1.0, 1e300]), st.floats())


@given(
    st.lists(NUMBERS, min_size=9, max_size=9),
    st.lists(NUMBERS, max_size=14),
    st.sampled_from([*cameras.MODELS, "", "odd"]),
    st.tuples(st.sampled_from([0, 5, 2**31]), st.sampled_from([0, 4])),
)
def test_any_camera_info_is_used_or_refused(k: list[float], d: list[float], model: str, size: Any) -> None:
    told = CameraInfo(k=k, d=d, distortion_model=model, width=size[0], height=size[1])
    try:
        found, matrix = cameras.undistorted(RGB, told)
    except FedError as err:
        assert len(str(err)) < 300
    else:
        assert found.shape == RGB.shape and np.isfinite(matrix).all()


@pytest.mark.parametrize(("row", "known"), [("colour", COLOUR_ENCODINGS), ("depth", DEPTH_ENCODINGS)])
def test_the_guide_lists_what_is_read(row: str, known: tuple[str, ...]) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs/your_robot.md").read_text()
    (told,) = re.findall(rf"^\| {row} \| (.*) \|$", guide, re.MULTILINE)
    assert sorted(re.findall("`(.*?)`", told)) == sorted(known)
