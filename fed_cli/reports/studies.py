"""A study as sections: its own report with charts in the place of pictures of numbers, and every run in a table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from fed_cli.fleetrun.figures import Figure, words_of
from fed_cli.reports.clusters import membership_chart
from fed_cli.reports.layers import Layered, cka_chart, mask_chart
from fed_cli.reports.plots import Line, Number, lines
from fed_cli.reports.robots import MOST_ROWS
from fed_cli.reports.tables import MISSING, evenly, figure, left_out, size, with_spread
from fed_cli.reports.training import MOST_ROUNDS
from fed_core.study.report.document import Block, Chart, Picture, Section, Table, rows_of
from fed_core.study.report.lines import over_seeds
from fed_core.study.report.page import build
from fed_core.study.report.results import REFERENCES, Cell, Study, folder_name, is_ablation, number

#: Most methods in one chart, and most methods whose layers are drawn.
MOST_METHODS, _MOST_LAYERED = 20, 4

Curve = Sequence[tuple[int, float]]


def study_sections(study: Study) -> list[Section]:
    """Return the sections of a study, finished or not."""
    own = build(study).sections  # refuses a study of an unknown task
    charts = {name: blocks for model in study.models for name, blocks in _charts(study, model)}
    found = [replace(section, blocks=tuple(_with_charts(section, charts))) for section in own]
    more = Section("All runs", tuple(_runs(study)))
    return [*found, *([more] if study.cells else [])]


def _with_charts(section: Section, charts: dict[str, list[Block]]) -> Iterator[Block]:
    for block in section.blocks:
        if isinstance(block, Picture) and charts.get(block.name):
            yield from charts[block.name]
        else:
            yield block


def _charts(study: Study, model: str) -> Iterator[tuple[str, list[Block]]]:
    """Yield names of pictures of numbers with the charts that take their place."""
    name = folder_name(model)
    for ending in ("convergence", "curves"):
        yield f"{name}_{ending}", curve_charts(study, model)
    yield f"{name}_memberships", _memberships(study, model)
    yield f"{name}_masks", [block for cell in _layered_cells(study, model) for block in _layers(cell)]


def curve_charts(study: Study, model: str) -> list[Block]:
    """Return the main figures and the loss against the round, a line for each method with the band of its seeds."""
    labels = sorted(study.finished(model), key=lambda label: (is_ablation(label), label in REFERENCES))
    drawn: list[Block] = []
    readers: list[tuple[str, Callable[[Cell], Curve]]] = [
        (_title(one), lambda cell, key=one.key: cell.curve(key))  # type: ignore[misc]
        for one in words_of(study.plan).figures
    ]
    for title, read in (*readers, ("training loss", loss_curve)):
        found = {label: [read(cell) for cell in study.of(model, label)] for label in labels}
        found = {label: curves for label, curves in found.items() if any(curves)}
        if found:
            drawn.append(curves_chart(found, title, model))
    return drawn


def curves_chart(found: Mapping[str, Sequence[Curve]], title: str, what: str) -> Chart:
    """Return curves with the band of their seeds.

    Args:
        found: curves of all seeds, by name.
        title: what the values are.
        what: whose they are.
    """
    names = list(found)[:MOST_METHODS]
    drawn, rows = [], []
    for name in names:
        rounds, values = over_seeds(found[name])
        means = [float(row.mean()) for row in values]
        many = len(values) and values.shape[1] > 1
        band = [float(row.std(ddof=1)) for row in values] if many else []
        drawn.append(Line(name, rounds, means, band))
        rows += [(name, str(n), str(len(row)), with_spread(list(row))) for n, row in zip(rounds, values, strict=True)]
    shown = evenly(rows, MOST_ROUNDS * len(names))
    note = left_out(len(names), len(found), "methods") + left_out(len(shown), len(rows), "rows")
    ends = ", ".join(f"{line.name} {figure(line.values[-1])}" for line in drawn if line.values)
    return Chart(
        lines(drawn, x_title="round", y_title=title),
        f"{what}: {title} against the round; in the end {ends}",
        "Line: mean over the seeds; band: ± one sample standard deviation, none with one seed." + note,
        Table(f"{what}: {title}", ("Method", "Round", "Seeds", title), rows_of(*shown), folded=True),
    )


def loss_curve(cell: Cell) -> list[tuple[int, float]]:
    """Return the training loss of every round that has one."""
    pairs = ((int(row.get("round", 0)), number(row.get("loss"))) for row in cell.rounds)
    return [(turn, value) for turn, value in pairs if value is not None]


def _title(one: Figure) -> str:
    return f"{one.title} ({'more' if one.higher else 'less'} is better)"


def _memberships(study: Study, model: str) -> list[Block]:
    first = [(label, study.first(model, label)) for label in study.finished(model)]
    cells = {label: cell for label, cell in first if cell and _num_clusters(cell) > 1}
    if not cells:
        return []
    labels = list(cells)[:MOST_METHODS]
    order = cells[labels[-1]].result["memberships"]
    robots = sorted(order, key=lambda robot: (order[robot], robot))
    shown = evenly(robots, MOST_ROWS)
    found = {robot: [tuple(cells[label].result["memberships"].get(robot, ())) for label in labels] for robot in shown}
    more = (
        f" One column for each method, seed {cells[labels[0]].seed}; clusters of one have nothing to do with another's."
    )
    more += left_out(len(labels), len(cells), "methods") + left_out(len(shown), len(robots), "robots")
    alt = f"{model}: clusters of {len(shown)} robots with {', '.join(labels)}"
    return [membership_chart(found, labels, alt=alt, x_title="method", more=more)]


def _num_clusters(cell: Cell) -> int:
    return len({k for ks in (cell.result.get("memberships") or {}).values() for k in ks})


def _layered_cells(study: Study, model: str) -> list[Cell]:
    first = (study.first(model, label) for label in study.finished(model))
    found = [cell for cell in first if cell and any(row.get("masks") or row.get("cka") for row in cell.rounds)]
    return found[:_MOST_LAYERED]


def _layers(cell: Cell) -> list[Block]:
    """Return the maps of one run's masks and CKA."""
    name = f"{cell.label}, seed {cell.seed}"
    units = [str(unit.get("name")) for unit in cell.result.get("units") or ()]
    masks = {
        (int(row["round"]), str(robot)): [int(bit) for bit in mask]
        for row in cell.rounds
        for robot, mask in (row.get("masks") or {}).items()
        if len(mask) == len(units)
    }
    layers = [str(layer.get("name")) for layer in cell.result.get("layers") or ()]
    scores = {
        (int(row["round"]), str(robot)): [number(known.get(layer)) for layer in layers]
        for row in cell.rounds
        for robot, known in (row.get("cka") or {}).items()
    }
    found: list[Block] = []
    if units and masks:
        found.append(mask_chart(_layered(units, masks), name))
    if layers and scores:
        found.append(cka_chart(_layered(layers, scores), name))
    return found


