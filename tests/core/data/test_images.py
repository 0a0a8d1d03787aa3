import array
import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.images import (
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
    st.sampled_from(sorted(CHANNELS)),
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
            lambda: decode_colour(b"", "nv21", 1, 1),
            "colour encoding 'nv21' is not supported; supported: rgb8, bgr8, rgba8, bgra8, mono8, "
            "bayer_* (8 or 16 bits each), yuv422, yuv422_yuy2",
        ),
        (
            lambda: decode_depth(b"", "64FC1", 1, 1),
            "depth encoding '64FC1' is not supported; supported: 16UC1 and mono16 (mm), 32FC1 (m)",
        ),
        (
            lambda: decode_compressed_depth(b"", "16UC1; compressedDepth rvl"),
            "compressed depth format '16UC1; compressedDepth rvl' is not supported; "
            "supported: 16UC1 as PNG, 16UC1 and 32FC1 as PNG of compressedDepth",
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


#: A Bayer pattern over a picture of one colour has its three numbers at their places.
PATTERNS = {"rggb": ("RG", "GB"), "bggr": ("BG", "GR"), "gbrg": ("GB", "RG"), "grbg": ("GR", "BG")}
FLAT = {"R": 200, "G": 100, "B": 40}


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_bayer_patterns_start_with_the_letters_of_their_names(pattern: str, bits: int) -> None:
    unit = np.array([[FLAT[letter] for letter in row] for row in PATTERNS[pattern]])
    # 257 is what a count of 8 bits is worth in 16.
    mosaic = np.tile(unit * (257 if bits == 16 else 1), (3, 4)).astype(f"<u{bits // 8}")
    found = decode_colour(mosaic.tobytes(), f"bayer_{pattern}{bits}", 6, 8)
    assert found.shape == (6, 8, 3) and (found == [200, 100, 40]).all()


def test_pairs_of_pixels_share_their_colour() -> None:
    """By the definition with black at 16 and no colour at 128: 235 is white, 16 is black."""
    uyvy = bytes([128, 16, 128, 235])
    np.testing.assert_array_equal(decode_colour(uyvy, "yuv422", 1, 2), [[[0] * 3, [255] * 3]])
    np.testing.assert_array_equal(decode_colour(uyvy, "uyvy", 1, 2), [[[0] * 3, [255] * 3]])
    yuyv = bytes([16, 128, 235, 128])
    np.testing.assert_array_equal(decode_colour(yuyv, "yuv422_yuy2", 1, 2), [[[0] * 3, [255] * 3]])
    np.testing.assert_array_equal(decode_colour(yuyv, "yuyv", 1, 2), [[[0] * 3, [255] * 3]])
    # Much V and little U is red.
    red = decode_colour(bytes([90, 81, 240, 81]), "uyvy", 1, 2)
    assert (np.abs(red.astype(int) - [255, 0, 0]) <= 2).all()


@pytest.mark.parametrize("big", [False, True])
def test_sixteen_bits_become_eight(big: bool) -> None:
    """One count of 8 bits is 257 of 16, so 65535 is 255 and 128 is nearest to 0."""
    counts = np.array([[0, 128, 129, 257, 32896, 65535]], ">u2" if big else "<u2")
    expected = [0, 0, 1, 1, 128, 255]
    grey = decode_colour(counts.tobytes(), "mono16", 1, 6, is_bigendian=big)
    np.testing.assert_array_equal(grey, np.repeat(np.array(expected)[None, :, None], 3, 2))
    np.testing.assert_array_equal(
        decode_colour(counts.tobytes(), "rgb16", 1, 2, is_bigendian=big), [[expected[:3], expected[3:]]]
    )
    np.testing.assert_array_equal(
        decode_colour(counts.tobytes(), "bgr16", 1, 2, is_bigendian=big), [[expected[2::-1], expected[:2:-1]]]
    )


@pytest.mark.parametrize(
    ("encoding", "size", "text"),
    [
        ("bayer_rggb8", (2, 2), "image of 2x2 pixels is too small for bayer_rggb8"),
        ("yuv422", (1, 3), "image of 3x1 pixels has yuv422, whose rows are pairs of pixels"),
    ],
)
def test_sizes_that_an_encoding_cannot_have(encoding: str, size: tuple[int, int], text: str) -> None:
    with pytest.raises(DataError, match=text):
        decode_colour(bytes(100), encoding, *size)


def quantised(counts: list[list[int]], a: float, b: float) -> bytes:
    """Return a message of compressedDepth: its format as a number, A, B, and a PNG."""
    return struct.pack("<iff", 0, a, b) + cv2.imencode(".png", np.array(counts, np.uint16))[1].tobytes()


def test_compressed_depth_of_floats_is_one_over_its_counts() -> None:
    """depth = A / (count - B); what lies behind infinity is unknown."""
    data = quantised([[0, 11, 21], [101, 1, 2001]], 10.0, 1.0)
    found = decode_compressed_depth(data, "32FC1; compressedDepth png")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[np.nan, 1.0, 0.5], [0.1, np.nan, 0.005]], rtol=1e-6)


