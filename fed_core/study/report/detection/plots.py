"""Pictures of a detection study's figures: cross-domain matrices, and curves over the rounds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fed_core.study.report.detection import figures
from fed_core.study.report.detection.figures import clients_of, letter_of
from fed_core.study.report.detection.layers import Floats
from fed_core.study.report.detection.methods import FEDCKA, headline, main, name_of, settings, shown
from fed_core.study.report.document import Picture
from fed_core.study.report.lines import Line, choose_line, draw_band
from fed_core.study.report.png import encode, new_figure
from fed_core.study.report.results import Cell, Study, folder_name, number, strategy_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours; lines differ in dashes, too.
_LINES = {
    "fedavg": Line("#0072B2", "--"),
    "feddyn": Line("#56B4E9", "--"),
    "pcgrad": Line("#009E73", "--"),
    "fedbn": Line("#CC79A7", "--"),
    "fedrep": Line("#E69F00", "--"),
    "fedselect": Line("#009E73", "-"),
    "fedmc": Line("#CC79A7", "-."),
    "centralised": Line("#000000", "-."),
    "local": Line("#777777", ":"),
}
_HEADLINE = Line("#D55E00", "-")
_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0, "frameon": False}
_COLUMNS = 5


def draw_matrices(study: Study, model: str) -> Picture | None:
    """Draw the cross-domain matrix of NDS of every method of the main table, mean over the seeds."""
    grids = {label: _matrix(study, model, label) for label in main(study, model)}
    grids = {label: grid for label, grid in grids.items() if np.isfinite(grid).any()}
    if not grids:
        return None
    columns = min(_COLUMNS, len(grids))
    lines = -(-len(grids) // columns)
    figure = new_figure(2.25 * columns + 1.0, 2.4 * lines + 0.5)
    tiles = list(figure.subplots(lines, columns, squeeze=False).ravel())
    values = np.concatenate([grid[np.isfinite(grid)] for grid in grids.values()])
    low, high = float(values.min()), max(float(values.max()), float(values.min()) + 1e-3)
    for axes in tiles[len(grids) :]:
        axes.set_axis_off()
    for axes, (label, grid) in zip(tiles, grids.items(), strict=False):
        mesh = axes.imshow(grid, cmap="viridis", vmin=low, vmax=high)
        _write_values(axes, grid, (low + high) / 2)
        letters = [letter_of(client) for client in clients_of(study)]
        axes.set_xticks(range(len(letters)), letters, fontsize=8)
        axes.set_yticks(range(len(letters)), letters, fontsize=8)
        axes.tick_params(length=0)
        axes.set_title(_two_lines(shown(study, model, label)), fontsize=9)
    figure.colorbar(mesh, ax=tiles, fraction=0.02, pad=0.01, label="NDS")
    figure.suptitle(f"{model}: NDS of each client's model (row) on each domain (column)", fontsize=11)
    return Picture(
        f"{folder_name(model)}_matrices",
        encode(figure),
        f"{model}: cross-domain matrix of NDS, clients by domains, of {', '.join(map(name_of, grids))}",
        "Row: the client whose last model it is; column: the domain whose test scenes score it. Mean over the seeds. "
        "The diagonal is the own domain; equal rows: one model for all.",
    )


def draw_curves(study: Study, model: str) -> Picture | None:
    """Draw the mean NDS on held-out scenes and the training loss against the round, a line for each method."""
    labels = [label for label in main(study, model) if any(cell.rounds for cell in study.of(model, label))]
    if not labels:
        return None
    figure = new_figure(11.5, 4.2)
    left, right = figure.subplots(1, 2)
    chosen = headline(study, model)
    for label in sorted(labels, key=lambda label: label == chosen):
        runs, line = study.of(model, label), _line(label, labels, chosen)
        width = 2.4 if label == chosen else 1.5
        draw_band(left, [cell.curve("nds") for cell in runs], line, shown(study, model, label), width=width)
        draw_band(right, [_losses(cell) for cell in runs], line, shown(study, model, label), width=width)
    left.set(title="NDS on held-out scenes, mean over the clients", xlabel="round")
    right.set(title="training loss", xlabel="round")
    _tidy((left, right))
    _legend((left, right), right)
    figure.suptitle(f"{model}: over the rounds")
    return Picture(
        f"{folder_name(model)}_curves",
        encode(figure),
        f"{model}: NDS on held-out scenes and training loss against the round, of {', '.join(map(name_of, labels))}",
        "Line: mean over the seeds; band: ± one sample standard deviation (none with one seed). The held-out training "
        "scenes neither train nor test. The references, not federated, are black and grey.",
    )


def draw_shares(study: Study, model: str) -> Picture | None:
    """Draw the share of entries that stays on the robots against the round: settings of FedCKA, element masks."""
    labels = list(settings(study, model))
    labels += [label for label in main(study, model) if strategy_of(label) != FEDCKA]
    labels = [label for label in labels if any(_shares(cell) for cell in study.of(model, label))]
    if not labels:
        return None
    figure = new_figure(8.5, 3.8)
    axes = figure.subplots()
    chosen = headline(study, model)
    spare = [label for label in labels if strategy_of(label) == FEDCKA and label != chosen]
    lines = {label: _line(label, labels, chosen) for label in labels} | dict(zip(spare, _shades(spare), strict=True))
    for label in sorted(labels, key=lambda label: label == chosen):
        width = 2.4 if label == chosen else 1.5
        curves = [_shares(cell) for cell in study.of(model, label)]
        draw_band(axes, curves, lines[label], shown(study, model, label), width=width)
    axes.set(title=f"{model}: share of the entries that stays on the robot [%]", xlabel="round")
    axes.set_ylim(bottom=0.0)
    _tidy((axes,))
    _legend((axes,), axes)
    return Picture(
        f"{folder_name(model)}_shares",
        encode(figure),
        f"{model}: personal share of the entries against the round, of {', '.join(map(name_of, labels))}",
        "Mean over the clients; line: mean over the seeds, band: ± one sample standard deviation. A threshold decides "
        "anew in every round, a percentage and element masks only grow.",
    )


def _shades(labels: Sequence[str]) -> list[Line]:
    """Return the lines of settings: thresholds in oranges, percentages in blues, larger values darker."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    found = {}
    for rule, colours, dashes in (("rule=percentage", "Blues", ":"), ("", "Oranges", "--")):
        of_rule = [label for label in labels if rule in label and label not in found]
        for place, label in enumerate(of_rule):
            found[label] = Line(to_hex(colormaps[colours](0.4 + 0.5 * place / max(1, len(of_rule) - 1))), dashes)
    return [found[label] for label in labels]


