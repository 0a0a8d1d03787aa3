"""The picture grid of a demo: image, depth served by each method, true depth."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.pictures.colours import DEPTH_COLOURS, depth_range
from fed_core.types import Array

#: File of a demo's grid.
PREDICTIONS = "predictions.png"
#: Depths that a scale may be marked with.
_METRES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)


def draw_grid(folder: Path, summary: dict[str, Any], methods: list[str]) -> Path:
    """Draw one row per kept frame of each unseen sequence into ``predictions.png``; returns its path."""
    rows = [row for sequence in summary["sequences"] for row in _rows(folder, sequence["name"], methods)]
    figure, axes = new_grid(["image", *methods, "truth"], [(name, rgb) for name, rgb, _ in rows], row_height=2.05)
    from matplotlib.colors import LogNorm

    for line, (_, _, depths) in zip(axes, rows, strict=True):
        near, far = depth_range(depths[-1])
        for axis, depth in zip(line[1:], depths, strict=True):
            image = axis.imshow(depth, cmap=DEPTH_COLOURS, norm=LogNorm(near, far))
        add_metres(figure, image, line[-1])
    return save_figure(figure, folder / PREDICTIONS)


def new_grid(columns: Sequence[str], rows: Sequence[tuple[str, Array]], row_height: float) -> tuple[Any, Any]:
    """Return a figure and its axes (rows, columns); a name and a picture for the first column begin each row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = (2.6 * len(columns), row_height * len(rows))
    figure, axes = pyplot.subplots(len(rows), len(columns), figsize=size, squeeze=False, layout="constrained")
    for axis, title in zip(axes[0], columns, strict=True):
        axis.set_title(title, fontsize=9)
    for line, (name, picture) in zip(axes, rows, strict=True):
        for axis in line:
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].imshow(picture)
        line[0].set_ylabel(name, fontsize=8)
    return figure, axes


def add_bar(figure: Any, image: Any, axis: Any, label: str) -> None:
    """Put the scale of the colours beside the last picture of a row."""
    bar = figure.colorbar(image, ax=axis, fraction=0.05)
    bar.set_label(label, fontsize=7)
    bar.ax.tick_params(labelsize=6)


def add_metres(figure: Any, image: Any, axis: Any) -> None:
    """Put the metres of a depth picture's colours beside it, as plain numbers."""
    add_bar(figure, image, axis, "m")
    near, far = image.norm.vmin, image.norm.vmax
    shown = [mark for mark in _METRES if near <= mark <= far]
    bar = image.colorbar
    bar.minorticks_off()
    bar.set_ticks(shown or [near, far], labels=[f"{mark:g}" for mark in shown or [round(near, 2), round(far, 2)]])


def save_figure(figure: Any, path: Path) -> Path:
    """Write a picture and return its path."""
    from matplotlib import pyplot

    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def _rows(folder: Path, name: str, methods: list[str]) -> list[tuple[str, Array, list[Array]]]:
    files = [np.load(folder / "scores" / method / f"{name}.npz") for method in methods]
    count = len([key for key in files[0].files if key.startswith("rgb_")])
    rows = []
    for number in range(count):
        depths = [file[f"predicted_{number}"] for file in files]
        rows.append((name, files[0][f"rgb_{number}"], [*depths, files[0][f"truth_{number}"]]))
    return rows
