"""The picture grid of a demo of task detection: the front camera, and from above what each method found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fed_cli.fleetrun.pictures import PREDICTIONS, new_grid, save_figure
from fed_core.pictures.boxes import MIN_SCORE, corners_of, edges_in
from fed_core.pictures.colours import CLASS_COLOURS
from fed_core.types import DETECTION_CLASSES, Array

#: Half a side of the view from above [m].
_SIDE_M = 35.0
#: Columns of kept boxes: centre, size, yaw, label, score.
_YAW, _LABEL, _SCORE = 6, 7, 8
#: Where and how the classes' colours are told: white lines must be seen, too.
LEGEND: dict[str, Any] = {
    "loc": "outside lower center",
    "ncol": 6,
    "fontsize": 7,
    "facecolor": "#303034",
    "labelcolor": "white",
}
#: Corners of the upper face, around.
_ABOVE = [0, 1, 5, 4, 0]


def draw_scans(folder: Path, summary: dict[str, Any], methods: list[str]) -> Path:
    """Draw one row per kept frame of each unseen sequence into ``predictions.png``; returns its path.

    The vehicle looks up. In the picture: true boxes white, those of the last method in the colours of their classes.
    """
    rows = [row for sequence in summary["sequences"] for row in _rows(folder, sequence["name"], methods)]
    figure, axes = new_grid(
        ["front camera", *methods, "truth"], [(name, files[0]["image"]) for name, files in rows], row_height=2.5
    )
    for line, (_, files) in zip(axes, rows, strict=True):
        last = files[-1]
        draw_in_camera(
            line[0], last["image"], last["to_pixel"], Overlay(_clear(last["said_boxes"]), _clear(last["true_boxes"]))
        )
        for axis, file in zip(line[1:], [*files, files[0]], strict=True):
            boxes = file["said_boxes"] if axis is not line[-1] else file["true_boxes"]
            draw_from_above(axis, file["points"], Overlay(_clear(boxes)))
    figure.legend(handles=class_legend(true=True), **LEGEND)
    return save_figure(figure, folder / PREDICTIONS)


@dataclass(frozen=True)
class Overlay:
    """Boxes to draw, rows of centre, size, yaw, label, score.

    Attributes:
        said: predicted ones, (M, 9), in the colours of their classes.
        true: true ones, (N, 9), white; None = nobody knows.
    """

    said: Array
    true: Array | None = None

    def moved(self, matrix: Array) -> "Overlay":
        """Return the boxes in another frame; ``matrix`` (4, 4) turns about the vertical axis only."""
        return Overlay(_moved(self.said, matrix), None if self.true is None else _moved(self.true, matrix))

    def sets(self) -> list[tuple[Array, str]]:
        """Return boxes and their colour; "" = that of the class."""
        return [*([] if self.true is None else [(self.true, "white")]), (self.said, "")]


def draw_in_camera(axis: Any, image: Array, to_pixel: Array, overlay: Overlay) -> None:
    """Draw boxes over a picture.

    Args:
        axis: where the picture is.
        image: the picture (H, W, 3).
        to_pixel: (3, 4) from the boxes' frame to (u d, v d, d).
        overlay: the boxes.
    """
    height, width = image.shape[:2]
    axis.set_xlim(-0.5, width - 0.5)
    axis.set_ylim(height - 0.5, -0.5)
    for boxes, colour in overlay.sets():
        for box, corners in zip(boxes, _corners(boxes), strict=True):
            for edge in edges_in(corners[None], to_pixel):
                axis.plot(*np.transpose(edge), color=colour or _colour(box), linewidth=0.6)


def draw_from_above(axis: Any, points: Array, overlay: Overlay) -> None:
    """Draw points (N, 3) [m] and boxes, y up."""
    axis.set_facecolor("black")
    axis.set_xlim(-_SIDE_M, _SIDE_M)
    axis.set_ylim(-_SIDE_M, _SIDE_M)
    axis.set_aspect("equal")
    axis.plot(points[:, 0], points[:, 1], ",", color="#808080", alpha=0.6)
    axis.plot(0, 0, marker="^", markersize=4, color="white")
    for boxes, colour in overlay.sets():
        for box, corners in zip(boxes, _corners(boxes), strict=True):
            axis.plot(*corners[_ABOVE, :2].T, color=colour or _colour(box), linewidth=0.8)


def _moved(boxes: Array, matrix: Array) -> Array:
    found = boxes.copy()
    found[:, :3] = boxes[:, :3] @ matrix[:3, :3].T + matrix[:3, 3]
    found[:, _YAW] = boxes[:, _YAW] + np.arctan2(matrix[1, 0], matrix[0, 0])
    return found


def _corners(boxes: Array) -> Array:
    return corners_of(boxes[:, :3], boxes[:, 3:_YAW], boxes[:, _YAW])


def _clear(boxes: Array) -> Array:
    return boxes[boxes[:, _SCORE] >= MIN_SCORE]


def _colour(box: Array) -> Any:
    from matplotlib import colormaps

    return colormaps[CLASS_COLOURS](int(box[_LABEL]))


def class_legend(*, true: bool) -> list[Any]:
    """Return what tells the colours of the classes, and of true boxes where there are some."""
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color="white", label="true")] if true else []
    return [
        *handles,
        *(Line2D([], [], color=colormaps[CLASS_COLOURS](k), label=n) for k, n in enumerate(DETECTION_CLASSES)),
    ]


def _rows(folder: Path, name: str, methods: list[str]) -> list[tuple[str, list[dict[str, Array]]]]:
    files = [np.load(folder / "scores" / method / f"{name}.npz") for method in methods]
    count = len([key for key in files[0].files if key.startswith("points_")])
    return [(name, [_frame(file, number) for file in files]) for number in range(count)]


def _frame(file: Any, number: int) -> dict[str, Array]:
    keys = [key for key in file.files if key.endswith(f"_{number}")]
    found = {key.removesuffix(f"_{number}"): file[key] for key in keys}
    return {"image": np.zeros((1, 1, 3), np.uint8), "to_pixel": np.zeros((3, 4)), **found}
