"""Variations of a training sample: space, pictures and modalities (fedcka spec 7.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fed_core.tasks.detection.fit import Sample, warp
from fed_core.types import Boxes3D

#: Share of a period of the grid that a grid mask hides, along each axis.
_GRID_RATIO = 0.5


@dataclass(frozen=True)
class Augmentation:
    """How far a sample is varied.

    Attributes:
        rotation: largest turn about z [rad].
        scale: largest change of scale.
        shift_m: standard deviation of the shift along each axis [m].
        flips: chance of mirroring x, and of mirroring y.
        zoom: largest enlargement of pictures; the bottom stays.
        image_flip: chance of mirroring the pictures of a scan.
        no_images: chance that a scan comes without pictures.
        no_points: chance that it comes without points; never without both.
        grid_mask: chance of a grid of holes in the pictures.
    """

    rotation: float = 0.785
    scale: float = 0.1
    shift_m: float = 0.5
    flips: float = 0.5
    zoom: float = 1.4
    image_flip: float = 0.5
    no_images: float = 0.25
    no_points: float = 0.25
    grid_mask: float = 0.7


#: By name. ``paper``: the paper's, without the pasting of boxes of other scans. ``light``: for short training of small
#: networks, space only. ``none``: nothing.
AUGMENTATIONS = {
    "paper": Augmentation(),
    "light": Augmentation(0.2, 0.05, 0.3, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0),
    "none": Augmentation(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0),
}


def augment(sample: Sample, how: Augmentation, rng: np.random.Generator) -> Sample:
    """Return a varied sample: its boxes still project to what shows them.

    Missing pictures are black here; see :func:`hidden` for what the batch zeroes.
    """
    change = space_change(how, rng)
    images, matrices = sample.images, sample.lidar_to_pixel @ np.linalg.inv(change)
    if len(images) and (how.zoom > 1.0 or how.image_flip > 0.0):
        images, matrices = _moved_images(images, matrices, how, rng)
    points = sample.points.copy()
    points[:, :3] = points[:, :3] @ change[:3, :3].T + change[:3, 3]
    return Sample(images, matrices, points, moved_boxes(sample.boxes, change))


def space_change(how: Augmentation, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw a similarity (4, 4) float64 [m] of the LiDAR frame: turn about z, mirrors, scale, shift."""
    turn = rng.uniform(-how.rotation, how.rotation)
    size = rng.uniform(1.0 - how.scale, 1.0 + how.scale)
    mirrors = np.where(rng.random(2) < how.flips, -1.0, 1.0)
    change = np.eye(4)
    change[:2, :2] = mirrors[:, None] * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    change[:3, :3] *= size
    change[:3, 3] = rng.normal(0.0, how.shift_m, 3)
    return change


def moved_boxes(boxes: Boxes3D, change: npt.NDArray[np.float64]) -> Boxes3D:
    """Return boxes after a similarity (4, 4) that keeps z upright; velocities and sizes scale with it."""
    plane = change[:2, :2]
    heading = np.stack((np.cos(boxes.yaws), np.sin(boxes.yaws)), 1) @ plane.T
    return replace(
        boxes,
        centres=boxes.centres @ change[:3, :3].T + change[:3, 3],
        sizes=boxes.sizes * change[2, 2],
        yaws=np.arctan2(heading[:, 1], heading[:, 0]),
        velocities=boxes.velocities @ plane.T,
    )


def _moved_images(
    images: npt.NDArray[np.uint8], matrices: npt.NDArray[np.float64], how: Augmentation, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Enlarge and mirror all pictures of a scan alike."""
    height, width = images.shape[1:3]
    zoom = rng.uniform(1.0, how.zoom)
    left = rng.uniform(0.0, (zoom - 1.0) * width)
    change = np.array([[zoom, 0.0, -left], [0.0, zoom, (1.0 - zoom) * height], [0.0, 0.0, 1.0]])
    if rng.random() < how.image_flip:
        change = np.array([[-1.0, 0.0, width], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) @ change
    pixel = np.eye(4)
    pixel[:3, :3] = change
    return np.stack([warp(image, change) for image in images]), pixel @ matrices


def hidden(samples: Sequence[Sample], how: Augmentation, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Draw which pixels of normalised pictures become 0, (B, H, W) bool; a scan loses all or a grid of holes."""
    height, width = samples[0].images.shape[1:3]
    found = np.zeros((len(samples), height, width), bool)
    for scan in range(len(samples)):
        if rng.random() < how.grid_mask:
            found[scan] = _grid(height, width, rng)
    return found


def missing(how: Augmentation, count: int, rng: np.random.Generator) -> tuple[Sequence[bool], Sequence[bool]]:
    """Draw which of ``count`` scans come without pictures, and which without points; none without both."""
    drawn = rng.random(count)
    no_images = drawn < how.no_images
    no_points = ~no_images & (drawn < how.no_images + how.no_points)
    return [bool(x) for x in no_images], [bool(x) for x in no_points]


def _grid(height: int, width: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return a grid of square holes (H, W) bool with a random period and start (arXiv:2001.04086, unturned)."""
    period = int(rng.integers(2, max(min(height, width), 3)))
    row, column = rng.integers(0, period, 2)
    rows = (np.arange(height) + row) % period < period * _GRID_RATIO
    columns = (np.arange(width) + column) % period < period * _GRID_RATIO
    grid: npt.NDArray[np.bool_] = rows[:, None] & columns[None]
    return grid
