"""Bytes of image messages to arrays, without ROS: used for bags and, on ``msg.data``, by nodes.

Depth follows REP 118: 32FC1 is metres, 16UC1 is millimetres, zero and non-finite values are unknown.
"""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.image_headers import declared_size, require_sane_size
from fed_core.data.units import DepthCoding
from fed_core.errors import DataError, EncodingError
from fed_core.types import Array

#: Encoding -> (channels, OpenCV's way to RGB). OpenCV names a Bayer pattern by its second row, ROS by its first.
_EIGHT: dict[str, tuple[int, int | None]] = {
    "rgb8": (3, None),
    "bgr8": (3, cv2.COLOR_BGR2RGB),
    "rgba8": (4, cv2.COLOR_RGBA2RGB),
    "bgra8": (4, cv2.COLOR_BGRA2RGB),
    "mono8": (1, cv2.COLOR_GRAY2RGB),
    "bayer_rggb8": (1, cv2.COLOR_BayerBG2RGB),
    "bayer_bggr8": (1, cv2.COLOR_BayerRG2RGB),
    "bayer_gbrg8": (1, cv2.COLOR_BayerGR2RGB),
    "bayer_grbg8": (1, cv2.COLOR_BayerGB2RGB),
}
_SIXTEEN = {name[:-1] + "16": way for name, way in _EIGHT.items()}
#: Two pixels in four bytes; the first two are the older names of the others.
_PAIRED: dict[str, tuple[int, int | None]] = {
    "yuv422": (2, cv2.COLOR_YUV2RGB_UYVY),
    "yuv422_yuy2": (2, cv2.COLOR_YUV2RGB_YUY2),
    "uyvy": (2, cv2.COLOR_YUV2RGB_UYVY),
    "yuyv": (2, cv2.COLOR_YUV2RGB_YUY2),
}
_COLOUR = {**_EIGHT, **_SIXTEEN, **_PAIRED}
#: Encoding -> (NumPy type, unit). mono16 is what RealSense recorders call 16UC1.
_DEPTH = {"16UC1": ("u2", "mm"), "mono16": ("u2", "mm"), "32FC1": ("f4", "m")}

COLOUR_ENCODINGS = tuple(_COLOUR)
DEPTH_ENCODINGS = tuple(_DEPTH)
#: What works, for people.
COLOUR_TEXT = "rgb8, bgr8, rgba8, bgra8, mono8, bayer_* (8 or 16 bits each), yuv422, yuv422_yuy2"

_LEAST_BAYER = 3  # pixels of a side; colours are made up from neighbours
# compressed_depth_image_transport puts this many bytes (format, two floats) before the PNG.
_COMPRESSED_DEPTH_HEADER = 12


def decode_colour(
    data: Any, encoding: str, height: int, width: int, step: int = 0, *, is_bigendian: bool = False
) -> npt.NDArray[np.uint8]:
    """Return the colour image of a ``sensor_msgs/Image``.

    Args:
        data: bytes-like or uint8 array of ``step * height`` bytes.
        encoding: one of :data:`COLOUR_ENCODINGS`.
        height: rows.
        width: columns.
        step: bytes of a row with its padding; 0 = no padding.
        is_bigendian: byte order of 16 bits.

    Returns:
        (H, W, 3) uint8 RGB, a copy; 16 bits are scaled to 8.

    Raises:
        EncodingError: the encoding is not supported; lists what works.
        DataError: the sizes contradict each other.
    """
    if encoding not in _COLOUR:
        raise EncodingError(f"colour encoding {encoding[:40]!r} is not supported; supported: {COLOUR_TEXT}")
    channels, way = _COLOUR[encoding]
    order = ">" if is_bigendian else "<"
    pixels = pixel_rows(data, np.dtype(f"{order}u2" if encoding in _SIXTEEN else "u1"), height, (width, channels), step)
    if encoding.startswith("bayer") and min(height, width) < _LEAST_BAYER:
        raise DataError(f"image of {width}x{height} pixels is too small for {encoding}")
    if encoding in _PAIRED and width % 2:
        raise DataError(f"image of {width}x{height} pixels has {encoding}, whose rows are pairs of pixels")
    if way is None:
        return _eight_bits(pixels).copy()
    return _eight_bits(cv2.cvtColor(pixels.astype(pixels.dtype.newbyteorder("="), copy=False), way))


