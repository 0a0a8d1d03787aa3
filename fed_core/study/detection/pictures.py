"""Images that a report shows: boxes seen from above and in the cameras, true ones and those of each run."""

from pathlib import Path

import cv2
import numpy as np

from fed_core.pictures.boxes import MIN_SCORE, Colour, corners_of, draw_above, edges_in, pixel
from fed_core.pictures.colours import Picture
from fed_core.study.png import write_png
from fed_core.types import Boxes3D, DetectionFrame, ScanFrame

TRUE: Colour = (60, 200, 90)
PREDICTED: Colour = (255, 140, 0)
#: Height about which small pictures of cameras are brought to.
ENLARGED_PX = 192


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
    shown = draw_above(frame.points, [(true, TRUE), (claimed, PREDICTED)])
    _write(folder / f"{client}_bev.png", shown)
    _write(folder / f"{client}_cameras.png", draw_cameras(frame, claimed, PREDICTED))


def save_truth(folder: Path, client: str, frame: DetectionFrame) -> None:
    """Write ``<client>_cameras.png`` with the true boxes that LiDAR points hit, once."""
    path = folder / f"{client}_cameras.png"
    if not path.exists():
        _write(path, draw_cameras(frame, frame.boxes.take(frame.boxes.num_points > 0), TRUE))


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
            cv2.line(canvas, pixel(a * factor), pixel(b * factor), colour, 1, cv2.LINE_AA)
        shown.append(canvas)
    return np.ascontiguousarray(np.concatenate(shown, 1), np.uint8)


def _write(path: Path, rgb: Picture) -> None:
    write_png(path, rgb[..., ::-1])
