"""The picture grid of a demo of task bev: the cameras, the map served by each method, the true map."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fed_cli.fleetrun.pictures import PREDICTIONS, add_bar, new_grid, save_figure
from fed_core.pictures.colours import MAP_COLOURS, UNKNOWN
from fed_core.types import Array

#: Row and column of cameras in a mosaic, in the order of their numbers.
_AROUND: Mapping[str, tuple[int, float]] = {"front": (0, 0.5), "right": (1, 1.0), "left": (1, 0.0), "back": (2, 0.5)}


def draw_maps(folder: Path, summary: dict[str, Any], methods: list[str]) -> Path:
    """Draw one row per kept frame of each unseen sequence into ``predictions.png``; returns its path.

    Forward is up; cells that no camera sees are grey. True vehicles are outlined in the predicted maps.
    """
    rows = [row for sequence in summary["sequences"] for row in _rows(folder, sequence["name"], methods)]
    figure, axes = new_grid(
        ["cameras", *methods, "truth"], [(name, cameras) for name, cameras, _ in rows], row_height=2.3
    )
    for line, (_, _, maps) in zip(axes, rows, strict=True):
        for axis, cells in zip(line[1:], maps, strict=True):
            image = draw_map(axis, Patch(cells), None if cells is maps[-1] else Patch(maps[-1]))
        add_bar(figure, image, line[-1], "vehicle")
    return save_figure(figure, folder / PREDICTIONS)


@dataclass(frozen=True)
class Patch:
    """A map around a vehicle.

    Attributes:
        cells: (S, S), forward up.
        extent: left, right, bottom and top edge in metres from the vehicle, which is at 0, 0.
    """

    cells: Array
    extent: tuple[float, float, float, float] = (-1.0, 1.0, -1.0, 1.0)


def draw_map(axis: Any, shown: Patch, true: Patch | None = None) -> Any:
    """Draw a map of probabilities, NaN = unknown, and outline true vehicles, whose map may have other cells."""
    from matplotlib import colormaps

    colours = colormaps[MAP_COLOURS].with_extremes(bad=UNKNOWN)
    image = axis.imshow(shown.cells, cmap=colours, vmin=0.0, vmax=1.0, interpolation="nearest", extent=shown.extent)
    axis.plot(0, 0, marker="^", markersize=5, color="white", markeredgecolor="black")
    if true is not None and (true.cells > 0).any():
        outlined = {"levels": [0.5], "colors": "cyan", "linewidths": 0.7, "origin": "upper"}
        axis.contour((true.cells > 0).astype(np.float32), extent=true.extent, **outlined)
    return image


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
    names = enumerate(_AROUND)
    return mosaic({name: file[key] for camera, name in names if (key := f"camera{camera}_{number}") in file.files})


def mosaic(views: Mapping[str, Array]) -> Array:
    """Return the cameras around a vehicle, (H, W, 3) uint8: front on top, left and right in the middle, back below.

    Cameras of other names follow each other, two in a row.

    Args:
        views: one picture (H, W, 3) uint8 at least, by camera.
    """
    height, width = next(iter(views.values())).shape[:2]
    places = _AROUND if set(views) <= set(_AROUND) else {n: (k // 2, float(k % 2)) for k, n in enumerate(views)}
    lines = 1 + max(row for row, _ in places.values())
    canvas = np.full((lines * height, 2 * width, 3), 255, np.uint8)
    for name, view in views.items():
        row, column = places[name]
        top, left, part = row * height, int(column * width), view[:height, :width]
        canvas[top : top + part.shape[0], left : left + part.shape[1]] = part
    return canvas
