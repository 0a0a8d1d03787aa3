"""A rectified stereo pair: two images and their cameras to one geometry."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo

from fed_core.errors import DataError
from fed_nodes.convert.cameras import undistorted

Floats = npt.NDArray[np.float64]
Picture = npt.NDArray[np.uint8]

#: Both cameras of a rectified pair have one focal length, up to this share.
_SAME_FOCAL = 1e-3


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
            _, matrix = undistorted(image, info, rectified=True)
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
        text = f"focal lengths of the left and right camera are {left[0, 0]:g} and {right[0, 0]:g} in p"
        raise DataError(f"{text}; publish the camera_info of a rectified pair")
    baseline_m = -shift[0] / left[0, 0]
    if not np.isfinite(shift).all() or not baseline_m > 0 or abs(shift[1]) > 1e-6 * abs(shift[0]):
        text = f"the right camera lies {baseline_m:g} m to the right of the left one (p[3] is {shift[0]:g})"
        raise DataError(f"{text}; publish p of a stereo calibration, -focal length times baseline, and check the sides")


def _rectify(image: Picture, info: CameraInfo) -> Picture:
    k, r, p = (np.asarray(values, np.float64) for values in (info.k, info.r, info.p))
    plain = not any(info.d) and np.allclose(r.reshape(3, 3), np.eye(3)) and np.allclose(k.reshape(3, 3), _square(p))
    if plain:
        return image
    if not np.isfinite([*info.d, *k, *r]).all() or abs(abs(np.linalg.det(r.reshape(3, 3))) - 1.0) > 1e-3:
        raise DataError("camera_info has no finite k and d, or an r that is no rotation; calibrate the pair")
    size = (image.shape[1], image.shape[0])
    maps = _maps(info.distortion_model, tuple(info.d), (k.tobytes(), r.tobytes(), p.tobytes()), size)
    return np.asarray(cv2.remap(image, *maps, cv2.INTER_LINEAR), np.uint8)


def _square(p: Floats) -> Floats:
    return p.reshape(3, 4)[:, :3]


@lru_cache(maxsize=8)
def _maps(
    model: str, distortion: tuple[float, ...], matrices: tuple[bytes, ...], size: tuple[int, int]
) -> tuple[Any, Any]:
    """Return where the pixels of a rectified image come from."""
    k, r = (np.frombuffer(matrix).reshape(3, 3) for matrix in matrices[:2])
    p, d = _square(np.frombuffer(matrices[2])), np.array(distortion)
    makers: dict[str, Any] = {
        "": cv2.initUndistortRectifyMap,
        "plumb_bob": cv2.initUndistortRectifyMap,
        "rational_polynomial": cv2.initUndistortRectifyMap,
        "equidistant": cv2.fisheye.initUndistortRectifyMap,
        "fisheye": cv2.fisheye.initUndistortRectifyMap,
    }
    if model not in makers:
        known = ", ".join(filter(None, makers))
        raise DataError(f"distortion model {model!r} is not supported ({known} are); publish rectified images")
    try:
        first, second = makers[model](k, d, r, p, size, cv2.CV_16SC2)
    except cv2.error as err:
        raise DataError(f"{len(distortion)} numbers of distortion (d) do not fit the model {model!r}") from err
    return first, second
