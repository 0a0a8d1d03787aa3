"""The picture grid of a demo of task detection: the front camera, and from above what each method found."""

from pathlib import Path
from typing import Any

import numpy as np

from fed_cli.fleetrun.pictures import new_grid, save_grid
from fed_core.study.detection.pictures import corners_of, edges_in
from fed_core.types import DETECTION_CLASSES, Array

#: Half a side of the view from above [m].
_SIDE_M = 35.0
#: Boxes with a lower score are left out of the pictures.
_MIN_SCORE = 0.2
#: Columns of kept boxes: centre, size, yaw, label, score.
_YAW, _LABEL, _SCORE = 6, 7, 8
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
        _draw_picture(line[0], files[-1])
        for axis, file in zip(line[1:], [*files, files[0]], strict=True):
            boxes = file["said_boxes"] if axis is not line[-1] else file["true_boxes"]
            _draw_from_above(axis, file["points"], boxes)
    figure.legend(handles=_legend(), loc="outside lower center", ncol=len(DETECTION_CLASSES), fontsize=7)
    return save_grid(figure, folder)


def _draw_picture(axis: Any, file: dict[str, Array]) -> None:
    height, width = file["image"].shape[:2]
    axis.set_xlim(-0.5, width - 0.5)
    axis.set_ylim(height - 0.5, -0.5)
    for key, colour in (("true_boxes", "white"), ("said_boxes", "")):
        boxes = _clear(file[key])
        for box, corners in zip(boxes, _corners(boxes), strict=True):
            for edge in edges_in(corners[None], file["to_pixel"]):
                axis.plot(*np.transpose(edge), color=colour or _colour(box), linewidth=0.6)


def _draw_from_above(axis: Any, points: Array, boxes: Array) -> None:
    axis.set_facecolor("black")
    axis.set_xlim(-_SIDE_M, _SIDE_M)
    axis.set_ylim(-_SIDE_M, _SIDE_M)
    axis.set_aspect("equal")
    axis.plot(points[:, 0], points[:, 1], ",", color="#808080", alpha=0.6)
    axis.plot(0, 0, marker="^", markersize=4, color="white")
    clear = _clear(boxes)
    for box, corners in zip(clear, _corners(clear), strict=True):
        axis.plot(*corners[_ABOVE, :2].T, color=_colour(box), linewidth=0.8)


def _corners(boxes: Array) -> Array:
    return corners_of(boxes[:, :3], boxes[:, 3:_YAW], boxes[:, _YAW])


def _clear(boxes: Array) -> Array:
    return boxes[boxes[:, _SCORE] >= _MIN_SCORE]


def _colour(box: Array) -> Any:
    from matplotlib import colormaps

    return colormaps["tab10"](int(box[_LABEL]))


def _legend() -> list[Any]:
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=colormaps["tab10"](k), label=name) for k, name in enumerate(DETECTION_CLASSES)]


def _rows(folder: Path, name: str, methods: list[str]) -> list[tuple[str, list[dict[str, Array]]]]:
    files = [np.load(folder / "scores" / method / f"{name}.npz") for method in methods]
    count = len([key for key in files[0].files if key.startswith("points_")])
    return [(name, [_frame(file, number) for file in files]) for number in range(count)]


def _frame(file: Any, number: int) -> dict[str, Array]:
    keys = [key for key in file.files if key.endswith(f"_{number}")]
    found = {key.removesuffix(f"_{number}"): file[key] for key in keys}
    return {"image": np.zeros((1, 1, 3), np.uint8), "to_pixel": np.zeros((3, 4)), **found}
