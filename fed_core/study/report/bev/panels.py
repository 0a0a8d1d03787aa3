"""Pictures of maps: a client's cameras, the true vehicles around it, and what each method claims."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fed_core.study.report.bev.figures import clients_of, headline
from fed_core.study.report.bev.methods import federated, name_of, references
from fed_core.study.report.document import Picture
from fed_core.study.report.png import encode, new_figure
from fed_core.study.report.results import Cell, Study, folder_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Left, right, back and front edge of a map (feddwa spec 4.2), whatever its number of cells.
_EXTENT_M = (-50.0, 50.0, -50.0, 50.0)
_UNKNOWN, _VEHICLE = 128, 255
#: A probability above this is a claim.
_HALF = 127
_FINE = 6
_COLUMNS = 4
_TILE_IN = 2.5
_CAMERAS = {0: "front", 1: "right", 2: "left", 3: "back"}
_GREY, _ORANGE = "#c4c4c4", "#E69F00"

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class _Frame:
    """What there is of one client's frame.

    Attributes:
        client: its name.
        model: network.
        seed: of the runs.
        cameras: images by number.
        truth: (S, S) uint8, 255 vehicle, 128 where no camera looks.
        maps: probability of a vehicle by run, (S, S) uint8.
    """

    client: str
    model: str
    seed: int
    cameras: Sequence[tuple[int, Pixels]]
    truth: Pixels
    maps: Sequence[tuple[Cell, Pixels]]


def draw_panels(study: Study) -> list[Picture]:
    """Draw the middle test frame of every client, for each model that has predictions."""
    frames = (_read_frame(study, model, client) for model in study.models for client in clients_of(study))
    return [_picture(frame) for frame in frames if frame is not None]


def _read_frame(study: Study, model: str, client: str) -> _Frame | None:
    labels = [*references(study, model), *federated(study, model)]
    runs = [run for label in labels if (run := study.first(model, label)) and (run.folder / "panels").is_dir()]
    seed = min((run.seed for run in runs), default=0)
    folder = study.folder / "panels" / f"seed{seed}"
    truth = _read(folder / f"{client}_mask.png", 2)
    claims = [(run, _read(run.folder / "panels" / f"{client}.png", 2)) for run in runs if run.seed == seed]
    maps = [(run, probability) for run, probability in claims if probability is not None]
    return _Frame(client, model, seed, _cameras(folder, client), truth, maps) if truth is not None and maps else None


def _picture(frame: _Frame) -> Picture:
    names = ", ".join(name_of(run.label) for run, _ in frame.maps)
    return Picture(
        f"{folder_name(frame.model)}_maps_{folder_name(frame.client)}",
        encode(_draw(frame)),
        f"{frame.client}: camera images, true vehicles around it, and the probability of vehicles by {names}",
        f"{frame.client}, middle test frame, {frame.model}, seed {frame.seed}; round chosen on validation frames. "
        "Metres to the right and ahead of the vehicle, which stands at the triangle. Grey: no camera looks there, so "
        "it does not count. Orange: outline of the true vehicles; black: of what is claimed, none where that is "
        "everything or nothing. Behind the names: IoU [%] on all test frames.",
    )


def _draw(frame: _Frame) -> "Figure":
    first = 1 if frame.cameras else 0
    heights = [image.shape[0] / image.shape[1] for _, image in frame.cameras[:1]]
    heights += [1.0] * -(-(1 + len(frame.maps)) // _COLUMNS)
    figure = new_figure(_TILE_IN * _COLUMNS + 0.6, _TILE_IN * sum(heights) + 0.5)
    grid = figure.subplots(len(heights), _COLUMNS, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes in grid.ravel():
        axes.set_axis_off()
    for axes, (number, image) in zip(grid[0] if first else (), frame.cameras, strict=False):
        axes.imshow(image)
        axes.set_title(f"camera {number} ({_CAMERAS.get(number, '?')})", fontsize=9)
    tiles = list(grid[first:].ravel())
    vehicles = np.where(frame.truth == _VEHICLE, 255, 0).astype(np.uint8)
    shown = _show(tiles[0], vehicles, frame.truth, "true vehicles")
    for axes in grid[first:, 0]:
        axes.set_ylabel("ahead [m]", fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("right [m]", fontsize=8)
    for axes, (run, probability) in zip(tiles[1:], frame.maps, strict=False):
        _show(axes, probability, frame.truth, _title(run, frame.client))
        _draw_outline(axes, (probability > _HALF) & _known(frame.truth, probability.shape), "black", 0.6)
        _draw_outline(axes, frame.truth == _VEHICLE, _ORANGE, 0.9)
    bar = figure.colorbar(shown, ax=grid[first:], fraction=0.025, pad=0.01)
    bar.set_label("probability of a vehicle", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    figure.suptitle(f"{frame.client} ({frame.model}, seed {frame.seed})", fontsize=10)
    return figure


def _show(axes: "Axes", values: Pixels, truth: Pixels, title: str) -> Any:
    """Show a map (S, S), row 0 ahead and column 0 at the left, with metres and the vehicle at its centre."""
    from matplotlib import colormaps

    colours = colormaps["Blues"].with_extremes(bad=_GREY)
    axes.set_axis_on()
    axes.set_title(title, fontsize=9)
    shown = np.where(_known(truth, values.shape), values / 255.0, np.nan)
    image = axes.imshow(shown, cmap=colours, vmin=0.0, vmax=1.0, extent=_EXTENT_M, interpolation="nearest")
    axes.plot(0.0, 0.0, marker="^", color="black", markersize=4)
    axes.set_xticks([_EXTENT_M[0], 0.0, _EXTENT_M[1]])
    axes.set_yticks([_EXTENT_M[2], 0.0, _EXTENT_M[3]])
    axes.tick_params(labelsize=7, length=2)
    return image


def _draw_outline(axes: "Axes", inside: npt.NDArray[np.bool_], colour: str, width: float) -> None:
    """Draw the border of an area along its cells; nothing where it is everywhere or nowhere."""
    if inside.any() and not inside.all():
        # Fine cells keep the corners square, which a contour would cut.
        fine = np.kron(inside, np.ones((_FINE, _FINE)))
        axes.contour(fine, levels=[0.5], colors=colour, linewidths=width, extent=_EXTENT_M, origin="upper")


def _known(truth: Pixels, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return where a camera looks, on a map with another number of cells: that of the nearest one."""
    rows, columns = ((np.arange(n) * size) // n for n, size in zip(shape, truth.shape, strict=True))
    known: npt.NDArray[np.bool_] = truth[np.ix_(rows, columns)] != _UNKNOWN
    return known


def _title(run: Cell, client: str) -> str:
    value = headline(client)(run)
    return name_of(run.label) if value is None else f"{name_of(run.label)}  {value:.1f}"


def _cameras(folder: Path, client: str) -> list[tuple[int, Pixels]]:
    """Return the images of the client's cameras, by number, as many as a line has room for."""
    found = []
    for path in folder.glob(f"{client}_camera*.png"):
        match, image = re.fullmatch(rf"{re.escape(client)}_camera(\d+)", path.stem), _read(path, 3)
        if match and image is not None:
            found.append((int(match[1]), image))
    return sorted(found, key=lambda pair: pair[0])[:_COLUMNS]


def _read(path: Path, dims: int) -> Pixels | None:
    """Return an 8-bit picture with that many dimensions, or None."""
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image)
    except (OSError, ValueError):
        return None
    return pixels if pixels.ndim == dims and pixels.dtype == np.uint8 else None