@pytest.mark.parametrize(("a", "b"), [(float("nan"), 1.0), (10.0, float("inf")), (0.0, 1.0), (-1.0, 0.0)])
def test_compressed_depth_with_a_broken_header(a: float, b: float) -> None:
    with pytest.raises(DataError, match="numbers .* of its quantisation; it is broken"):
        decode_compressed_depth(quantised([[5]], a, b), "32FC1; compressedDepth")
    with pytest.raises(DataError, match="is broken or not 16 bits"):
        decode_compressed_depth(bytes(7), "32FC1; compressedDepth")


def declaring(data: bytes, width: int, height: int) -> bytes:
    """Return a PNG or JPEG with another size in its header."""
    if data.startswith(b"\x89PNG"):
        head = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
        return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]
    place = next(i for i in range(len(data)) if data[i] == 0xFF and data[i + 1] in (0xC0, 0xC2))
    return data[: place + 5] + struct.pack(">HH", height, width) + data[place + 9 :]


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_few_bytes_that_declare_gigabytes_are_not_decoded(suffix: str) -> None:
    small = cv2.imencode(suffix, np.zeros((8, 8), np.uint16 if suffix == ".png" else np.uint8))[1].tobytes()
    for size in ((65_000, 65_000), (0, 8), (8192, 4097)):
        with pytest.raises(DataError, match=f"declares {size[0]}x{size[1]} pixels; from 1 to 33554432 are decoded"):
            decode_compressed_colour(declaring(small, *size), "jpeg")
    if suffix == ".png":
        with pytest.raises(DataError, match="declares 60000x60000 pixels"):
            decode_compressed_depth(declaring(small, 60_000, 60_000), "16UC1; png compressed")


def test_other_kinds_of_compressed_images_are_refused() -> None:
    bmp = cv2.imencode(".bmp", np.zeros((4, 4, 3), np.uint8))[1].tobytes()
    with pytest.raises(DataError, match="format 'bmp'.* is broken or of an unknown kind; supported: JPEG, PNG"):
        decode_compressed_colour(bmp, "bmp")


PNG, JPG = (cv2.imencode(kind, np.full((5, 4), 99, np.uint8))[1].tobytes() for kind in (".png", ".jpg"))


@given(
    st.sampled_from([b"", PNG, JPG, quantised([[5, 6]], 10.0, 1.0)]),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=12),
    st.binary(max_size=40),
    st.sampled_from(["jpeg", "png", "16UC1; compressedDepth png", "32FC1; compressedDepth", "16UC1; png", "\x00"]),
)
def test_broken_bytes_raise_nothing_but_data_errors(
    start: bytes, changes: list[tuple[int, int]], rest: bytes, form: str
) -> None:
    data = bytearray(start + rest)
    for place, value in changes:
        if place < len(data):
            data[place] = value
    for decode in (decode_compressed_colour, decode_compressed_depth):
        try:
            found = decode(bytes(data), form)
        except DataError as err:
            assert "\n" not in str(err) and len(str(err)) < 300
        else:
            assert found.size <= 3 * 2**25


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_cut_off_compressed_image_is_refused_not_filled_up(suffix: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = cv2.imencode(suffix, noise)[1].tobytes()
    with pytest.raises(DataError, match="compressed image .* is broken or of an unknown kind"):
        decode_compressed_colour(data[: len(data) * 2 // 3], "jpeg")
