"""Pictures of masks and scores: layers by rounds of every client, and CKA against the depth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fed_core.study.report.detection import layers
from fed_core.study.report.detection.figures import branch, clients_of, letter_of
from fed_core.study.report.detection.layers import Floats, History
from fed_core.study.report.detection.methods import headline, name_of
from fed_core.study.report.document import Picture
from fed_core.study.report.png import encode, new_figure
from fed_core.study.report.results import Cell, Study, folder_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
_UNKNOWN = "#d9d9d9"
#: More layers than this are not named one by one.
_MAX_NAMED = 130


def draw_masks(study: Study, model: str) -> Picture | None:
    """Draw layers (network order) by rounds of every client, coloured by CKA, with a dot where personal; first seed."""
    label = headline(study, model)
    cell = None if label is None else study.first(model, label)
    clients = [client for client in clients_of(study) if cell and _told(cell, client)]
    if cell is None or not clients:
        return None
    histories = [layers.history(cell, client) for client in clients]
    names = layers.layer_names(cell)
    rows = len(names)
    figure = new_figure(4.4 + 1.55 * len(clients), 1.6 + 0.105 * rows)
    grid = figure.subplots(1, len(clients), squeeze=False, sharey=True)[0]
    low = _floor(histories)
    for axes, client, found in zip(grid, clients, histories, strict=True):
        mesh = _draw_history(axes, found, low)
        axes.set_title(f"{letter_of(client)}", fontsize=10)
        for _, first, _ in layers.parts_of(names)[1:]:
            axes.axhline(first - 0.5, color="black", linewidth=0.8)
    if rows <= _MAX_NAMED:
        grid[0].set_yticks(range(rows), [_short(name) for name in names], fontsize=5.5)
    for axes in grid:
        axes.tick_params(axis="y", length=0)
    figure.colorbar(mesh, ax=grid, fraction=0.02, pad=0.01, aspect=60, label="CKA with the global model")
    figure.suptitle(f"{model}, {name_of(cell.label)}, seed {cell.seed}: layers that stay personal (●)", fontsize=11)
    return Picture(
        f"{folder_name(model)}_masks",
        encode(figure, dpi=110),
        f"{model}: CKA and mask of {rows} layers over the rounds of each of {', '.join(map(letter_of, clients))}",
        f"Headline setting {name_of(cell.label)}, seed {cell.seed}. Rows: layers in network order, lines between the "
        "network's parts; columns: rounds. Colour: CKA of the trained with the global layer; grey: not compared. Dot: "
        "the layer stays on the robot.",
    )


def draw_depth(study: Study, model: str) -> Picture | None:
    """Draw CKA against the depth, a line for each client, with what chance gives; last compared round."""
    label = headline(study, model)
    runs = [cell for cell in study.of(model, label) if layers.layer_names(cell)] if label is not None else []
    if label is None or not runs:
        return None
    names = layers.layer_names(runs[0])
    runs = [cell for cell in runs if layers.layer_names(cell) == names]
    lines = {client: _mean([_scores(cell, names, client) for cell in runs]) for client in clients_of(study)}
    lines = {client: values for client, values in lines.items() if np.isfinite(values).any()}
    if not lines:
        return None
    figure = new_figure(11.5, 4.4)
    axes = figure.subplots()
    places = np.arange(1, len(names) + 1)
    chance = _mean([layers.last_scores(cell, names, lambda row: branch(row, "chance")) for cell in runs])
    axes.plot(places, chance, color="#888888", linestyle=":", linewidth=1.2, label="chance")
    for number, (client, values) in enumerate(lines.items()):
        axes.plot(
            places, values, color=_COLOURS[number % len(_COLOURS)], linewidth=1.2, marker=".", label=letter_of(client)
        )
    _mark_parts(axes, names)
    axes.set(xlabel="layer, in network order", ylabel="CKA", xlim=(0.5, len(names) + 0.5), ylim=(0.0, 1.03))
    axes.grid(alpha=0.25, axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return Picture(
        f"{folder_name(model)}_depth",
        encode(figure),
        f"{model}: CKA of every layer with the global model, of {', '.join(map(letter_of, lines))}, and of chance",
        f"{name_of(label)}, last compared round, mean over the seeds. Dotted: what unrelated random features of the "
        "same shape score; a layer near it has few samples for its width, and its score tells nothing.",
    )


def _floor(histories: Sequence[History]) -> float:
    """Return the largest tenth below all scores, 0.9 at most."""
    known = [float(np.nanmin(h.scores)) for h in histories if np.isfinite(h.scores).any()]
    return max(0.0, min(0.9, np.floor(10 * min(known)) / 10)) if known else 0.0


def _draw_history(axes: "Axes", found: History, low: float) -> Any:
    from matplotlib import colormaps

    turns = len(found.rounds)
    extent = (0.5, turns + 0.5, found.scores.shape[0] - 0.5, -0.5)
    colours = colormaps["YlGnBu_r"].with_extremes(bad=_UNKNOWN)
    mesh = axes.imshow(
        found.scores, cmap=colours, vmin=low, vmax=1.0, aspect="auto", interpolation="nearest", extent=extent
    )
    rows, columns = np.nonzero(found.personal)
    axes.scatter(columns + 1, rows, s=10, color="#D55E00", edgecolors="white", linewidths=0.3)
    step = max(1, turns // 6)
    axes.set_xticks(range(step, turns + 1, step), [str(turn) for turn in found.rounds[step - 1 :: step]], fontsize=7)
    axes.set_xlabel("round", fontsize=8)
    return mesh


def _mark_parts(axes: "Axes", names: Sequence[str]) -> None:
    """Part the axis by the network's parts, with their names above."""
    for part, first, end in layers.parts_of(names):
        axes.axvline(first + 0.5, color="#aaaaaa", linewidth=0.7)
        axes.text((first + end) / 2 + 0.5, 1.04, part.split(".")[-1], fontsize=7, rotation=50, ha="left", va="bottom")


def _short(name: str) -> str:
    """Return a path without its first word where that is a head's, whose paths are long."""
    return f"…{name.split('.', 1)[1]}" if "." in layers.part_of(name) else name


def _told(cell: Cell, client: str) -> bool:
    return any(branch(row, "cka", client) or branch(row, "masks").get(client) for row in cell.rounds)


def _scores(cell: Cell, names: Sequence[str], client: str) -> Floats:
    return layers.last_scores(cell, names, lambda row: branch(row, "cka", client))


def _mean(found: Sequence[Floats]) -> Floats:
    """Return the mean of the seeds that have a score, NaN where none has."""
    stacked = np.stack(found)
    there = np.isfinite(stacked)
    total = np.where(there, stacked, 0.0).sum(axis=0)
    return np.where(there.any(axis=0), total / np.maximum(there.sum(axis=0), 1), np.nan)