def decode_depth(
    data: Any,
    encoding: str,
    height: int,
    width: int,
    step: int = 0,
    *,
    is_bigendian: bool = False,
    unit: str = "",
) -> npt.NDArray[np.float32]:
    """Return the depth image of a ``sensor_msgs/Image``.

    Args:
        data: bytes-like or uint8 array of ``step * height`` bytes.
        encoding: one of :data:`DEPTH_ENCODINGS`.
        height: rows.
        width: columns.
        step: bytes of a row with its padding; 0 = no padding.
        is_bigendian: byte order of the numbers.
        unit: overrides the unit of the encoding (REP 118), as in :func:`fed_core.data.units.metres_per_count`.

    Returns:
        (H, W) float32 metres, NaN = unknown; a copy.

    Raises:
        EncodingError: the encoding is not supported; lists what works.
        UnitsError: the unit is not known.
        DataError: the sizes contradict each other.
    """
    if encoding not in _DEPTH:
        raise EncodingError(
            f"depth encoding {encoding[:40]!r} is not supported; supported: 16UC1 and mono16 (mm), 32FC1 (m)"
        )
    code, default_unit = _DEPTH[encoding]
    dtype = np.dtype((">" if is_bigendian else "<") + code)
    return DepthCoding(unit or default_unit).decode(pixel_rows(data, dtype, height, (width, 1), step)[..., 0])


def colour_of(msg: Any) -> npt.NDArray[np.uint8]:
    """Return the (H, W, 3) uint8 RGB image of a decoded ``Image`` or ``CompressedImage``."""
    if hasattr(msg, "format"):
        return decode_compressed_colour(msg.data, msg.format)
    return decode_colour(
        msg.data, msg.encoding, msg.height, msg.width, msg.step, is_bigendian=bool(getattr(msg, "is_bigendian", False))
    )


