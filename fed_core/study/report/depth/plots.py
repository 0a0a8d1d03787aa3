"""Pictures of numbers: convergence, memberships, and how test sequences chose their clusters."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fed_core.study.report.document import Picture
from fed_core.study.report.lines import Floats, Line, choose_line, draw_band, drawn_values, scale_log
from fed_core.study.report.png import encode, new_figure
from fed_core.study.report.results import REFERENCES, Cell, Study, folder_name, is_ablation, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by people with any kind of colour blindness; yellow is too pale for a line.
_LINES = {
    "fedavg": Line("#0072B2", "-"),
    "fedprox": Line("#56B4E9", "--"),
    "feddyn": Line("#009E73", "-."),
    "scaffold": Line("#009E73", ":"),
    "pacfl": Line("#E69F00", "-"),
    "fedclust": Line("#E69F00", "--"),
    "hard": Line("#CC79A7", "-"),
    "fedepth": Line("#D55E00", "-"),
    "centralised": Line("#000000", "--"),
    "local": Line("#777777", ":"),
}
_MAX_NUMBERED = 16
_LOG_FROM = 4.0


def line_of(label: str, labels: list[str]) -> Line:
    """Return how the label is drawn."""
    return choose_line(_LINES, label, labels)


def draw_convergence(study: Study, model: str) -> Picture | None:
    """Draw macro AbsRel and δ1 against the round: mean over the seeds, band of one standard deviation."""
    labels = [name for name in study.finished(model) if not is_ablation(name)]
    labels = [name for name in labels if any(cell.rounds for cell in study.of(model, name))]
    if not labels:
        return None
    figure = new_figure(11.0, 4.2)
    left, right = figure.subplots(1, 2)
    for axes, metric, title in ((left, "abs_rel", "AbsRel (less is better)"), (right, "delta1", "δ1 (more is better)")):
        for label in sorted(labels, key=lambda name: name == "fedepth"):
            runs = [cell.curve(metric) for cell in study.of(model, label)]
            draw_band(axes, runs, line_of(label, labels), label, width=2.6 if label == "fedepth" else 1.6)
        axes.set(title=title, xlabel="round")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.25)
    _scale(left)
    handles = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
    shown = [label for label in labels if label in handles]
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}
    right.legend([handles[s] for s in shown], shown, frameon=False, handlelength=2.8, **beside)
    figure.suptitle(f"{model}: unseen sequences after every round")
    return Picture(
        f"{folder_name(model)}_convergence",
        encode(figure),
        f"{model}: AbsRel and δ1 on unseen sequences against the round, one line for each of {', '.join(labels)}",
        "Line: mean over the seeds; band: ± one sample standard deviation (none with one seed). "
        "Broken black and grey lines are references, not federated.",
    )


def _scale(axes: "Axes") -> None:
    """Use a logarithmic axis where the first rounds would squeeze the rest."""
    drawn = drawn_values(axes)
    if drawn.size and drawn.min() > 0 and drawn.max() / drawn.min() >= _LOG_FROM:
        scale_log(axes, drawn.min() * 0.93, drawn.max() * 1.07)


def draw_memberships(study: Study, model: str) -> Picture | None:
    """Draw robots x clusters of every strategy with more than one cluster, for the first seed."""
    found = [(name, study.first(model, name)) for name in study.finished(model) if not is_ablation(name)]
    cells = [(n, c) for n, c in found if c and n not in REFERENCES and len(_clusters(c)) > 1]
    if not cells:
        return None
    robots = _robots(study, cells[0][1])
    widths = [max(1.7, 0.24 * len(_clusters(cell))) for _, cell in cells]
    figure = new_figure(2.6 + sum(widths), 1.3 + 0.2 * len(robots))
    row = figure.subplots(1, len(cells), squeeze=False, gridspec_kw={"width_ratios": widths})[0]
    for axes, (name, cell) in zip(row, cells, strict=True):
        clusters, members = _clusters(cell), cell.result["memberships"]
        grid = np.array([[k in members.get(robot, ()) for k in clusters] for robot in robots], np.float64)
        axes.pcolormesh(grid, cmap="Blues", vmin=0.0, vmax=1.3, edgecolors="#cccccc", linewidth=0.5)
        for y in _borders(study, robots):
            axes.axhline(y, color="black", linewidth=1.0)
        axes.invert_yaxis()
        step = max(1, len(clusters) // 12)
        axes.set_xticks(np.arange(0, len(clusters), step) + 0.5, [str(k) for k in clusters[::step]], fontsize=8)
        axes.set_yticks(np.arange(len(robots)) + 0.5, robots if axes is row[0] else [], fontsize=8)
        axes.tick_params(length=0)
        axes.set(title=f"{name}: {len(clusters)} clusters", xlabel="cluster")
        axes.title.set_fontsize(10)
    seed = cells[0][1].seed
    return Picture(
        f"{folder_name(model)}_memberships",
        encode(figure),
        f"{model}: which robot is in which cluster with {', '.join(name for name, _ in cells)}",
        f"{model}, seed {seed}: filled = the robot (row) is in the cluster (column). A row with several filled fields "
        "is a robot in several clusters. Lines part the environments.",
    )


def _clusters(cell: Cell) -> list[int]:
    return sorted({int(k) for row in (cell.result.get("memberships") or {}).values() for k in row})


def _robots(study: Study, cell: Cell) -> list[str]:
    """Return the robots by environment and platform, so that what should cluster stands together."""
    planned = study.plan.get("clients") or []
    order = {str(c.get("name")): (str(c.get("environment")), str(c.get("platform")), i) for i, c in enumerate(planned)}
    last = ("~", "~", len(order))
    return sorted(cell.result["memberships"], key=lambda name: (order.get(name, last), name))


def _borders(study: Study, robots: list[str]) -> list[int]:
    """Return the rows before which another environment begins."""
    where = {str(c.get("name")): c.get("environment") for c in study.plan.get("clients") or []}
    return [i for i in range(1, len(robots)) if where.get(robots[i]) != where.get(robots[i - 1])]


def draw_choices(study: Study, model: str) -> Picture | None:
    """Draw test sequences x clusters: distance / tau, and what was chosen, of the strategy that has them."""
    finished = [name for name in study.finished(model) if not is_ablation(name)]
    for label in sorted(finished, key=lambda name: name != "fedepth"):
        cell = study.first(model, label)
        rows = [s for s in cell.sequences if _is_drawable(s.get("choice"))] if cell else []
        sizes = {len(s["choice"]["distances"]) for s in rows}
        if cell and len(sizes) == 1 and max(sizes) > 1:
            return _draw_choices(model, cell, rows)
    return None


def _is_drawable(choice: Any) -> bool:
    distances = (choice or {}).get("distances") or ()
    return bool(distances) and all(number(d) is not None for d in distances) and (number(choice["threshold"]) or 0) > 0


def _draw_choices(model: str, cell: Cell, rows: list[Any]) -> Picture:
    from matplotlib.colors import TwoSlopeNorm

    ratio = np.array([[d / s["choice"]["threshold"] for d in s["choice"]["distances"]] for s in rows])
    logs = np.log2(np.maximum(ratio, 1e-3))
    count = ratio.shape[1]
    figure = new_figure(max(6.5, 3.2 + 0.52 * count), 1.6 + 0.3 * len(rows))
    axes = figure.subplots()
    reach = min(4.0, max(1.0, float(np.abs(logs).max())))
    mesh = axes.pcolormesh(logs, cmap="PuOr", norm=TwoSlopeNorm(0.0, -reach, reach))
    axes.invert_yaxis()
    axes.set_xticks(np.arange(count) + 0.5, [str(k) for k in range(count)], fontsize=8)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [str(s["name"]) for s in rows], fontsize=8)
    axes.tick_params(length=0)
    _mark_choices(axes, rows)
    if count <= _MAX_NUMBERED:
        _write_ratios(axes, ratio, reach)
    bar = figure.colorbar(mesh, ax=axes, label="distance / τ")
    ticks = [t for t in (-4, -3, -2, -1, 0, 1, 2, 3, 4) if abs(t) <= reach]
    bar.set_ticks(ticks, labels=[f"{2.0**t:.2g}" for t in ticks])
    tau = float(rows[0]["choice"]["threshold"])
    axes.set(title=f"{model}, {cell.label}: clusters near each unseen sequence (τ = {tau:.4g})", xlabel="cluster")
    axes.title.set_fontsize(10)
    return Picture(
        f"{folder_name(model)}_choices",
        encode(figure),
        f"{model}, {cell.label}: distance of every test sequence to every cluster divided by the threshold τ",
        f"Seed {cell.seed}. Below 1 a cluster is near enough. Solid box: chosen; broken box: no cluster was near "
        "enough, the nearest one served (fallback).",
    )


def _mark_choices(axes: "Axes", rows: list[Any]) -> None:
    from matplotlib.patches import Rectangle

    for y, sequence in enumerate(rows):
        for x in sequence["choice"].get("clusters") or ():
            style = "--" if sequence["choice"].get("fallback") else "-"
            axes.add_patch(Rectangle((x + 0.06, y + 0.08), 0.88, 0.84, fill=False, lw=1.8, ls=style, ec="black"))


def _write_ratios(axes: "Axes", ratio: Floats, reach: float) -> None:
    for (y, x), value in np.ndenumerate(ratio):
        dark = abs(np.log2(max(float(value), 1e-3))) > 0.6 * reach
        text, colour = f"{value:.2f}" if value < 10 else f"{value:.0f}", "white" if dark else "black"
        axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=7, color=colour)
