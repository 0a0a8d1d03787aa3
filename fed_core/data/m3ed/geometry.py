"""Depth from one camera into another, and images to the size that networks take."""

from typing import Any, TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.m3ed.calibration import CameraCalibration
from fed_core.data.m3ed.poses import Pose

Depth = npt.NDArray[np.float32]
_MULTIPLE = 32
T = TypeVar("T", np.uint8, np.float32)


def usable_depth(depth_m: npt.NDArray[Any], low_m: float, high_m: float) -> Depth:
    """Return depth with NaN for all that is missing (+inf, NaN, 0) or outside [low_m, high_m].

    Args:
        depth_m: (H, W) metres.
        low_m: nearest, inclusive.
        high_m: farthest, inclusive.

    Returns:
        (H, W) float32 metres.
    """
    with np.errstate(invalid="ignore"):
        known = np.isfinite(depth_m) & (depth_m > 0) & (depth_m >= low_m) & (depth_m <= high_m)
    return np.where(known, depth_m, np.nan).astype(np.float32)


def points_of(depth_m: Depth, rays: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the points of all pixels with a depth.

    Args:
        depth_m: (H, W) metres along the optical axis; NaN or inf = missing.
        rays: (H, W, 2), from :meth:`CameraCalibration.rays`.

    Returns:
        (N, 3) float32 metres in the camera frame.
    """
    known = np.isfinite(depth_m) & (depth_m > 0)
    z = depth_m[known].astype(np.float32)
    return np.concatenate([rays[known] * z[:, None], z[:, None]], axis=1)


def moved(points: npt.NDArray[np.float32], motion: Pose) -> npt.NDArray[np.float32]:
    """Return (N, 3) points after the (4, 4) rigid ``motion``, float32."""
    return points @ motion[:3, :3].T.astype(np.float32) + motion[:3, 3].astype(np.float32)


def splat(points: npt.NDArray[np.float32], camera: CameraCalibration) -> Depth:
    """Return the depth map that a camera sees of points: one pixel per point, the nearest point wins.

    Args:
        points: (N, 3) metres in the frame of ``camera``.
        camera: the camera.

    Returns:
        (H, W) float32 metres, NaN where no point fell.
    """
    pixels = camera.project(points)
    inside = np.isfinite(pixels).all(axis=1)
    column, row = np.rint(pixels[inside]).astype(np.int64).T
    z = points[inside, 2]
    inside = (column >= 0) & (column < camera.width) & (row >= 0) & (row < camera.height)
    image = np.full(camera.height * camera.width, np.inf, dtype=np.float32)
    np.minimum.at(image, row[inside] * camera.width + column[inside], z[inside])
    image[np.isinf(image)] = np.nan
    return image.reshape(camera.height, camera.width)


def fill_gaps(depth_m: Depth) -> Depth:
    """Return depth in which an empty pixel takes the nearest depth among its eight neighbours, if they have any."""
    known = np.isfinite(depth_m)
    # Not infinity: OpenCV takes the largest number for what lies outside the image.
    empty = np.finfo(np.float32).max
    nearest = cv2.erode(np.where(known, depth_m, empty), np.ones((3, 3), np.uint8))
    filled = np.where(known, depth_m, nearest)
    return np.where(filled < empty, filled, np.nan).astype(np.float32)


def colour_to_event(rgb: npt.NDArray[np.uint8], camera: CameraCalibration, rays: npt.NDArray[np.float32]) -> Any:
    """Return colour as the event camera would see it if everything were infinitely far away.

    Args:
        rgb: (H, W, 3) uint8 of ``camera``.
        camera: the colour camera.
        rays: (h, w, 2) of the event camera.

    Returns:
        (h, w, 3) uint8, and (h, w) bool: the pixel lies in the colour image.
    """
    height, width = rays.shape[:2]
    far = np.concatenate([rays.reshape(-1, 2), np.ones((height * width, 1), np.float32)], axis=1)
    # A row vector times R is R^T times the point: from the event camera to the colour camera.
    pixels = camera.project(far @ camera.to_event_left[:3, :3].astype(np.float32))
    column, row = pixels.reshape(height, width, 2).transpose(2, 0, 1)
    with np.errstate(invalid="ignore"):
        inside = (column >= 0) & (column <= camera.width - 1) & (row >= 0) & (row <= camera.height - 1)
    turned = cv2.remap(rgb, np.nan_to_num(column, nan=-1.0), np.nan_to_num(row, nan=-1.0), cv2.INTER_LINEAR)
    return turned, inside


def output_size(camera: CameraCalibration, width: int, height: int) -> tuple[int, int]:
    """Return (width, height) of the halved and cropped image.

    What is asked for, where half the image is that large; else the largest multiple of 32 that fits (or all of it).
    """
    sizes = []
    for full, wanted in ((camera.width, width), (camera.height, height)):
        half = full // 2
        sizes.append(wanted if wanted <= half else max(half // _MULTIPLE * _MULTIPLE, min(half, _MULTIPLE)))
    return sizes[0], sizes[1]


def halve_rgb(rgb: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Return the mean of 2x2 pixels, cut to ``size`` (width, height) around the middle: (h, w, 3) uint8."""
    height, width = rgb.shape[0] // 2, rgb.shape[1] // 2
    even = np.ascontiguousarray(rgb[: 2 * height, : 2 * width])
    return _centre(np.asarray(cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8), size)


def halve_depth(depth_m: Depth, size: tuple[int, int]) -> Depth:
    """Return the nearest depth of 2x2 pixels, cut to ``size`` (width, height): (h, w) float32, NaN = none of the four.

    Depth is never averaged: between a wall and the street behind it there is nothing.
    """
    height, width = depth_m.shape[0] // 2, depth_m.shape[1] // 2
    blocks = depth_m[: 2 * height, : 2 * width].reshape(height, 2, width, 2)
    nearest = np.fmin(np.fmin(blocks[:, 0, :, 0], blocks[:, 0, :, 1]), np.fmin(blocks[:, 1, :, 0], blocks[:, 1, :, 1]))
    return _centre(nearest, size)


def _centre(image: npt.NDArray[T], size: tuple[int, int]) -> npt.NDArray[T]:
    width, height = size
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return np.ascontiguousarray(image[top : top + height, left : left + width])