def decode_compressed_colour(data: Any, format: str = "") -> npt.NDArray[np.uint8]:
    """Return the colour image of a ``sensor_msgs/CompressedImage`` (JPEG or PNG).

    Args:
        data: bytes-like or uint8 array.
        format: the message's format text, for the error.

    Returns:
        (H, W, 3) uint8 RGB.

    Raises:
        DataError: the image is broken, cut off, of another kind, or too large.
    """
    image = _decode_sane(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None:
        raise DataError(
            f"compressed image (format {format[:40]!r}) is broken or of an unknown kind; supported: JPEG, PNG"
        )
    return np.ascontiguousarray(image[..., ::-1], dtype=np.uint8)


def decode_compressed_depth(data: Any, format: str = "", *, unit: str = "") -> npt.NDArray[np.float32]:
    """Return the depth image of a ``CompressedImage`` that holds a PNG of 16 bits.

    Depth of compressedDepth's 32FC1 was stored as one over it: with the header's numbers A and B it is A / (count - B),
    and a count of zero is unknown.

    Args:
        data: bytes-like or uint8 array.
        format: the message's format text ("16UC1; compressedDepth png", "16UC1; png compressed").
        unit: overrides millimetres; 32FC1 is metres.

    Returns:
        (H, W) float32 metres, NaN = unknown.

    Raises:
        EncodingError: the format is not supported; lists what works.
        DataError: the image is broken, cut off, too large, or not one channel of 16 bits.
    """
    kind, has_header = format.split(";")[0].strip(), "compressedDepth" in format
    if "rvl" in format.lower() or not (kind in ("16UC1", "mono16") or (kind == "32FC1" and has_header)):
        raise EncodingError(
            f"compressed depth format {format[:40]!r} is not supported; "
            "supported: 16UC1 as PNG, 16UC1 and 32FC1 as PNG of compressedDepth"
        )
    payload = np.frombuffer(data, dtype=np.uint8)
    header, payload = np.split(payload, [_COMPRESSED_DEPTH_HEADER if has_header else 0])
    image = _decode_sane(payload, cv2.IMREAD_UNCHANGED)
    if image is None or image.ndim != 2 or image.dtype != np.uint16:
        raise DataError(f"compressed depth image (format {format[:40]!r}) is broken or not 16 bits with one channel")
    if kind != "32FC1":
        return DepthCoding(unit or "mm").decode(image)
    a, b = header[4:].view("<f4").astype(np.float64)
    if not (np.isfinite(a) and np.isfinite(b) and a > 0):
        raise DataError(f"compressed depth image has the numbers {a:g} and {b:g} of its quantisation; it is broken")
    with np.errstate(divide="ignore"):
        return DepthCoding("m").decode(np.where(image > 0, a / (image - b), 0.0))


def _decode_sane(data: Any, flags: int) -> Array | None:
    """Return the array of a JPEG or PNG; None where it is broken, cut off or of another kind."""
    payload = np.frombuffer(data, dtype=np.uint8)
    size = declared_size(payload.data)
    if size is None:
        return None
    require_sane_size(size)
    return decode_file(payload, flags)


def decode_file(data: Any, flags: int) -> Array | None:
    """Return the array of an encoded image (OpenCV's channel order), or None where it is broken or cut off."""
    payload = np.frombuffer(data, dtype=np.uint8)
    if payload.size == 0 or not _is_whole(payload):
        return None
    try:
        image = cv2.imdecode(payload, flags)
    except cv2.error:
        return None
    return None if image is None else np.asarray(image)


def _is_whole(payload: npt.NDArray[np.uint8]) -> bool:
    # Decoders fill the missing part of a cut file with grey or zeros and say nothing, so look for the end mark.
    head, tail = payload[:8].tobytes(), payload[-1024:].tobytes()
    if head.startswith(b"\xff\xd8"):
        return b"\xff\xd9" in tail
    if head.startswith(b"\x89PNG"):
        return b"IEND" in tail
    return True


def pixel_rows(data: Any, dtype: "np.dtype[Any]", height: int, row: tuple[int, int], step: int) -> Array:
    """Return the pixels of an uncompressed image, without a copy where its rows have no padding.

    Args:
        data: bytes-like or uint8 array.
        dtype: of one channel.
        height: rows.
        row: columns and channels.
        step: bytes of a row with its padding; 0 = no padding.

    Returns:
        (H, W, C) of ``dtype``.

    Raises:
        DataError: the sizes contradict each other.
    """
    width, channels = row
    row_bytes = width * channels * dtype.itemsize
    step = step or row_bytes
    buffer = np.frombuffer(data, dtype=np.uint8)
    if height < 1 or width < 1:
        raise DataError(f"image has {width}x{height} pixels; both sides must be at least 1")
    if step < row_bytes:
        raise DataError(f"image rows of {width} pixels need {row_bytes} bytes, but step says {step}")
    # The last row may come without its padding.
    needed = step * (height - 1) + row_bytes
    if buffer.size < needed:
        raise DataError(f"image of {width}x{height} pixels needs {needed} bytes, but {buffer.size} are there")
    strided = np.lib.stride_tricks.as_strided(buffer, shape=(height, row_bytes), strides=(step, 1))
    return np.ascontiguousarray(strided).view(dtype).reshape(height, width, channels)


def _eight_bits(pixels: Array) -> npt.NDArray[np.uint8]:
    """Return pixels of 8 or 16 bits as 8 bits; the largest number stays the largest."""
    if pixels.dtype.itemsize == 1:
        return np.asarray(pixels, np.uint8)
    native = pixels.astype(np.uint16, copy=False)
    return np.asarray(cv2.convertScaleAbs(native, alpha=255 / 65535), np.uint8).reshape(pixels.shape)
