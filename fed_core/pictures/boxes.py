"""Boxes in pictures: where their corners and edges are, and the view from above."""

from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.pictures.colours import Picture
from fed_core.types import Boxes3D

Floats = npt.NDArray[np.float64]
Colour = tuple[int, int, int]

#: Score from which on a predicted box is drawn; one below is no claim.
MIN_SCORE = 0.2
#: Half the side of the view from above [m], and its size in pixels.
REACH_M, SIDE_PX = 50.0, 400
_GROUND: Colour = (24, 24, 28)
_POINT: Colour = (120, 120, 130)
#: Corners nearer than this are not drawn [m].
_NEAR_M = 0.3
#: Corners of a box as signs of length, width and height, and the lines between them; the first four are the front.
_CORNERS = np.array(
    [(1, 1, 1), (1, -1, 1), (1, -1, -1), (1, 1, -1), (-1, 1, 1), (-1, -1, 1), (-1, -1, -1), (-1, 1, -1)]
)
_EDGES = (
    [(i, (i + 1) % 4) for i in range(4)] + [(4 + i, 4 + (i + 1) % 4) for i in range(4)] + [(i, 4 + i) for i in range(4)]
)


def draw_above(points: npt.NDArray[Any], sets: Sequence[tuple[Boxes3D, Colour]], side_px: int = SIDE_PX) -> Picture:
    """Return the view from above (S, S, 3) uint8 RGB: points in grey, boxes with a line towards their front.

    Args:
        points: (P, 2 or more) [m], x right and y up in the picture, whose middle is at 0, 0.
        sets: boxes in the same frame, with the colour of their lines.
        side_px: side of the picture S in pixels.
    """
    canvas = np.full((side_px, side_px, 3), _GROUND, np.uint8)
    pixels = _from_above(points[:, :2], side_px)
    there = ((pixels >= 0) & (pixels < side_px)).all(1)
    columns, rows = pixels[there].astype(int).T
    canvas[rows, columns] = _POINT
    for boxes, colour in sets:
        every = corners_of(boxes.centres, boxes.sizes, boxes.yaws)
        for corners, centre in zip(every, boxes.centres, strict=True):
            outline = [pixel(place) for place in _from_above(corners[[0, 1, 5, 4], :2], side_px)]
            cv2.polylines(canvas, [np.array(outline, np.int32)], True, colour, 1, cv2.LINE_AA)
            ends = _from_above(np.stack([centre[:2], corners[[0, 1], :2].mean(0)]), side_px)
            cv2.line(canvas, pixel(ends[0]), pixel(ends[1]), colour, 1, cv2.LINE_AA)
    return canvas


def corners_of(centres: Floats, sizes: Floats, yaws: Floats) -> Floats:
    """Return the corners of boxes, (M, 8, 3) float64 [m]; the first four are the front, two above and two below.

    Args:
        centres: (M, 3) [m].
        sizes: (M, 3) length, width, height [m].
        yaws: (M,) [rad].
    """
    local = _CORNERS[None] * sizes[:, None] / 2
    cos, sin = np.cos(yaws)[:, None], np.sin(yaws)[:, None]
    x, y = local[..., 0] * cos - local[..., 1] * sin, local[..., 0] * sin + local[..., 1] * cos
    turned: Floats = np.stack([x, y, local[..., 2]], -1) + centres[:, None]
    return turned


def edges_in(corners: Floats, to_pixel: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield both ends in pixels of the edges of the boxes that are wholly before a camera.

    Args:
        corners: (M, 8, 3) [m], see :func:`corners_of`.
        to_pixel: (3, 4) from their frame to (u d, v d, d), d the depth [m].
    """
    for flat in corners @ to_pixel[:, :3].T + to_pixel[:, 3]:
        if not (flat[:, 2] > _NEAR_M).all():
            continue
        pixels = flat[:, :2] / flat[:, 2:]
        for a, b in _EDGES:
            yield pixels[a], pixels[b]


def pixel(place: Floats) -> tuple[int, int]:
    """Return a pixel for OpenCV, which takes no numbers beyond 16 bits or so."""
    column, row = np.clip(np.rint(place), -10_000, 10_000)
    return int(column), int(row)


def _from_above(points: npt.NDArray[Any], side_px: int) -> Floats:
    """Return pixels (column, row) of points (P, 2) [m] with x right and y up."""
    scale = side_px / (2 * REACH_M)
    pixels: Floats = np.stack([points[:, 0] + REACH_M, REACH_M - points[:, 1]], 1) * scale
    return pixels
