"""The picture grid of a demo of task bev: the cameras, the map served by each method, the true map."""

from pathlib import Path
from typing import Any

import numpy as np

from fed_cli.fleetrun.pictures import add_bar, new_grid, save_grid
from fed_core.types import Array

#: Unknown cells.
_GREY = "#9a9a9a"


def draw_maps(folder: Path, summary: dict[str, Any], methods: list[str]) -> Path:
    """Draw one row per kept frame of each unseen sequence into ``predictions.png``; returns its path.

    Forward is up; cells that no camera sees are grey. True vehicles are outlined in the predicted maps.
    """
    rows = [row for sequence in summary["sequences"] for row in _rows(folder, sequence["name"], methods)]
    figure, axes = new_grid(
        ["cameras", *methods, "truth"], [(name, cameras) for name, cameras, _ in rows], row_height=2.3
    )
    from matplotlib import colormaps

    colours = colormaps["magma"].with_extremes(bad=_GREY)
    for line, (_, _, maps) in zip(axes, rows, strict=True):
        for axis, cells in zip(line[1:], maps, strict=True):
            image = axis.imshow(cells, cmap=colours, vmin=0.0, vmax=1.0, interpolation="nearest")
            middle = (len(cells) - 1) / 2
            axis.plot(middle, middle, marker="^", markersize=5, color="white", markeredgecolor="black")
            if cells is not maps[-1] and (maps[-1] > 0).any():
                axis.contour(maps[-1] > 0, levels=[0.5], colors="cyan", linewidths=0.7)
        add_bar(figure, image, line[-1], "vehicle")
    return save_grid(figure, folder)


def _rows(folder: Path, name: str, methods: list[str]) -> list[tuple[str, Array, list[Array]]]:
    files = [np.load(folder / "scores" / method / f"{name}.npz") for method in methods]
    first = files[0]
    count = len([key for key in first.files if key.startswith("truth_")])
    rows = []
    for number in range(count):
        known = first[f"known_{number}"]
        truth = np.where(known, first[f"truth_{number}"].astype(np.float32), np.nan)
        maps = [np.where(known, file[f"predicted_{number}"], np.nan) for file in files]
        rows.append((name, _mosaic(first, number), [*maps, truth]))
    return rows


def _mosaic(file: Any, number: int) -> Array:
    """Return the cameras around the vehicle: front on top, left and right in the middle, back at the bottom."""
    views = {camera: file[key] for camera in range(4) if (key := f"camera{camera}_{number}") in file.files}
    height, width = next(iter(views.values())).shape[:2]
    canvas = np.full((3 * height, 2 * width, 3), 255, np.uint8)
    for camera, (row, column) in {0: (0, 0.5), 1: (1, 1), 2: (1, 0), 3: (2, 0.5)}.items():
        if camera in views:
            view = views[camera][:height, :width]
            top, left = row * height, int(column * width)
            canvas[top : top + view.shape[0], left : left + view.shape[1]] = view
    return canvas
