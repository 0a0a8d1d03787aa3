"""Curves of a bev study over its rounds: IoU and loss of all methods, and what goes on inside one method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fed_core.study.report.bev.figures import CONSTANT, MEAN, clients_of, constant, iou_curve, robot_curve, scalar_curve
from fed_core.study.report.bev.methods import (
    FEDAVG_DALOSS,
    FEDBEVT,
    FEDBEVT_DALOSS,
    FEDDWA,
    FEDDWA_DALOSS,
    FEDPROX,
    SCAFFOLD,
    federated,
    name_of,
    references,
)
from fed_core.study.report.document import Picture
from fed_core.study.report.lines import Line, choose_line, draw_band, drawn_values, scale_log
from fed_core.study.report.png import encode, new_figure
from fed_core.study.report.results import Cell, Study, folder_name
from fed_core.study.report.statistics import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours; with DALoss a line is whole, without it broken.
_LINES = {
    "fedavg": Line("#0072B2", "--"),
    FEDAVG_DALOSS: Line("#0072B2", "-"),
    FEDPROX: Line("#56B4E9", "--"),
    SCAFFOLD: Line("#009E73", "--"),
    "fedrep": Line("#CC79A7", "--"),
    "fedtp": Line("#CC79A7", ":"),
    FEDBEVT: Line("#E69F00", "--"),
    FEDBEVT_DALOSS: Line("#E69F00", "-"),
    FEDDWA: Line("#D55E00", "--"),
    FEDDWA_DALOSS: Line("#D55E00", "-"),
    "centralised": Line("#000000", "-."),
    "local": Line("#777777", ":"),
}
_ROBOTS = tuple(Line(c, d) for d in ("-", "--", ":") for c in ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"))
_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0, "frameon": False}
_COLUMNS = 4
_LOG_FROM, _LOG_TO = 10.0, 60.0


@dataclass(frozen=True)
class _Inside:
    """One picture of what goes on inside a method.

    Attributes:
        title: above the axes.
        of_robots: name of the figure that every robot has.
        of_fleet: name of a figure of the whole fleet, drawn in black.
        floor: name of a second figure of every robot, drawn dotted.
        logarithmic: always; else only where large and small values differ much.
        telling: whether the figure alone is worth a picture.
    """

    title: str
    of_robots: str
    of_fleet: str = ""
    floor: str = ""
    logarithmic: bool = False
    telling: bool = True


_INSIDES = (
    _Inside("T: KL divergence after training", "divergence"),
    _Inside("w: weights of the robots", "weights"),
    _Inside("controls: ‖c_m‖, black ‖c_g‖", "own_control_norm", of_fleet="control_norm"),
    _Inside("drift ‖θ_m − θ_g‖", "drift", telling=False),
    _Inside("Q / S", "q_over_s", logarithmic=True),
    _Inside("‖∇Q‖ / ‖∇S‖", "q_gradient_share", logarithmic=True),
    _Inside("KL divergence of steps, dotted: floor", "step_divergence", floor="divergence_floor"),
)


def draw_curves(study: Study, model: str) -> Picture | None:
    """Draw the mean IoU over the clients and the training loss against the round, a line for each method."""
    labels = _with_rounds(study, model)
    if not labels:
        return None
    figure = new_figure(11.5, 4.2)
    left, right = figure.subplots(1, 2)
    for label in labels:
        runs = study.of(model, label)
        _draw(left, [iou_curve(cell, MEAN) for cell in runs], label, labels)
        _draw(right, [scalar_curve(cell, "loss") for cell in runs], label, labels)
    _draw_constant(left, study, model, MEAN)
    left.set(title="IoU on test frames, mean over the clients [%]", xlabel="round")
    right.set(title="training loss", xlabel="round")
    _scale(right)
    _tidy((left, right))
    _legend((left, right), right)
    figure.suptitle(f"{model}: after every round")
    return Picture(
        f"{folder_name(model)}_curves",
        encode(figure),
        f"{model}: IoU on test frames and training loss against the round, of {', '.join(map(name_of, labels))}",
        "Line: mean over the seeds; band: ± one sample standard deviation (none with one seed). Whole lines have "
        "DALoss; the references, not federated, are black and grey; thin grey: the constant map, which looks at no "
        "image.",
    )


def draw_clients(study: Study, model: str) -> Picture | None:
    """Draw the IoU of every client against the round, one small picture each."""
    labels, clients = _with_rounds(study, model), clients_of(study)
    cells = [cell for label in labels for cell in study.of(model, label)]
    if not any(iou_curve(cell, client) for cell in cells for client in clients):
        return None
    columns = 2 if len(clients) in (2, 4) else min(3, len(clients))
    lines = -(-len(clients) // columns)
    figure = new_figure(4.4 * columns + 2.4, 2.9 * lines + 0.4)
    grid = list(figure.subplots(lines, columns, squeeze=False).ravel())
    for axes, client in zip(grid, clients, strict=False):
        for label in labels:
            _draw(axes, [iou_curve(cell, client) for cell in study.of(model, label)], label, labels)
        _draw_constant(axes, study, model, client)
        axes.set(title=client, xlabel="round", ylabel="IoU [%]")
    for axes in grid[len(clients) :]:
        axes.set_axis_off()
    _tidy(grid[: len(clients)])
    _legend(grid[: len(clients)], grid[columns - 1])
    figure.suptitle(f"{model}: IoU on each client's test frames")
    return Picture(
        f"{folder_name(model)}_clients",
        encode(figure),
        f"{model}: IoU against the round on the test frames of each of {', '.join(clients)}",
        "As above, for each client by itself; the scales differ.",
    )


def draw_insides(study: Study, model: str) -> list[Picture]:
    """Draw weights, divergences, controls, drift and pull of each method that has more than a drift."""
    found = (_inside(study, model, label) for label in federated(study, model))
    return [picture for picture in found if picture is not None]


def _inside(study: Study, model: str, label: str) -> Picture | None:
    runs, robots = study.of(model, label), clients_of(study)
    shown = [panel for panel in _INSIDES if any(robot_curve(c, panel.of_robots, r) for c in runs for r in robots)]
    if not any(panel.telling for panel in shown):
        return None
    columns = min(3, len(shown))
    lines = -(-len(shown) // columns)
    figure = new_figure(3.9 * columns + 1.2, 2.7 * lines + 0.4)
    grid = list(figure.subplots(lines, columns, squeeze=False).ravel())
    for axes, panel in zip(grid, shown, strict=False):
        _draw_inside(axes, panel, runs, robots)
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    grid[columns - 1].legend(*grid[0].get_legend_handles_labels(), **_BESIDE)
    figure.suptitle(f"{model}, {name_of(label)}: inside the rounds")
    return Picture(
        f"{folder_name(model)}_inside_{folder_name(label)}",
        encode(figure),
        f"{model}, {name_of(label)}, of every robot against the round: {'; '.join(panel.title for panel in shown)}",
        f"{name_of(label)}, a line for each robot; mean over the seeds, band ± one sample standard deviation. T and w "
        "are measured after the training of a round; w acts in the next one. Shares are on a log axis, without zeros, "
        "averaged as logarithms.",
    )


def _draw_inside(axes: "Axes", panel: _Inside, runs: Sequence[Cell], robots: Sequence[str]) -> None:
    for robot, line in zip(robots, _ROBOTS * (1 + len(robots) // len(_ROBOTS)), strict=False):
        curves = [_drawable(robot_curve(cell, panel.of_robots, robot), panel) for cell in runs]
        draw_band(axes, curves, line, robot, logarithmic=panel.logarithmic)
        if panel.floor:
            floor = [robot_curve(cell, panel.floor, robot) for cell in runs]
            draw_band(axes, floor, Line(line.colour, ":"), "_floor", width=1.0)
    if panel.of_fleet:
        fleet = [scalar_curve(cell, panel.of_fleet) for cell in runs]
        draw_band(axes, fleet, Line("#000000", "-"), "_fleet", width=2.0)
    axes.set(xlabel="round")
    axes.set_title(panel.title, fontsize=10)
    _tidy((axes,))
    if panel.of_robots == "weights":
        axes.set_ylim(0.0, 1.0)  # they sum to 1
    else:
        _scale(axes, logarithmic=panel.logarithmic)


def _drawable(curve: list[tuple[int, float]], panel: _Inside) -> list[tuple[int, float]]:
    return [(turn, value) for turn, value in curve if value > 0] if panel.logarithmic else curve


def _with_rounds(study: Study, model: str) -> list[str]:
    """Return the main methods with rounds, the references last and the paper's method on top."""
    labels = [*references(study, model), *federated(study, model)]
    labels = [label for label in labels if any(cell.rounds for cell in study.of(model, label))]
    return sorted(labels, key=lambda label: label == FEDDWA_DALOSS)


