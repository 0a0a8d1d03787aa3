"""Images that a report shows: boxes seen from above and in the cameras, true ones and those of each run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.study.png import write_png
from fed_core.types import Boxes3D, DetectionFrame, ScanFrame

Picture = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Colour = tuple[int, int, int]

TRUE: Colour = (60, 200, 90)
PREDICTED: Colour = (255, 140, 0)
_GROUND: Colour = (24, 24, 28)
#: Score from which on a predicted box is drawn; one below is no claim.
MIN_SCORE = 0.2
#: Half the side of the view from above [m], and its size in pixels.
REACH_M, SIDE_PX = 50.0, 400
#: Height about which small pictures of cameras are brought to.
ENLARGED_PX = 192
#: Corners nearer than this are not drawn [m].
_NEAR_M = 0.3
#: Corners of a box as signs of length, width and height, and the lines between them; the first four are the front.
_CORNERS = np.array(
    [(1, 1, 1), (1, -1, 1), (1, -1, -1), (1, 1, -1), (-1, 1, 1), (-1, -1, 1), (-1, -1, -1), (-1, 1, -1)]
)
_EDGES = (
    [(i, (i + 1) % 4) for i in range(4)] + [(4 + i, 4 + (i + 1) % 4) for i in range(4)] + [(i, 4 + i) for i in range(4)]
)


def save_panels(folder: Path, client: str, frame: DetectionFrame, said: Boxes3D) -> None:
    """Write ``<client>_bev.png`` and ``<client>_cameras.png``.

    The first has LiDAR points, the true boxes that they hit and the predicted ones; the second only the predicted ones.

    Args:
        folder: where to.
        client: whose model it is.
        frame: what it saw.
        said: its boxes in the LiDAR frame.
    """
    claimed, true = said.take(said.scores >= MIN_SCORE), frame.boxes.take(frame.boxes.num_points > 0)
    shown = draw_bev(frame, [(true, TRUE), (claimed, PREDICTED)])
    _write(folder / f"{client}_bev.png", shown)
    _write(folder / f"{client}_cameras.png", draw_cameras(frame, claimed, PREDICTED))


def save_truth(folder: Path, client: str, frame: DetectionFrame) -> None:
    """Write ``<client>_cameras.png`` with the true boxes that LiDAR points hit, once."""
    path = folder / f"{client}_cameras.png"
    if not path.exists():
        _write(path, draw_cameras(frame, frame.boxes.take(frame.boxes.num_points > 0), TRUE))


def draw_bev(frame: ScanFrame, sets: Sequence[tuple[Boxes3D, Colour]]) -> Picture:
    """Return the view from above (S, S, 3) uint8 RGB: points in grey, boxes with a line towards their front.

    The vehicle is in the middle, the LiDAR's y axis (ahead) points up.
    """
    canvas = np.full((SIDE_PX, SIDE_PX, 3), _GROUND, np.uint8)
    pixels = _from_above(frame.points[:, :2])
    there = ((pixels >= 0) & (pixels < SIDE_PX)).all(1)
    columns, rows = pixels[there].astype(int).T
    canvas[rows, columns] = (120, 120, 130)
    for boxes, colour in sets:
        every = corners_of(boxes.centres, boxes.sizes, boxes.yaws)
        for corners, centre in zip(every, boxes.centres, strict=True):
            outline = _from_above(corners[[0, 1, 5, 4], :2])
            cv2.polylines(canvas, [np.rint(outline).astype(np.int32)], True, colour, 1, cv2.LINE_AA)
            front = _from_above(corners[[0, 1], :2].mean(0, keepdims=True))[0]
            cv2.line(canvas, _pixel(_from_above(centre[None, :2])[0]), _pixel(front), colour, 1, cv2.LINE_AA)
    return canvas


def draw_cameras(frame: ScanFrame, boxes: Boxes3D, colour: Colour) -> Picture:
    """Return the pictures of all cameras beside each other, (H, sum W, 3) uint8 RGB, with the edges of boxes.

    Small pictures are enlarged, so that the lines do not hide what they surround.
    """
    lowest = min(image.shape[0] for image in frame.images)
    height = lowest * max(1, ENLARGED_PX // lowest)
    corners = corners_of(boxes.centres, boxes.sizes, boxes.yaws)
    shown = []
    for image, matrix, pose in zip(frame.images, frame.intrinsics, frame.lidar_to_camera, strict=True):
        factor = height / image.shape[0]
        size = (round(image.shape[1] * factor), height)
        canvas = cv2.resize(np.ascontiguousarray(image), size, interpolation=cv2.INTER_NEAREST)
        for a, b in edges_in(corners, matrix @ pose[:3]):
            cv2.line(canvas, _pixel(a * factor), _pixel(b * factor), colour, 1, cv2.LINE_AA)
        shown.append(canvas)
    return np.ascontiguousarray(np.concatenate(shown, 1), np.uint8)


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


def _write(path: Path, rgb: Picture) -> None:
    write_png(path, rgb[..., ::-1])


def _from_above(points: npt.NDArray[Any]) -> Floats:
    """Return pixels (column, row) of points (P, 2) [m] with x right and y up."""
    scale = SIDE_PX / (2 * REACH_M)
    pixels: Floats = np.stack([points[:, 0] + REACH_M, REACH_M - points[:, 1]], 1) * scale
    return pixels


def _pixel(place: Floats) -> tuple[int, int]:
    """Return a pixel for OpenCV, which takes no numbers beyond 16 bits or so."""
    column, row = np.clip(np.rint(place), -10_000, 10_000)
    return int(column), int(row)
