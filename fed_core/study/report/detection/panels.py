"""Pictures of boxes: a domain's cameras, and the view from above with the true boxes and those of each method."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image

from fed_core.pictures.boxes import MIN_SCORE, REACH_M
from fed_core.study.report.detection.figures import clients_of, letter_of, own
from fed_core.study.report.detection.methods import headline, main, name_of
from fed_core.study.report.document import Picture
from fed_core.study.report.png import encode, new_figure
from fed_core.study.report.results import Cell, Study, folder_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 5
_TILE_IN = 2.2
#: How far the views from above reach; farther out is mostly nothing [m].
_SHOWN_M = 35.0
#: Most height of a row of camera pictures.
_STRIP_IN = 1.4

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class _Frame:
    """What there is of one client's frame.

    Attributes:
        client: its name.
        model: network.
        seed: of the runs.
        cameras: pictures with boxes by what they show.
        above: view from above by run, (S, S, 3) uint8.
    """

    client: str
    model: str
    seed: int
    cameras: Sequence[tuple[str, Pixels]]
    above: Sequence[tuple[Cell, Pixels]]


def draw_panels(study: Study) -> list[Picture]:
    """Draw the middle test frame of every domain, for each model that has pictures."""
    frames = (_read_frame(study, model, client) for model in study.models for client in clients_of(study))
    return [_picture(frame) for frame in frames if frame is not None]


def _read_frame(study: Study, model: str, client: str) -> _Frame | None:
    runs = [run for label in main(study, model) if (run := study.first(model, label))]
    runs = [run for run in runs if (run.folder / "panels").is_dir()]
    seed = min((run.seed for run in runs), default=0)
    runs = [run for run in runs if run.seed == seed]
    above = [(run, image) for run in runs if (image := _read(run.folder / "panels" / f"{client}_bev.png")) is not None]
    chosen = headline(study, model)
    wanted = [("true boxes that LiDAR points hit", study.folder / "panels" / f"seed{seed}")]
    wanted += [(name_of(run.label), run.folder / "panels") for run in runs if run.label == chosen]
    cameras = [(what, image) for what, at in wanted if (image := _read(at / f"{client}_cameras.png")) is not None]
    return _Frame(client, model, seed, cameras, above) if above else None


def _picture(frame: _Frame) -> Picture:
    names = ", ".join(name_of(run.label) for run, _ in frame.above)
    reach_m = min(_SHOWN_M, REACH_M)
    return Picture(
        f"{folder_name(frame.model)}_boxes_{folder_name(frame.client)}",
        encode(_draw(frame)),
        f"{frame.client}: camera pictures and views from above with true boxes and those of {names}",
        f"{letter_of(frame.client)}, {frame.client}: middle test frame, {frame.model}, seed {frame.seed}. From above: "
        f"{reach_m:g} m to each side, ahead is up, the vehicle in the middle; grey: LiDAR; green: true boxes; orange: "
        f"claimed ones with a score of {MIN_SCORE:g} or more, with a line towards their front. Behind the names: NDS "
        "of the client's model on all test scenes of its domain.",
    )


def _draw(frame: _Frame) -> "Figure":
    lines = -(-len(frame.above) // _COLUMNS)
    columns = min(_COLUMNS, len(frame.above))
    width = max(_TILE_IN * columns, 2 * _TILE_IN)
    strips = [min(_STRIP_IN, width * image.shape[0] / image.shape[1]) + 0.25 for _, image in frame.cameras]
    figure = new_figure(width, sum(strips) + (_TILE_IN + 0.25) * lines + 0.4)
    layout = figure.add_gridspec(len(strips) + lines, columns, height_ratios=[*strips, *[_TILE_IN + 0.25] * lines])
    for row, (what, image) in enumerate(frame.cameras):
        axes = figure.add_subplot(layout[row, :])
        axes.imshow(image)
        axes.set_axis_off()
        axes.set_title(f"cameras, {what}", fontsize=8)
    for place, (run, image) in enumerate(frame.above):
        axes = figure.add_subplot(layout[len(strips) + place // columns, place % columns])
        axes.imshow(_middle(image))
        axes.set_axis_off()
        axes.set_title(_title(run, frame.client), fontsize=8)
    figure.suptitle(f"{letter_of(frame.client)}: {frame.client} ({frame.model}, seed {frame.seed})", fontsize=10)
    return figure


def _middle(image: Pixels) -> Pixels:
    """Return the part of a view from above that is shown."""
    cut = round(image.shape[0] * max(0.0, 1.0 - _SHOWN_M / REACH_M) / 2)
    return image[cut : image.shape[0] - cut, cut : image.shape[1] - cut]


def _title(run: Cell, client: str) -> str:
    value = own("nds", client)(run)
    return name_of(run.label) if value is None else f"{name_of(run.label)}  {value:.3f}"


def _read(path: Path) -> Pixels | None:
    """Return an 8-bit RGB picture (H, W, 3), or None."""
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError):
        return None
