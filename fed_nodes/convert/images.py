"""Images, depth and cameras: ``sensor_msgs`` to arrays and back.

Depth follows REP 118: 32FC1 is metres, 16UC1 is millimetres; unknown is NaN here and in what is published.
Packed rgb8, the hot path, is read and written without ``cv_bridge``; what that converts in all its releases goes
through it, and the other encodings through :mod:`fed_core.data.images`, as those of bags do.
"""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from cv_bridge import CvBridge, CvBridgeError
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header

from fed_core.data.images import (
    decode_colour,
    decode_compressed_colour,
    decode_compressed_depth,
    decode_depth,
    pixel_rows,
)
from fed_core.errors import DataError
from fed_core.types import DepthFrame
from fed_nodes.convert.cameras import intrinsics_of

_BRIDGE = CvBridge()
#: Encodings that cv_bridge converts in every release, and their channels of 8 bits.
_BRIDGED = {"bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}


def stamp_ns(stamp: Time) -> int:
    """Return a ROS time in nanoseconds."""
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def to_stamp(time_ns: int) -> Time:
    """Return nanoseconds as a ROS time."""
    return Time(sec=time_ns // 1_000_000_000, nanosec=time_ns % 1_000_000_000)


def rgb_from_msg(msg: Image | CompressedImage) -> npt.NDArray[np.uint8]:
    """Return the (H, W, 3) uint8 RGB image of a message.

    Of packed rgb8 it is a view on the message's data, so nobody may write to it; all else is a copy.

    Raises:
        EncodingError: the encoding is not supported; lists what works.
        DataError: the sizes contradict each other, or a compressed image is broken.
    """
    if isinstance(msg, CompressedImage):
        return decode_compressed_colour(msg.data, msg.format)
    if msg.encoding == "rgb8":
        return np.asarray(pixel_rows(msg.data, np.dtype("u1"), msg.height, (msg.width, 3), msg.step), np.uint8)
    if msg.encoding in _BRIDGED:
        return _bridged(msg)
    big = bool(msg.is_bigendian)
    return decode_colour(msg.data, msg.encoding, msg.height, msg.width, msg.step, is_bigendian=big)


def _bridged(msg: Image) -> npt.NDArray[np.uint8]:
    # Some releases of cv_bridge ignore the padding of rows, and all of them read what is not there.
    row = (msg.width, _BRIDGED[msg.encoding])
    pixels = pixel_rows(msg.data, np.dtype("u1"), msg.height, row, msg.step)
    packed = Image(height=msg.height, width=msg.width, encoding=msg.encoding, step=row[0] * row[1])
    packed.data.frombytes(pixels.data)
    try:
        return np.ascontiguousarray(_BRIDGE.imgmsg_to_cv2(packed, desired_encoding="rgb8"), np.uint8)
    except (CvBridgeError, cv2.error, KeyError, TypeError, ValueError) as err:
        raise DataError(f"image of {msg.width}x{msg.height} pixels in {msg.encoding} cannot be converted") from err


def depth_from_msg(msg: Image | CompressedImage) -> npt.NDArray[np.float32]:
    """Return the (H, W) float32 depth in metres of a message, NaN = unknown.

    Raises:
        EncodingError: the encoding is not supported; lists what works.
        DataError: the sizes contradict each other, or a compressed image is broken.
    """
    if isinstance(msg, CompressedImage):
        return decode_compressed_depth(msg.data, msg.format)
    return decode_depth(msg.data, msg.encoding, msg.height, msg.width, msg.step, is_bigendian=bool(msg.is_bigendian))


def frame_from_msgs(
    colour: Image | CompressedImage, depth: Image | CompressedImage, info: CameraInfo | None
) -> DepthFrame:
    """Return one frame of a depth camera; its pixels stay where they are, both images have the lens's distortion.

    Raises:
        DataError: an image cannot be read, colour and depth differ in size, or the camera is not calibrated.
    """
    rgb, depth_m = rgb_from_msg(colour), depth_from_msg(depth)
    if rgb.shape[:2] != depth_m.shape:
        raise DataError(
            f"colour is {rgb.shape[1]}x{rgb.shape[0]} and depth {depth_m.shape[1]}x{depth_m.shape[0]}; "
            "publish depth registered to the colour image"
        )
    intrinsics = intrinsics_of(info, *depth_m.shape)
    return DepthFrame(
        rgb=rgb,
        depth_m=depth_m,
        stamp_ns=stamp_ns(colour.header.stamp),
        intrinsics=intrinsics,
        frame_id=colour.header.frame_id or "camera_optical_frame",
    )


def frame_to_msgs(frame: DepthFrame) -> tuple[Image, Image, CameraInfo]:
    """Return colour (rgb8), depth (32FC1 metres) and camera of a frame, with equal stamp and frame."""
    header = Header(stamp=to_stamp(frame.stamp_ns), frame_id=frame.frame_id)
    height, width = frame.rgb.shape[:2]
    info = info_to_msg(frame.intrinsics, height, width, header)
    return colour_to_msg(frame.rgb, header), depth_to_msg(frame.depth_m, header), info


def colour_to_msg(rgb: npt.NDArray[np.uint8], header: Header) -> Image:
    """Return (H, W, 3) uint8 RGB as an rgb8 image."""
    return _filled(np.asarray(rgb, np.uint8), "rgb8", header)


def depth_to_msg(depth_m: npt.NDArray[np.float32], header: Header) -> Image:
    """Return (H, W) float32 metres as a 32FC1 image."""
    return _filled(np.asarray(depth_m, "<f4"), "32FC1", header)


def _filled(pixels: "np.ndarray[Any, Any]", encoding: str, header: Header) -> Image:
    """Return an image with one copy of the pixels: into the array that the message made for itself."""
    packed = np.ascontiguousarray(pixels)
    height, width = packed.shape[:2]
    msg = Image(header=header, height=height, width=width, encoding=encoding, step=packed.nbytes // max(height, 1))
    msg.data.frombytes(packed.reshape(-1).view(np.uint8).data)
    return msg


def info_to_msg(intrinsics: Any, height: int, width: int, header: Header) -> CameraInfo:
    """Return the camera of an undistorted image; ``intrinsics`` is (3, 3) in pixels."""
    k = np.asarray(intrinsics, np.float64)
    return CameraInfo(
        header=header,
        height=height,
        width=width,
        distortion_model="plumb_bob",
        d=[0.0] * 5,
        k=k.reshape(9),
        r=np.eye(3).reshape(9),
        p=np.hstack([k, np.zeros((3, 1))]).reshape(12),
    )
