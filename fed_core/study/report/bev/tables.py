"""The tables of a bev study: method x client (in the shape of the paper's Table I), and costs."""

from collections.abc import Callable, Iterable, Sequence

from fed_core.study.report.bev import figures
from fed_core.study.report.bev.figures import MEAN, Reader, clients_of
from fed_core.study.report.bev.methods import federated, name_of, references
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.entries import marked
from fed_core.study.report.results import REFERENCES, Cell, Study, number
from fed_core.study.report.statistics import Spread, spread

#: Most clients that a line of a terminal has room for.
_MAX_SHORT = 5
_MEASURES: tuple[tuple[str, Callable[[str], Reader]], ...] = (
    ("IoU", figures.headline),
    ("IoU per frame", figures.per_frame),
    ("Mean of the last 10", figures.last10),
    ("Best round", figures.best),
    ("After local training", figures.trained),
)


def methods(study: Study) -> list[Table]:
    """Return the names of the methods beside the labels of the study file."""
    rows = tuple((Entry(name_of(label)), Entry(label)) for label in study.labels)
    return [Table("Methods and their labels", ("Method", "Label in the study file"), rows, folded=True)]


def accuracy(study: Study, model: str) -> Table:
    """Return the main table: IoU of method x client, the best federated method of each column marked."""
    return Table(
        f"{model}: IoU [%] on each client's own test frames",
        _header(study),
        _rows(study, model, federated(study, model), mark=True),
        "IoU of vehicle cells, with hits, false alarms and misses summed over the test frames; mean over the seeds ± "
        "sample standard deviation, without ± only one seed is finished. Each client's round is the one with the best "
        "IoU on its validation frames, so no test frame has a say. Mean: over the clients, unweighted. Bold: best "
        "federated method of the column.",
    )


def reference_accuracy(study: Study, model: str) -> Table:
    """Return the same table of the references, which are no federation."""
    return Table(
        f"{model}: references, not federated, IoU [%]",
        _header(study),
        (*_rows(study, model, references(study, model), mark=False), *_constant(study, model)),
        "Centralised: one network trained on all frames pooled. Local: each client trains alone. Constant map: the "
        "same map for all frames of a client, with a vehicle where its true training maps often have one; it looks at "
        "no image, so a method that is not above it makes no use of the cameras that one could see.",
    )


def best_rounds(study: Study, model: str) -> Table:
    """Return IoU of the best test round, and that round."""
    labels = federated(study, model)
    columns: list[list[Entry]] = []
    for client in clients_of(study):
        columns.append(marked(_spreads(study, model, labels, figures.best(client)), 2, less_is_better=False))
        rounds = _spreads(study, model, labels, figures.chosen_round(client, "best"))
        columns.append([Entry(s.short(0)) for s in rounds])
    columns.append(marked(_spreads(study, model, labels, figures.best(MEAN)), 2, less_is_better=False))
    header = [text for client in clients_of(study) for text in (f"{client} IoU", f"{client} round")]
    names = [Entry(name_of(label)) for label in labels]
    return Table(
        f"{model}: best round on the test frames (optimistic)",
        ("Method", *header, "Mean IoU"),
        tuple(zip(names, *columns, strict=True)),
        "IoU [%] and round where the IoU on the test frames themselves peaks (the paper's “Com.”). The test frames "
        "choose the round, so these figures are too good; rank methods by the table above.",
    )


def measures(study: Study, model: str) -> Table:
    """Return further measures of the mean over the clients."""
    labels = federated(study, model)
    columns = [marked(_spreads(study, model, labels, get(MEAN)), 2, less_is_better=False) for _, get in _MEASURES]
    rows = list(zip([Entry(name_of(label)) for label in labels], *columns, strict=True))
    others = references(study, model)
    plain = [[Entry(s.text(2)) for s in _spreads(study, model, others, get(MEAN))] for _, get in _MEASURES]
    rows.extend(zip([Entry(name_of(label)) for label in others], *plain, strict=True))
    return Table(
        f"{model}: further measures, mean over the clients [%]",
        ("Method", *(name for name, _ in _MEASURES)),
        tuple(rows),
        "IoU per frame: mean of the frames' IoU in the same round, frames without a true or a claimed vehicle left "
        "out. Mean of the last 10: over the last ten evaluations. Best round: optimistic. After local training: the "
        "client's own model after the last round's training, before it was aggregated. Bold: best federated method.",
    )


def measures_by_client(study: Study, model: str) -> Table:
    """Return the same measures of every client."""
    rows = [
        (
            Entry(f"{name_of(label)}, {client}"),
            *(Entry(s.text(2)) for _, get in _MEASURES for s in _spreads(study, model, [label], get(client))),
        )
        for label in (*federated(study, model), *references(study, model))
        for client in clients_of(study)
    ]
    header = ("Method, client", *(name for name, _ in _MEASURES))
    return Table(f"{model}: further measures by client [%]", header, tuple(rows), folded=True)


