"""Bytes of image messages to arrays, without ROS: used for bags and, on ``msg.data``, by nodes.

Depth follows REP 118: 32FC1 is metres, 16UC1 is millimetres, zero and non-finite values are unknown.
"""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.units import DepthCoding
from fed_core.errors import DataError, EncodingError
from fed_core.types import Array

#: Encoding -> (channels, order that makes it RGB).
_COLOUR: dict[str, tuple[int, tuple[int, int, int]]] = {
    "rgb8": (3, (0, 1, 2)),
    "bgr8": (3, (2, 1, 0)),
    "rgba8": (4, (0, 1, 2)),
    "bgra8": (4, (2, 1, 0)),
    "mono8": (1, (0, 0, 0)),
}
#: Encoding -> (NumPy type, unit). mono16 is what RealSense recorders call 16UC1.
_DEPTH = {"16UC1": ("u2", "mm"), "mono16": ("u2", "mm"), "32FC1": ("f4", "m")}

COLOUR_ENCODINGS = tuple(_COLOUR)
DEPTH_ENCODINGS = tuple(_DEPTH)

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
        is_bigendian: byte order; of no meaning for 8 bits, here so that both decoders are called alike.

    Returns:
        (H, W, 3) uint8 RGB, a copy.

    Raises:
        EncodingError: the encoding is not supported; lists what works.
        DataError: the sizes contradict each other.
    """
    if encoding not in _COLOUR:
        raise EncodingError(f"colour encoding {encoding!r} is not supported; supported: {', '.join(_COLOUR)}")
    channels, order = _COLOUR[encoding]
    pixels = _rows(data, np.dtype("u1"), height, (width, channels), step)
    return np.ascontiguousarray(pixels[..., order])


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
            f"depth encoding {encoding!r} is not supported; supported: 16UC1 and mono16 (mm), 32FC1 (m)"
        )
    code, default_unit = _DEPTH[encoding]
    dtype = np.dtype((">" if is_bigendian else "<") + code)
    return DepthCoding(unit or default_unit).decode(_rows(data, dtype, height, (width, 1), step)[..., 0])


def decode_compressed_colour(data: Any, format: str = "") -> npt.NDArray[np.uint8]:
    """Return the colour image of a ``sensor_msgs/CompressedImage`` (JPEG, PNG, whatever OpenCV reads).

    Args:
        data: bytes-like or uint8 array.
        format: the message's format text, for the error.

    Returns:
        (H, W, 3) uint8 RGB.
    """
    image = decode_file(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None:
        raise DataError(f"compressed image (format {format!r}) is broken or of an unknown kind")
    return np.ascontiguousarray(image[..., ::-1], dtype=np.uint8)


def decode_compressed_depth(data: Any, format: str = "", *, unit: str = "") -> npt.NDArray[np.float32]:
    """Return the depth image of a ``CompressedImage`` that holds 16UC1 as PNG.

    Args:
        data: bytes-like or uint8 array.
        format: the message's format text ("16UC1; compressedDepth png", "16UC1; png compressed").
        unit: overrides millimetres.

    Returns:
        (H, W) float32 metres, NaN = unknown.
    """
    kind = format.split(";")[0].strip()
    if kind not in ("16UC1", "mono16") or "rvl" in format.lower():
        raise EncodingError(f"compressed depth format {format!r} is not supported; supported: 16UC1 as PNG")
    payload = np.frombuffer(data, dtype=np.uint8)
    if "compressedDepth" in format:
        payload = payload[_COMPRESSED_DEPTH_HEADER:]
    image = decode_file(payload, cv2.IMREAD_UNCHANGED)
    if image is None or image.ndim != 2 or image.dtype != np.uint16:
        raise DataError(f"compressed depth image (format {format!r}) is broken or not 16 bits with one channel")
    return DepthCoding(unit or "mm").decode(image)


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


def _rows(data: Any, dtype: np.dtype[Any], height: int, row: tuple[int, int], step: int) -> Array:
    """Return a (H, W, C) view on ``data`` without the padding of its rows."""
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
    strided = np.lib.stride_tricks.as_strided(buffer, shape=(height, row_bytes), strides=(step, 1), writeable=False)
    return np.ascontiguousarray(strided).view(dtype).reshape(height, width, channels)
