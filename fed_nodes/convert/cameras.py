"""What a ``CameraInfo`` says of an image: its distortion is taken out, and its matrix is checked."""

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo

from fed_core.errors import DataError

Floats = npt.NDArray[np.float64]

_PINHOLE, _FISHEYE = ("plumb_bob", "rational_polynomial"), ("equidistant",)
#: Condition number beyond which a matrix cannot be a camera.
_WORST_CONDITION = 1e9


def undistorted(
    image: npt.NDArray[np.uint8], info: CameraInfo, *, rectified: bool
) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Return an image without distortion and its matrix (3, 3), the first pixel's centre at 0."""
    height, width = image.shape[:2]
    if (info.width, info.height) != (width, height):
        text = f"camera_info is of {info.width}x{info.height} pixels, the image {width}x{height}"
        raise DataError(f"{text}; publish the camera_info of the images as they are")
    if rectified:
        return image, _camera_matrix(np.asarray(info.p, np.float64).reshape(3, 4)[:, :3], "p")
    matrix = _camera_matrix(np.asarray(info.k, np.float64).reshape(3, 3), "k")
    if not any(info.d):
        return image, matrix
    if not np.isfinite(info.d).all():
        raise DataError("camera_info has a distortion (d) that is not finite; calibrate the camera")
    maps = _maps(info.distortion_model, tuple(info.d), matrix.tobytes(), width, height)
    return np.asarray(cv2.remap(image, *maps, cv2.INTER_LINEAR), np.uint8), matrix


@lru_cache(maxsize=32)
def _maps(model: str, distortion: tuple[float, ...], matrix: bytes, width: int, height: int) -> tuple[Any, Any]:
    """Return where the pixels of an undistorted image come from; cameras rarely change."""
    k, d = np.frombuffer(matrix).reshape(3, 3), np.array(distortion)
    try:
        if model in _PINHOLE:
            return cv2.initUndistortRectifyMap(k, d, np.eye(3), k, (width, height), cv2.CV_16SC2)
        if model in _FISHEYE:
            return cv2.fisheye.initUndistortRectifyMap(k, d, np.eye(3), k, (width, height), cv2.CV_16SC2)
    except cv2.error as err:
        text = f"camera_info has {len(distortion)} numbers of distortion (d)"
        raise DataError(f"{text}; the model {model!r} has another number") from err
    raise DataError(f"distortion model {model!r} is not supported; publish rectified images and say so in rig")


def _camera_matrix(matrix: Floats, field: str) -> Floats:
    """Refuse what cannot be a camera."""
    focal = f"{matrix[0, 0]:g}, {matrix[1, 1]:g}"
    if not np.isfinite(matrix).all() or not (matrix[0, 0] > 0 and matrix[1, 1] > 0):
        raise DataError(
            f"camera_info says focal lengths {focal} in {field}; calibrate the camera or fill in its {field}"
        )
    if not np.allclose(matrix[2], [0.0, 0.0, 1.0]) or np.linalg.cond(matrix) > _WORST_CONDITION:
        raise DataError(f"camera_info has a singular matrix in {field}; calibrate the camera or fill in its {field}")
    return matrix