def _draw(axes: "Axes", curves: list[list[tuple[int, float]]], label: str, labels: Sequence[str]) -> None:
    line = choose_line(_LINES, label, labels)
    draw_band(axes, curves, line, name_of(label), width=2.4 if label == FEDDWA_DALOSS else 1.5)


def _draw_constant(axes: "Axes", study: Study, model: str, client: str) -> None:
    """Draw the level that a map without any image reaches."""
    level = spread(list(constant(study, model, client).values()))
    if level.count:
        axes.axhline(level.mean, color="#999999", linewidth=1.0, zorder=1, label=CONSTANT)


def _tidy(grid: Sequence["Axes"]) -> None:
    from matplotlib.ticker import MaxNLocator

    for axes in grid:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25)


def _scale(axes: "Axes", *, logarithmic: bool = False) -> None:
    """Use a logarithmic axis where it is asked for, or where large values would squeeze small ones."""
    drawn = drawn_values(axes)
    reach = drawn.max() / drawn.min() if drawn.size and drawn.min() > 0 else 0.0
    if reach > _LOG_TO:
        axes.set_yscale("log")
    elif reach > _LOG_FROM or (reach and logarithmic):
        scale_log(axes, drawn.min() * 0.8, drawn.max() * 1.25)


def _legend(grid: Sequence["Axes"], where: "Axes") -> None:
    """Put one legend of all the axes' lines beside one of them."""
    handles = {text: handle for axes in grid for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    if handles:
        where.legend(handles.values(), handles.keys(), handlelength=2.8, fontsize=9, **_BESIDE)
