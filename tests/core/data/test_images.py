import array

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.images import (
    COLOUR_ENCODINGS,
    decode_colour,
    decode_compressed_colour,
    decode_compressed_depth,
    decode_depth,
)
from fed_core.errors import DataError, EncodingError, UnitsError

CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}
SIDE = st.integers(1, 7)


def padded(rows: np.ndarray, padding: int, cut_last: bool) -> bytes:
    """Return rows (H, bytes) with ``padding`` bytes of rubbish behind each."""
    out = np.full((rows.shape[0], rows.shape[1] + padding), 0xAB, dtype=np.uint8)
    out[:, : rows.shape[1]] = rows
    data = out.tobytes()
    return data[: len(data) - padding] if cut_last else data


@given(
    st.sampled_from(COLOUR_ENCODINGS),
    SIDE,
    SIDE,
    st.integers(0, 9),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_colour_survives_padding(
    encoding: str, height: int, width: int, padding: int, cut_last: bool, big: bool, seed: int
) -> None:
    rgb = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    if encoding == "mono8":
        rgb = np.repeat(rgb[..., :1], 3, axis=2)
        stored = rgb[..., :1]
    else:
        stored = rgb if encoding.startswith("rgb") else rgb[..., ::-1]
        if encoding.endswith("a8"):
            stored = np.concatenate([stored, np.full((height, width, 1), 7, np.uint8)], axis=2)
    row = width * CHANNELS[encoding]
    data = padded(np.ascontiguousarray(stored).reshape(height, row), padding, cut_last)
    decoded = decode_colour(data, encoding, height, width, row + padding, is_bigendian=big)
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, rgb)


@given(
    st.sampled_from(["16UC1", "mono16", "32FC1"]), SIDE, SIDE, st.integers(0, 9), st.booleans(), st.integers(0, 2**32)
)
def test_depth_survives_padding_and_byte_order(
    encoding: str, height: int, width: int, padding: int, big: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    counts = random.integers(0, 65536, (height, width))
    known = np.where(counts > 0, counts / 1000.0, np.nan).astype(np.float32)
    order = ">" if big else "<"
    stored = known.astype(order + "f4") if encoding == "32FC1" else counts.astype(order + "u2")
    data = padded(stored.view(np.uint8).reshape(height, -1), padding, False)
    step = width * stored.itemsize + padding
    decoded = decode_depth(data, encoding, height, width, step, is_bigendian=big)
    assert decoded.dtype == np.float32 and decoded.dtype.isnative
    np.testing.assert_array_equal(decoded, known)


def test_data_may_be_any_buffer_and_step_may_be_left_out() -> None:
    raw = bytes([1, 2, 3, 4, 5, 6])
    for data in (raw, bytearray(raw), memoryview(raw), array.array("B", raw), np.frombuffer(raw, np.uint8)):
        np.testing.assert_array_equal(decode_colour(data, "bgr8", 1, 2), [[[3, 2, 1], [6, 5, 4]]])


def test_result_does_not_change_with_the_message() -> None:
    data = bytearray(6)
    image = decode_colour(data, "rgb8", 1, 2)
    data[0] = 9
    assert image[0, 0, 0] == 0
    image[0, 0, 0] = 1


def test_unit_of_16_bit_depth_can_be_stated() -> None:
    data = np.array([[5000]], dtype="<u2").tobytes()
    assert decode_depth(data, "16UC1", 1, 1)[0, 0] == np.float32(5.0)
    assert decode_depth(data, "16UC1", 1, 1, unit="1/5000 m")[0, 0] == np.float32(1.0)
    with pytest.raises(UnitsError, match="depth unit 'foot' is not known"):
        decode_depth(data, "16UC1", 1, 1, unit="foot")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: decode_colour(b"", "bayer_rggb8", 1, 1),
            "colour encoding 'bayer_rggb8' is not supported; supported: rgb8, bgr8, rgba8, bgra8, mono8",
        ),
        (
            lambda: decode_depth(b"", "64FC1", 1, 1),
            "depth encoding '64FC1' is not supported; supported: 16UC1 and mono16 (mm), 32FC1 (m)",
        ),
        (
            lambda: decode_compressed_depth(b"", "32FC1; compressedDepth png"),
            "compressed depth format '32FC1; compressedDepth png' is not supported; supported: 16UC1 as PNG",
        ),
    ],
)
def test_unsupported_encoding_lists_what_works(call: object, text: str) -> None:
    with pytest.raises(EncodingError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("data", "height", "width", "step", "text"),
    [
        (bytes(5), 1, 2, 0, "image of 2x1 pixels needs 6 bytes, but 5 are there"),
        (bytes(6), 1, 2, 5, "image rows of 2 pixels need 6 bytes, but step says 5"),
        (bytes(6), 0, 2, 6, "image has 2x0 pixels; both sides must be at least 1"),
        (bytes(9), 2**31, 2**31, 0, "image of 2147483648x2147483648 pixels needs 13835058055282163712 bytes, but 9"),
    ],
)
def test_sizes_that_contradict_each_other(data: bytes, height: int, width: int, step: int, text: str) -> None:
    with pytest.raises(DataError) as caught:
        decode_colour(data, "rgb8", height, width, step)
    assert text in str(caught.value)


def test_compressed_images() -> None:
    rgb = np.zeros((8, 8, 3), np.uint8)
    rgb[..., 0] = 250
    png = cv2.imencode(".png", rgb[..., ::-1])[1].tobytes()
    np.testing.assert_array_equal(decode_compressed_colour(png, "png"), rgb)
    jpg = cv2.imencode(".jpg", rgb[..., ::-1])[1].tobytes()
    assert np.abs(decode_compressed_colour(jpg, "jpeg").astype(int) - rgb).max() < 8
    counts = np.array([[0, 1500]], np.uint16)
    packed = cv2.imencode(".png", counts)[1].tobytes()
    expected = np.array([[np.nan, 1.5]], np.float32)
    np.testing.assert_array_equal(decode_compressed_depth(packed, "16UC1; png compressed"), expected)
    np.testing.assert_array_equal(decode_compressed_depth(bytes(12) + packed, "16UC1; compressedDepth png"), expected)


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_cut_off_compressed_image_is_refused_not_filled_up(suffix: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = cv2.imencode(suffix, noise)[1].tobytes()
    with pytest.raises(DataError, match="compressed image .* is broken or of an unknown kind"):
        decode_compressed_colour(data[: len(data) * 2 // 3], "jpeg")
