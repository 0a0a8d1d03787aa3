"""What a ``CameraInfo`` says of an image: its matrix is checked, and its distortion is taken out.

The models of ROS are plumb_bob, rational_polynomial (both a pinhole's) and equidistant, also called fisheye.
"""

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo

from fed_core.errors import DataError

Floats = npt.NDArray[np.float64]

#: Model -> numbers of distortion that it may have.
_PINHOLE = {"plumb_bob": (4, 5), "rational_polynomial": (8,)}
_FISHEYE = {"equidistant": (4,), "fisheye": (4,)}
MODELS = (*_PINHOLE, *_FISHEYE)
#: Numbers of the rational model that come before those of thin prisms and tilted sensors.
_RATIONAL = 8
#: Cameras whose maps are kept: enough for a rig, bounded where a camera's matrix changes (50 MB each at 4K).
_MOST_MAPS = 8
#: Condition number beyond which a matrix cannot be a camera.
_WORST_CONDITION = 1e9


def intrinsics_of(info: CameraInfo | None, height: int, width: int, *, rectified: bool = False) -> Floats:
    """Return the matrix of an image's camera, the first pixel's centre at 0.

    Args:
        info: what the camera says; one without a size (0x0) fits any image.
        height: rows of the image.
        width: columns of the image.
        rectified: the image is rectified, so that ``p`` counts, not ``k``.

    Returns:
        (3, 3) float64 in pixels.

    Raises:
        DataError: there is no info, it is of an image of another size, or it holds no camera.
    """
    if info is None:
        raise DataError("no camera_info came yet; publish what the camera is calibrated to")
    if (info.width, info.height) not in ((width, height), (0, 0)):
        text = f"camera_info is of {info.width}x{info.height} pixels, the image {width}x{height}"
        raise DataError(f"{text}; publish the camera_info of the images as they are")
    if rectified:
        return _camera_matrix(np.asarray(info.p, np.float64).reshape(3, 4)[:, :3], "p")
    return _camera_matrix(np.asarray(info.k, np.float64).reshape(3, 3), "k")


def distortion_of(info: CameraInfo) -> tuple[str, tuple[float, ...]]:
    """Return the distortion of a camera as (model, numbers), ("", ()) where it has none.

    A fisheye lens with numbers of zero is no pinhole: its pixels grow with the angle, not with the tangent.

    Raises:
        DataError: the model is not supported, or its numbers are not finite or too many or too few.
    """
    numbers = tuple(float(number) for number in info.d)
    model = info.distortion_model
    if not numbers or (model not in _FISHEYE and not any(numbers)):
        return "", ()
    if not np.isfinite(numbers).all():
        raise DataError("camera_info has a distortion (d) that is not finite; calibrate the camera")
    known = {**_PINHOLE, **_FISHEYE}
    if model not in known:
        text = f"distortion model {model[:40]!r} is not supported; supported: {', '.join(MODELS)}"
        raise DataError(f"{text}; or publish rectified images and say so in rig")
    if model == "rational_polynomial" and len(numbers) > _RATIONAL:
        if any(numbers[_RATIONAL:]):
            raise DataError(
                f"camera_info has {len(numbers)} numbers of distortion (d): thin prisms and tilted sensors are not "
                f"supported; calibrate with the {_RATIONAL} of rational_polynomial, or publish rectified images"
            )
        numbers = numbers[:_RATIONAL]
    if len(numbers) not in known[model]:
        text = f"camera_info has {len(numbers)} numbers of distortion (d)"
        raise DataError(f"{text}; the model {model!r} has {' or '.join(map(str, known[model]))}")
    return model, numbers


def undistorted(
    image: npt.NDArray[np.uint8], info: CameraInfo | None, *, rectified: bool = False
) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Return an image without distortion and its matrix (3, 3), the first pixel's centre at 0.

    Args:
        image: (H, W) or (H, W, C) uint8.
        info: its camera.
        rectified: the image is rectified already, so that ``p`` is its matrix.

    Raises:
        DataError: as of :func:`intrinsics_of` and :func:`distortion_of`.
    """
    height, width = image.shape[:2]
    matrix = intrinsics_of(info, height, width, rectified=rectified)
    if rectified or info is None:
        return image, matrix
    model, numbers = distortion_of(info)
    if not model:
        return image, matrix
    try:
        maps = _maps(model, numbers, matrix.tobytes(), width, height)
        return np.asarray(cv2.remap(image, *maps, cv2.INTER_LINEAR), np.uint8), matrix
    except cv2.error as err:
        raise DataError(f"the distortion of an image of {width}x{height} pixels cannot be taken out") from err


@lru_cache(maxsize=_MOST_MAPS)
def _maps(model: str, distortion: tuple[float, ...], matrix: bytes, width: int, height: int) -> tuple[Any, Any]:
    """Return where the pixels of an undistorted image come from; cameras rarely change."""
    k, d = np.frombuffer(matrix).reshape(3, 3), np.array(distortion)
    module = cv2.fisheye if model in _FISHEYE else cv2
    return module.initUndistortRectifyMap(k, d, np.eye(3), k, (width, height), cv2.CV_16SC2)


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
