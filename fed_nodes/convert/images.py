"""Images, depth and cameras: ``sensor_msgs`` to arrays and back. Colour goes through ``cv_bridge``.

Depth follows REP 118: 32FC1 is metres, 16UC1 is millimetres; unknown is NaN here and in what is published.
"""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from cv_bridge import CvBridge, CvBridgeError
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.data.images import COLOUR_ENCODINGS, decode_depth
from fed_core.errors import DataError, EncodingError
from fed_core.types import DepthFrame

_BRIDGE = CvBridge()


def stamp_ns(stamp: Time) -> int:
    """Return a ROS time in nanoseconds."""
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def to_stamp(time_ns: int) -> Time:
    """Return nanoseconds as a ROS time."""
    return Time(sec=time_ns // 1_000_000_000, nanosec=time_ns % 1_000_000_000)


def rgb_from_msg(msg: Image) -> npt.NDArray[np.uint8]:
    """Return the (H, W, 3) uint8 RGB image of a message; what cannot be converted raises ``EncodingError``."""
    if msg.step * msg.height > len(msg.data) or msg.height == 0 or msg.width == 0:
        raise DataError(f"image of {msg.width}x{msg.height} has {len(msg.data)} bytes, not {msg.step * msg.height}")
    try:
        image = _BRIDGE.imgmsg_to_cv2(_without_padding(msg), desired_encoding="rgb8")
    except (CvBridgeError, cv2.error, KeyError, TypeError, ValueError) as err:
        works = ", ".join((*COLOUR_ENCODINGS, "bayer_*", "yuv422"))
        raise EncodingError(f"colour encoding {msg.encoding!r} is not supported; supported: {works}") from err
    return np.ascontiguousarray(image, dtype=np.uint8)


def _without_padding(msg: Image) -> Image:
    """Return an image whose rows follow each other without a gap; some releases of ``cv_bridge`` ignore ``step``."""
    dtype, channels = _BRIDGE.encoding_to_dtype_with_channels(msg.encoding)
    row_bytes = msg.width * channels * np.dtype(dtype).itemsize
    if msg.step < row_bytes:
        raise DataError(f"image of {msg.width}x{msg.height} has rows of {msg.step} bytes, not {row_bytes}")
    if msg.step == row_bytes:
        return msg
    rows = np.frombuffer(msg.data, np.uint8, msg.step * msg.height).reshape(msg.height, msg.step)
    return Image(
        header=msg.header,
        height=msg.height,
        width=msg.width,
        encoding=msg.encoding,
        is_bigendian=msg.is_bigendian,
        step=row_bytes,
        data=rows[:, :row_bytes].tobytes(),
    )


def depth_from_msg(msg: Image) -> npt.NDArray[np.float32]:
    """Return the (H, W) float32 depth in metres of a message, NaN = unknown."""
    return decode_depth(msg.data, msg.encoding, msg.height, msg.width, msg.step, is_bigendian=bool(msg.is_bigendian))


def frame_from_msgs(colour: Image, depth: Image, info: CameraInfo) -> DepthFrame:
    """Return one frame; different sizes of colour and depth, or an uncalibrated camera, raise ``DataError``."""
    rgb, depth_m = rgb_from_msg(colour), depth_from_msg(depth)
    if rgb.shape[:2] != depth_m.shape:
        raise DataError(
            f"colour is {rgb.shape[1]}x{rgb.shape[0]} and depth {depth_m.shape[1]}x{depth_m.shape[0]}; "
            "publish depth registered to the colour image"
        )
    intrinsics = np.asarray(info.k, np.float64).reshape(3, 3)
    if not (intrinsics[0, 0] > 0 and intrinsics[1, 1] > 0):
        raise DataError(f"camera_info says focal length {intrinsics[0, 0]:g}; calibrate the camera or fill in its k")
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
    msg = _BRIDGE.cv2_to_imgmsg(rgb, encoding="rgb8")
    msg.header = header
    return msg


def depth_to_msg(depth_m: npt.NDArray[np.float32], header: Header) -> Image:
    """Return (H, W) float32 metres as a 32FC1 image."""
    msg = _BRIDGE.cv2_to_imgmsg(np.ascontiguousarray(depth_m, np.float32), encoding="32FC1")
    msg.header = header
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