def _matrix(study: Study, model: str, label: str) -> Floats:
    clients = clients_of(study)
    grid = np.full((len(clients), len(clients)), np.nan)
    for row, client in enumerate(clients):
        for column, domain in enumerate(clients):
            found = list(study.values(model, label, figures.cross("nds", client, domain)).values())
            grid[row, column] = np.mean(found) if found else np.nan
    return grid


def _write_values(axes: "Axes", grid: Floats, middle: float) -> None:
    for (row, column), value in np.ndenumerate(grid):
        if np.isfinite(value):
            colour = "white" if value < middle else "black"
            weight = "bold" if row == column else "normal"
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour, fontweight=weight
            )


def _two_lines(name: str) -> str:
    """Break a long name after its method."""
    return name.replace(", ", "\n", 1) if len(name) > 20 else name


def _losses(cell: Cell) -> list[tuple[int, float]]:
    pairs = ((int(row["round"]), number(row.get("loss"))) for row in cell.rounds)
    return [(turn, value) for turn, value in pairs if value is not None]


def _shares(cell: Cell) -> list[tuple[int, float]]:
    return figures.told_curve(cell, "personal_ratio", 100.0)


def _line(label: str, labels: Sequence[str], chosen: str | None) -> Line:
    if label == chosen:
        return _HEADLINE
    plain = {name: _LINES[strategy_of(name)] for name in labels if strategy_of(name) in _LINES}
    return choose_line(plain, label, [name for name in labels if name != chosen])


def _tidy(grid: Sequence["Axes"]) -> None:
    from matplotlib.ticker import MaxNLocator

    for axes in grid:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25)


def _legend(grid: Sequence["Axes"], where: "Axes") -> None:
    """Put one legend of all the axes' lines beside one of them."""
    handles = {text: handle for axes in grid for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    if handles:
        where.legend(handles.values(), handles.keys(), handlelength=2.8, fontsize=9, **_BESIDE)
