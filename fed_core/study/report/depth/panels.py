"""Pictures of depth: an unseen sequence's image, its true depth, and what each strategy predicts."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fed_core.study.report.document import Picture
from fed_core.study.report.png import encode, new_figure
from fed_core.study.report.results import Cell, Study, folder_name, is_ablation, read_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

MAX_SEQUENCES = 6
_COLUMNS = 4
_METRES = 1.0 / 256.0
_LOG_FROM = 6.0

Depth = npt.NDArray[np.float32]


def draw_panels(study: Study) -> list[Picture]:
    """Draw up to six test sequences, spread over the environments, for the first model that has predictions."""
    for model in study.models:
        runs = [study.first(model, label) for label in study.finished(model) if not is_ablation(label)]
        cells = [cell for cell in runs if cell and (cell.folder / "panels").is_dir()]
        if cells:
            drawn = (_draw(study, model, sequence, cells) for sequence in _names(study))
            return list(islice((picture for picture in drawn if picture is not None), MAX_SEQUENCES))
    return []


def _names(study: Study) -> list[str]:
    """Return the test sequences; the first of every environment come first."""
    tests = study.plan.get("tests") or []
    seen: dict[str, int] = {}
    ranked = []
    for index, test in enumerate(tests):
        environment = str(test.get("environment"))
        seen[environment] = seen.get(environment, 0) + 1
        ranked.append((seen[environment], index, str(test.get("name"))))
    return [name for _, _, name in sorted(ranked)]


def _draw(study: Study, model: str, name: str, cells: list[Cell]) -> Picture | None:
    seed = cells[0].seed
    folder = study.folder / "panels" / f"seed{seed}"
    truth, rgb = _read_depth(folder / f"{name}_depth.png"), _read(folder / f"{name}_rgb.png")
    known = [(cell, _read_depth(cell.folder / "panels" / f"{name}.png")) for cell in cells if cell.seed == seed]
    served = [(cell, depth) for cell, depth in known if depth is not None]
    if truth is None or rgb is None or not served or not np.isfinite(truth).any():
        return None
    lines = -(-(2 + len(served)) // _COLUMNS)
    height = 2.5 * truth.shape[0] / truth.shape[1] + 0.32
    figure = new_figure(2.5 * _COLUMNS + 0.9, height * lines + 0.35)
    grid = figure.subplots(lines, _COLUMNS, squeeze=False)
    tiles = list(grid.ravel())
    for axes in tiles:
        axes.set_axis_off()
        axes.set(xticks=[], yticks=[])
    tiles[0].imshow(rgb)
    tiles[0].set_title("image", fontsize=9)
    norm = _norm(truth)
    image = _show(tiles[1], truth, norm, "true depth")
    for axes, (cell, depth) in zip(tiles[2:], served, strict=False):
        _show(axes, depth, norm, _title(cell, name))
    _draw_bar(figure.colorbar(image, ax=grid, fraction=0.03, pad=0.01, extend="both"), norm)
    figure.suptitle(f"{name} ({model}, seed {seed})", fontsize=10)
    strategies = ", ".join(cell.label for cell, _ in served)
    return Picture(
        f"{folder_name(model)}_depth_{folder_name(name)}",
        encode(figure),
        f"{name}: image, true depth, and depth predicted by {strategies}",
        f"{name}, middle scored frame, {model}, seed {seed}. One colour scale for all, in metres; grey: no true depth. "
        "Behind the names: AbsRel of the whole sequence.",
    )


def _show(axes: "Axes", depth: Depth, norm: "Normalize", title: str) -> Any:
    from matplotlib import colormaps

    axes.set_title(title, fontsize=9)
    colours = colormaps["viridis_r"].with_extremes(bad="#bbbbbb")
    return axes.imshow(depth, cmap=colours, norm=norm, interpolation="nearest")


def _norm(truth: Depth) -> "Normalize":
    """Return a scale over the true depths; logarithmic where near and far differ much."""
    from matplotlib.colors import LogNorm, Normalize

    near, far = (float(v) for v in np.percentile(truth[np.isfinite(truth)], [1, 99]))
    near, far = max(near, 0.05), max(far, near * 1.05, 0.06)
    return LogNorm(near, far) if far / near > _LOG_FROM else Normalize(near, far)


def _draw_bar(bar: Any, norm: "Normalize") -> None:
    """Write plain metres beside the colours: 1, 2, 5, 10 ... where the scale is logarithmic."""
    from matplotlib.colors import LogNorm

    if isinstance(norm, LogNorm):
        steps = [m * 10.0**e for e in range(-2, 3) for m in (1.0, 2.0, 5.0)]
        ticks = [step for step in steps if float(norm.vmin or 0) <= step <= float(norm.vmax or 0)]
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    bar.set_label("depth [m]", fontsize=8)
    bar.ax.tick_params(labelsize=8)


def _title(cell: Cell, name: str) -> str:
    for sequence in cell.sequences:
        value = read_metric(sequence.get("metrics"), "abs_rel")
        if sequence.get("name") == name and value is not None:
            return f"{cell.label}  {value:.3f}"
    return cell.label


def _read(path: Path) -> npt.NDArray[Any] | None:
    try:
        with Image.open(path) as image:
            return np.asarray(image)
    except (OSError, ValueError):
        return None


def _read_depth(path: Path) -> Depth | None:
    """Return (H, W) float32 metres of a 16-bit PNG in 1/256 m; NaN where it is 0, unknown."""
    pixels = _read(path)
    if pixels is None or pixels.ndim != 2:
        return None
    depth = pixels.astype(np.float32) * np.float32(_METRES)
    return np.where(pixels > 0, depth, np.float32(np.nan)).astype(np.float32)