def costs(study: Study, model: str) -> Table:
    """Return traffic and time of every method."""
    robots = max(1, len(clients_of(study)))

    def megabytes(name: str) -> Reader:
        # What a reference moves inside this machine is no traffic of a federation.
        return lambda cell: (
            None if cell.label in REFERENCES else _scaled(cell.figure(name), 1e6 * robots * _rounds(cell))
        )

    def minutes(name: str) -> Reader:
        return lambda cell: _scaled(number((cell.result.get("seconds") or {}).get(name)), 60.0)

    getters = (
        (megabytes("upload_bytes"), 2),
        (megabytes("download_bytes"), 2),
        (minutes("train"), 1),
        (minutes("evaluate"), 1),
        (minutes("total"), 1),
    )
    labels = [*federated(study, model), *references(study, model)]
    rows = tuple(
        (
            Entry(name_of(label)),
            *(Entry(s.short(d)) for get, d in getters for s in _spreads(study, model, [label], get)),
        )
        for label in labels
    )
    return Table(
        f"{model}: traffic and time",
        ("Method", "Up [MB]", "Down [MB]", "Training [min]", "Evaluation [min]", "Whole run [min]"),
        rows,
        "Up and down: per robot and round. Time: on this machine, all robots. No ±: equal for all seeds, or one seed.",
    )


def short(study: Study, model: str) -> list[Table]:
    """Return the main figures for a terminal: of the clients the mean over the seeds, of their mean the spread too."""
    clients = clients_of(study) if len(clients_of(study)) <= _MAX_SHORT else []
    tables = []
    for labels, mark in ((federated(study, model), True), (references(study, model), False)):
        columns = [_column(_means(study, model, labels, client), 1, mark=mark) for client in clients]
        columns.append(_column(_spreads(study, model, labels, figures.headline(MEAN)), 2, mark=mark))
        rows = list(zip([Entry(name_of(label)) for label in labels], *columns, strict=True))
        rows += [] if mark else _short_constant(study, model, clients)
        tables.append(Table(model, ("Method", *clients, "Mean IoU [%]"), tuple(rows)))
    return tables


def _header(study: Study) -> tuple[str, ...]:
    return ("Method", "Seeds", *clients_of(study), "Mean")


def _rows(study: Study, model: str, labels: Sequence[str], *, mark: bool) -> tuple[tuple[Entry, ...], ...]:
    clients = (*clients_of(study), MEAN)
    columns = [_column(_spreads(study, model, labels, figures.headline(c)), 2, mark=mark) for c in clients]
    seeds = [Entry(str(len(study.of(model, label)))) for label in labels]
    return tuple(zip([Entry(name_of(label)) for label in labels], seeds, *columns, strict=True))


def _constant_levels(study: Study, model: str, clients: Sequence[str]) -> list[Spread]:
    """Return IoU of the constant map for each of the clients; nothing where no run has it."""
    found = [spread(list(figures.constant(study, model, client).values())) for client in clients]
    return found if any(level.count for level in found) else []


def _constant(study: Study, model: str) -> list[tuple[Entry, ...]]:
    levels = _constant_levels(study, model, (*clients_of(study), MEAN))
    row = (Entry(figures.CONSTANT), *(Entry(str(s.count)) for s in levels[-1:]), *(Entry(s.text(2)) for s in levels))
    return [row] if levels else []


def _short_constant(study: Study, model: str, clients: Sequence[str]) -> list[tuple[Entry, ...]]:
    levels = _constant_levels(study, model, (*clients, MEAN))
    means = (Spread(level.mean, None, level.count).text(1) for level in levels[:-1])
    return [(Entry(figures.CONSTANT), *map(Entry, means), Entry(levels[-1].text(2)))] if levels else []


def _column(found: Sequence[Spread], digits: int, *, mark: bool) -> list[Entry]:
    return marked(found, digits, less_is_better=False) if mark else [Entry(s.text(digits)) for s in found]


def _spreads(study: Study, model: str, labels: Iterable[str], get: Reader) -> list[Spread]:
    return [spread(list(study.values(model, label, get).values())) for label in labels]


def _means(study: Study, model: str, labels: Iterable[str], client: str) -> list[Spread]:
    return [Spread(s.mean, None, s.count) for s in _spreads(study, model, labels, figures.headline(client))]


def _rounds(cell: Cell) -> float:
    return max(1.0, cell.figure("rounds") or 1.0)


def _scaled(value: float | None, unit: float) -> float | None:
    # Rounded, so that equal runs have equal figures.
    return None if value is None else round(value / unit, 9)
