"""Scans in the size that a network takes: pictures resized and cropped, points and boxes within its range."""

import hashlib
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError
from fed_core.tasks.depth.task import resize_rgb
from fed_core.tasks.detection.network import DetectionNetwork
from fed_core.types import Array, Boxes3D, DetectionFrame, ScanFrame

#: Smallest determinant of an intrinsic matrix, in square pixels.
_FLAT = 1e-6
NO_BOXES = Boxes3D(
    centres=np.zeros((0, 3)),
    sizes=np.zeros((0, 3)),
    yaws=np.zeros(0),
    velocities=np.zeros((0, 2)),
    labels=np.zeros(0, np.int64),
    scores=np.zeros(0),
    num_points=np.zeros(0, np.int64),
)


class Sample(NamedTuple):
    """One scan for a network.

    Attributes:
        images: (N, H, W, 3) uint8 RGB.
        lidar_to_pixel: (N, 4, 4) float64, a point (x, y, z, 1) [m] to (u d, v d, d, 1) in pixels of ``images``; u and
            v are 0 at the image's edge.
        points: (P, 5) float32 x, y, z [m], intensity, time lag [s].
        boxes: true boxes.
    """

    images: npt.NDArray[np.uint8]
    lidar_to_pixel: npt.NDArray[np.float64]
    points: npt.NDArray[np.float32]
    boxes: Boxes3D


def fit(frame: ScanFrame, network: DetectionNetwork) -> Sample:
    """Return a scan in the network's size.

    True boxes count where their centre is in range and LiDAR points hit them; where there are more points than the
    network takes, the same ones are drawn in every run.
    """
    images, matrices = fit_cameras(frame, network)
    points = frame.points[inside(frame.points, network.point_range)]
    if 0 < network.max_points < len(points):
        seed = int.from_bytes(hashlib.sha256(frame.token.encode()).digest()[:8], "little")
        points = points[np.sort(np.random.default_rng(seed).permutation(len(points))[: network.max_points])]
    boxes = NO_BOXES
    if isinstance(frame, DetectionFrame):
        kept = inside(frame.boxes.centres, network.point_range) & (frame.boxes.num_points > 0)
        boxes = frame.boxes.take(kept)
    return Sample(images, matrices, np.ascontiguousarray(points, np.float32), boxes)


def fit_cameras(frame: ScanFrame, network: DetectionNetwork) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Return the pictures (N, H, W, 3) in the network's size, and LiDAR to pixel (N, 4, 4) for them.

    Too few cameras or a singular intrinsic matrix raise ``DataError``.
    """
    if network.image_size is None:
        return np.zeros((0, 1, 1, 3), np.uint8), np.zeros((0, 4, 4))
    count = network.num_cameras or len(frame.images)
    if len(frame.images) < max(count, 1):
        text = f"scan {frame.token} has {len(frame.images)} camera(s); the network takes {max(count, 1)}"
        raise DataError(f"{text}: give scans with more, or set the network's option cameras")
    images, matrices = [], []
    for index in range(count):
        if not abs(np.linalg.det(frame.intrinsics[index])) > _FLAT:
            raise DataError(f"camera {frame.cameras[index]} of scan {frame.token} has a singular intrinsic matrix")
        image, change = fit_image(frame.images[index], network.image_size)
        pixel = np.eye(4)
        pixel[:3, :3] = change @ frame.intrinsics[index]
        images.append(image)
        matrices.append(pixel @ frame.lidar_to_camera[index])
    return np.stack(images), np.stack(matrices)


def fit_image(rgb: Array, size: tuple[int, int]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Return an image (H, W, 3) uint8 in another size, and the matrix (3, 3) of old pixels to new ones.

    The aspect stays: the image is resized until it fills the new one, then cropped at the top, or at both sides.
    """
    (height, width), (old_height, old_width) = size, rgb.shape[:2]
    factor = max(height / old_height, width / old_width)
    rows, columns = max(round(old_height * factor), height), max(round(old_width * factor), width)
    top, left = rows - height, (columns - width) // 2
    resized = resize_rgb(rgb, rows, columns)[top:, left : left + width]
    change = np.array([[columns / old_width, 0.0, -left], [0.0, rows / old_height, -top], [0.0, 0.0, 1.0]])
    return np.ascontiguousarray(resized), change


def warp(rgb: Array, change: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Return an image of the same size whose pixels a matrix (3, 3) moves; what comes from outside is black."""
    # OpenCV counts pixels from their centres, the matrices here from the image's edge.
    half = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    centred = np.linalg.inv(half) @ change @ half
    moved = cv2.warpAffine(np.ascontiguousarray(rgb), centred[:2], (rgb.shape[1], rgb.shape[0]))
    return np.asarray(moved, np.uint8)


def inside(points: Array, point_range: tuple[float, ...]) -> npt.NDArray[np.bool_]:
    """Return which of points (P, 3 or more) [m] lie within a range (x, y, z from, x, y, z to)."""
    low, high = np.asarray(point_range[:3]), np.asarray(point_range[3:])
    within: npt.NDArray[np.bool_] = ((points[:, :3] >= low) & (points[:, :3] < high)).all(1)
    return within
