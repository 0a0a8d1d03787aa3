"""Depth of a camera as a cloud of coloured points, in the camera's optical frame.

As ``depth_image_proc`` does it: fields x, y, z [m] and rgb, organised (one point for each pixel, NaN where depth is not
known). Points lie without gaps, 16 bytes each.
"""

import sys
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo, PointCloud2, PointField
from std_msgs.msg import Header

from fed_nodes.convert.cameras import distortion_of, intrinsics_of

Rays = npt.NDArray[np.float32]

_FISHEYE = ("equidistant", "fisheye")
_FIELDS = ("x", "y", "z", "rgb")
#: Rays further from the optical axis than this (tangent of the angle) are those of an iteration that ran away.
_WIDEST = 100.0
_STEPS = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 40, 1e-9)


def rays_of(info: CameraInfo, height: int, width: int, *, rectified: bool = False) -> Rays:
    """Return where each pixel looks: x and y at a depth of 1 m, (H, W, 2) float32; NaN where nobody can say.

    Distortion is undone for every pixel, so that the points of a distorted image lie where the things are.

    Args:
        info: what the camera says.
        height: rows of the image.
        width: columns of the image.
        rectified: the image is rectified: its camera is P, and it has no distortion.

    Raises:
        DataError: the info is not of this image, or its distortion is not supported.
    """
    matrix = intrinsics_of(info, height, width, rectified=rectified)
    model, distortion = ("", ()) if rectified else distortion_of(info)
    return _rays(model, distortion, matrix.tobytes(), height, width)


def depth_to_cloud(depth_m: npt.NDArray[np.float32], rgb: npt.NDArray[np.uint8], rays: Rays, header: Header) -> Any:
    """Return depth as an organised cloud.

    Args:
        depth_m: (H, W) float32 metres along the optical axis; what is not finite or not positive gives no point.
        rgb: (H, W, 3) uint8.
        rays: of :func:`rays_of`.
        header: time and optical frame.
    """
    height, width = depth_m.shape
    table = np.empty((height, width, len(_FIELDS)), np.float32)
    known = np.where((depth_m > 0) & np.isfinite(depth_m), depth_m, np.float32(np.nan))
    np.multiply(rays, known[..., None], out=table[..., :2])
    table[..., 2] = np.where(np.isnan(table[..., 0]), np.float32(np.nan), known)
    colour = table[..., 3].view(np.uint32)
    np.left_shift(rgb[..., 0], 16, out=colour, dtype=np.uint32)
    colour |= np.left_shift(rgb[..., 1], 8, dtype=np.uint32)
    colour |= rgb[..., 2]
    step = 4 * len(_FIELDS)
    msg = PointCloud2(
        header=header,
        height=height,
        width=width,
        fields=[
            PointField(name=name, offset=4 * place, datatype=PointField.FLOAT32, count=1)
            for place, name in enumerate(_FIELDS)
        ],
        is_bigendian=sys.byteorder == "big",
        point_step=step,
        row_step=step * width,
        is_dense=False,
    )
    msg.data.frombytes(table.data.cast("B"))  # the setter would copy once more
    return msg


@lru_cache(maxsize=8)
def _rays(model: str, distortion: tuple[float, ...], matrix: bytes, height: int, width: int) -> Rays:
    k = np.frombuffer(matrix).reshape(3, 3)
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    if not distortion:
        found = np.stack([(columns - k[0, 2]) / k[0, 0], (rows - k[1, 2]) / k[1, 1]], -1)
        return np.asarray(found, np.float32)
    pixels, values = np.stack([columns, rows], -1).reshape(-1, 1, 2), np.array(distortion)
    if model in _FISHEYE:
        found = cv2.fisheye.undistortPoints(pixels, k, values)
    else:
        found = cv2.undistortPointsIter(pixels, k, values, np.eye(3), np.eye(3), _STEPS)
    found = found.reshape(height, width, 2)
    found[~(np.abs(found) < _WIDEST).all(-1)] = np.nan
    return np.asarray(found, np.float32)