def _layered(names: Sequence[str], known: Mapping[tuple[int, str], Sequence[Number]]) -> Layered:
    rounds, robots = sorted({n for n, _ in known}), sorted({r for _, r in known})
    return Layered(names, rounds, robots, lambda n, robot: known.get((n, robot)))


def _runs(study: Study) -> Iterator[Block]:
    figures = words_of(study.plan).figures
    rows = []
    for key in (*study.cells, *study.missing):
        cell = study.cells.get(key)
        rows.append((*key[:2], str(key[2]), *_run_row(cell, figures)))
    header = ("Model", "Strategy", "Seed", *(one.title for one in figures), "Last loss", "Sent", "Given", "Seconds")
    rows = [row for _, row in sorted(zip(_order(study), rows, strict=True))]
    note = "Figures over the unseen sequences after the last round. Sent and given: bytes of all robots and rounds."
    shown = rows[:MOST_RUNS]
    yield Table("Every run", header, rows_of(*shown), note + left_out(len(shown), len(rows), "runs"))


#: Most rows of the table of all runs.
MOST_RUNS = 1000


def _order(study: Study) -> list[tuple[int, int, int]]:
    models, labels = study.models, study.labels

    def place(names: list[str], name: str) -> int:
        return names.index(name) if name in names else len(names)

    return [(place(models, m), place(labels, e), seed) for m, e, seed in (*study.cells, *study.missing)]


def _run_row(cell: Cell | None, figures: Sequence[Figure]) -> tuple[str, ...]:
    if cell is None:
        return ("not finished", *[MISSING] * (len(figures) + 3))
    losses = loss_curve(cell)
    seconds = cell.result.get("seconds")
    total = number(seconds.get("total")) if isinstance(seconds, Mapping) else number(seconds)
    return (
        *(figure(cell.macro(one.key)) for one in figures),
        figure(losses[-1][1] if losses else None),
        size(cell.figure("upload_bytes")),
        size(cell.figure("download_bytes")),
        figure(total),
    )
