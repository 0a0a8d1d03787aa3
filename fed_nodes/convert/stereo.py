"""A rectified stereo pair: two images and their cameras to one geometry."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo

from fed_core.errors import DataError
from fed_nodes.convert.cameras import distortion_of, intrinsics_of

Floats = npt.NDArray[np.float64]
Picture = npt.NDArray[np.uint8]

#: Models of a fisheye lens.
FISHEYE = ("equidistant", "fisheye")
#: Both cameras of a rectified pair have one focal length, up to this share.
_SAME_FOCAL = 1e-3
#: What lies in a row of the one picture lies in that row of the other, up to this many pixels.
_SAME_ROW_PX = 0.5


@dataclass(frozen=True)
class StereoPair:
    """A rectified pair.

    Attributes:
        left: (H, W, 3) uint8 RGB.
        right: (H, W, 3) uint8 RGB.
        intrinsics: (3, 3) float64 pixels, of the left picture.
        baseline_m: distance of the cameras.
        offset_px: disparity of what is infinitely far away.
    """

    left: Picture
    right: Picture
    intrinsics: Floats
    baseline_m: float
    offset_px: float


def stereo_pair(left: Picture, right: Picture, infos: tuple[CameraInfo, CameraInfo], *, rectified: bool) -> StereoPair:
    """Return a rectified pair.

    Args:
        left: (H, W, 3) uint8 RGB.
        right: the same of the right camera.
        infos: both cameras; p of the right one holds -focal length times baseline, as ``camera_calibration`` writes it.
        rectified: the pictures are rectified already; else r and p of the cameras rectify them.

    Raises:
        DataError: the cameras are no rectified pair, or do not belong to the pictures.
    """
    if left.shape != right.shape:
        sizes = " and the right ".join(f"{image.shape[1]}x{image.shape[0]}" for image in (left, right))
        raise DataError(f"the left image is {sizes}; publish a stereo pair of one size")
    pictures, matrices = [], []
    for side, image, info in zip(("left", "right"), (left, right), infos, strict=True):
        try:
            matrix = intrinsics_of(info, *image.shape[:2], rectified=True)
            pictures.append(image if rectified else _rectify(image, info))
        except DataError as err:
            raise DataError(f"{side} camera: {err}") from err
        matrices.append(matrix)
    shift = np.asarray(infos[1].p, np.float64).reshape(3, 4)[:, 3] - np.asarray(infos[0].p).reshape(3, 4)[:, 3]
    focal = matrices[0][0, 0]
    _require_pair(matrices, shift)
    return StereoPair(
        left=pictures[0],
        right=pictures[1],
        intrinsics=matrices[0],
        baseline_m=float(-shift[0] / focal),
        offset_px=float(matrices[0][0, 2] - matrices[1][0, 2]),
    )


def _require_pair(matrices: list[Floats], shift: Floats) -> None:
    left, right = matrices
    if not np.allclose(left[[0, 1], [0, 1]], right[[0, 1], [0, 1]], rtol=_SAME_FOCAL):
        focal = [f"({matrix[0, 0]:g}, {matrix[1, 1]:g})" for matrix in matrices]
        text = f"focal lengths of the left and right camera are {focal[0]} and {focal[1]} in p"
        raise DataError(f"{text}; publish the camera_info of a rectified pair")
    if abs(left[1, 2] - right[1, 2]) > _SAME_ROW_PX:
        text = f"the left and right camera have their centres at rows {left[1, 2]:g} and {right[1, 2]:g} in p"
        raise DataError(f"{text}, so that rows do not match; publish the camera_info of a rectified pair")
    baseline_m = -shift[0] / left[0, 0]
    if not np.isfinite(shift).all() or not baseline_m > 0 or abs(shift[1]) > 1e-6 * abs(shift[0]):
        text = f"the right camera lies {baseline_m:g} m to the right of the left one (p[3] is {shift[0]:g})"
        raise DataError(f"{text}; publish p of a stereo calibration, -focal length times baseline, and check the sides")


def _rectify(image: Picture, info: CameraInfo) -> Picture:
    """Return the picture as seen through ``p``, turned by ``r``, without distortion."""
    height, width = image.shape[:2]
    k, p = intrinsics_of(info, height, width), intrinsics_of(info, height, width, rectified=True)
    r = np.asarray(info.r, np.float64).reshape(3, 3)
    model, numbers = distortion_of(info)
    if not model and np.allclose(r, np.eye(3)) and np.allclose(k, p):
        return image
    if not np.isfinite(r).all() or not np.allclose(r @ r.T, np.eye(3), atol=1e-3):
        raise DataError("camera_info has an r that is no rotation; calibrate the pair")
    matrices = (k.tobytes(), r.tobytes(), p.tobytes())
    try:
        maps = _maps(model, numbers, matrices, (width, height))
        return np.asarray(cv2.remap(image, *maps, cv2.INTER_LINEAR), np.uint8)
    except cv2.error as err:
        raise DataError(f"an image of {width}x{height} pixels cannot be rectified") from err


@lru_cache(maxsize=8)
def _maps(
    model: str, distortion: tuple[float, ...], matrices: tuple[bytes, ...], size: tuple[int, int]
) -> tuple[Any, Any]:
    """Return where the pixels of a rectified image come from."""
    k, r, p = (np.frombuffer(matrix).reshape(3, 3) for matrix in matrices)
    module = cv2.fisheye if model in FISHEYE else cv2
    first, second = module.initUndistortRectifyMap(k, np.array(distortion), r, p, size, cv2.CV_16SC2)
    return first, second
