"""The tables of a detection study: scores by domain (in the shape of the paper's Table II), transfer, traffic."""

from collections.abc import Iterable, Mapping, Sequence

from fed_core.study.report.detection import figures, traffic
from fed_core.study.report.detection.figures import Reader, clients_of, letter_of, spreads
from fed_core.study.report.detection.methods import (
    FEDAVG,
    federated,
    headline,
    main,
    name_of,
    references,
    shown,
)
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.entries import marked
from fed_core.study.report.results import REFERENCES, Cell, Study, number
from fed_core.study.report.statistics import Spread, spread
from fed_core.types import DETECTION_CLASSES

#: A method whose mAP stays below has learned next to nothing.
HARDLY = 0.01
_MEGA = 1e6
_MAX_SHORT = 5

Row = tuple[Entry, ...]


def methods(study: Study) -> list[Table]:
    """Return the names of the methods beside the labels of the study file."""
    rows = tuple((Entry(name_of(label)), Entry(label)) for label in study.labels)
    return [Table("Methods and their labels", ("Method", "Label in the study file"), rows, folded=True)]


def domains(study: Study) -> Table:
    """Return what every domain is: scenes, frames, and the classes that its test scenes lack."""
    trained = {str(client.get("name")): number(client.get("frames")) for client in study.plan.get("clients") or []}
    rows = []
    for name in clients_of(study):
        known = [(cell.seed, figures.branch(cell.result, "domains", name)) for cell in study.cells.values()]
        scenes, frames = (
            _text(next((number(d.get(key)) for _, d in known if d), None)) for key in ("scenes", "frames")
        )
        lacks = {seed: _lacking(tree.get("classes")) for seed, tree in known if tree}
        unseen = {seed: _unseen(tree.get("named"), tree.get("classes")) for seed, tree in known if tree}
        texts = (letter_of(name), name, _text(trained[name]), scenes, frames, _by_seed(lacks), _by_seed(unseen))
        rows.append(tuple(map(Entry, texts)))
    return Table(
        "Domains",
        ("Domain", "Name", "Training frames", "Test scenes", "Test frames", "Classes not there", "Only out of range"),
        tuple(rows),
        "A domain is scored over the classes that have a true box there after the devkit's filter (range, LiDAR or "
        "radar points). “Only out of range”: classes that the released code would count as there, too, for it counts "
        "before that filter. Weighted means weigh domains by test scenes.",
    )


def scores(study: Study, model: str, metric: str) -> Table:
    """Return method x domain; ``metric`` is "nds", "map" or "cap". References first, the best federated marked."""
    others, ours = references(study, model), federated(study, model)
    readers = [*(figures.own(metric, client) for client in clients_of(study)), *_means(metric)]
    columns = [
        [
            *(Entry(s.text()) for s in spreads(study, model, others, get)),
            *marked(spreads(study, model, ours, get), 3, less_is_better=False),
        ]
        for get in readers
    ]
    header = [*map(letter_of, clients_of(study)), "Weighted mean", "Plain mean"]
    if metric == "nds":
        header.append(f"Above own-domain-only (of {len(clients_of(study))})")
        columns.append([_above(study, model, label) for label in (*others, *ours)])
    labels = (*others, *ours)
    seeds = [Entry(str(len(study.of(model, label)))) for label in labels]
    names = [Entry(shown(study, model, label)) for label in labels]
    rows = tuple(zip(names, seeds, *columns, strict=True))
    return Table(f"{model}: {_TITLES[metric]}", ("Method", "Seeds", *header), rows, _NOTES[metric])


_TITLES = {
    "nds": "NDS of each client's last model on the test scenes of its own domain",
    "map": "mAP, likewise",
    "cap": "CAP (average precision of cars), likewise",
}
_HOW = (
    "Mean over the seeds ± sample standard deviation, without ± one seed only. Bold: best federated method of the "
    "column; the references (own domain only, centralised) are no federation."
)
_NOTES = {
    "nds": f"{_HOW} The model is W, after the last merge. Last column: clients whose NDS is above that of training on "
    "the own domain alone, seed by seed.",
    "map": _HOW,
    "cap": f"{_HOW} A dash: the domain has no car.",
}


def hardly_sentence(study: Study, model: str) -> str:
    """Return a sentence on methods that detect next to nothing; "" without any."""
    found = {label: spreads(study, model, [label], figures.macro("map"))[0] for label in main(study, model)}
    names = [name_of(label) for label, s in found.items() if s.count and s.mean < HARDLY]
    return f"Mean mAP below {HARDLY:g}, so next to nothing is detected: {'; '.join(names)}." if names else ""


def transfer(study: Study, model: str) -> Table:
    """Return the matrix in short: own domain, other domains, and the model before the last merge."""
    columns = (
        ("Own, plain", figures.plain("nds")),
        ("Own, weighted", figures.macro("nds")),
        ("Others, plain", figures.macro("other_nds")),
        ("Others, weighted", figures.macro("other_weighted_nds")),
        ("Own, weighted, before the last merge", figures.macro("trained_nds")),
    )
    others, ours = references(study, model), federated(study, model)
    found = [
        [
            *(Entry(s.text()) for s in spreads(study, model, others, get)),
            *marked(spreads(study, model, ours, get), 3, less_is_better=False),
        ]
        for _, get in columns
    ]
    names = [Entry(shown(study, model, label)) for label in (*others, *ours)]
    return Table(
        f"{model}: NDS on the own domain and on the other domains",
        ("Method", *(heading for heading, _ in columns)),
        tuple(zip(names, *found, strict=True)),
        "Diagonal and the rest of the matrix above; weighted: by the test scenes of the domain that is scored (the "
        "paper does not say how it weighs). Before the last merge: V, each client's model as its last training left "
        "it. A method with one model for all has equal rows in the matrix.",
    )


def costs(study: Study, model: str) -> Table:
    """Return traffic, measured and by the paper's accounting, what stays on the robots, and time."""
    labels = main(study, model)
    base = study.values(model, FEDAVG, traffic.accounted)

    def share(cell: Cell) -> float | None:
        ours = traffic.accounted(cell)
        return None if ours is None or not base.get(cell.seed) else 100.0 * ours / base[cell.seed]

    columns: tuple[tuple[str, Reader, int], ...] = (
        ("Stays on the robot [%]", _federated_only(figures.personal("share", 100.0)), 1),
        ("Up, measured [MB]", lambda cell: _scaled(traffic.measured(cell, "upload")), 2),
        ("Up, paper's accounting [MB]", lambda cell: _scaled(traffic.accounted(cell)), 2),
        ("Of FedAvg [%]", share, 1),
        ("Down, measured [MB]", lambda cell: _scaled(traffic.measured(cell, "download")), 2),
        ("Training [min]", lambda cell: _minutes(cell, "train"), 1),
        ("Evaluation [min]", lambda cell: _minutes(cell, "evaluate"), 1),
    )
    rows = [
        (
            Entry(shown(study, model, label)),
            *(
                Entry(spread(list(study.values(model, label, get).values())).short(digits))
                for _, get, digits in columns
            ),
        )
        for label in labels
    ]
    return Table(
        f"{model}: traffic and time",
        ("Method", *(heading for heading, _, _ in columns)),
        tuple(rows),
        "All robots and rounds. Paper's accounting: 4 bytes for every shared floating entry + mask bits / 8 (a bit for "
        "every unit with FedCKA, for every entry with FedSelect and FedMC). Measured: the files that travel, with "
        "names and shapes of tensors and with integers; element masks travel beside whole tensors, whose personal "
        "elements are zeroed, so the accounting's saving is not in them. Down: FedCKA compares with the whole global "
        "model, so all of it comes down. Stays on the robot: share of the floating entries after the last round, mean "
        "over the clients. Time: on this machine, all robots.",
    )


def short(study: Study, model: str) -> list[Table]:
    """Return the main figures for a terminal: domains without, their weighted mean with the spread."""
    clients = clients_of(study) if len(clients_of(study)) <= _MAX_SHORT else []
    tables = []
    for labels, mark in ((federated(study, model), True), (references(study, model), False)):
        columns = [_column(_without_spread(study, model, labels, client), 2, mark=mark) for client in clients]
        columns.append(_column(spreads(study, model, labels, figures.macro("nds")), 3, mark=mark))
        names = [Entry(_short_name(study, model, label)) for label in labels]
        header = ("Method", *map(letter_of, clients), "Mean NDS")
        tables.append(Table(model, header, tuple(zip(names, *columns, strict=True))))
    return tables


def _short_name(study: Study, model: str, label: str) -> str:
    return "FedCKA (headline)" if label == headline(study, model) else name_of(label)


def _column(found: Sequence[Spread], digits: int, *, mark: bool) -> list[Entry]:
    return marked(found, digits, less_is_better=False) if mark else [Entry(s.text(digits)) for s in found]


def _without_spread(study: Study, model: str, labels: Iterable[str], client: str) -> list[Spread]:
    return [Spread(s.mean, None, s.count) for s in spreads(study, model, labels, figures.own("nds", client))]


def _means(metric: str) -> tuple[Reader, Reader]:
    return figures.macro(metric), figures.plain(metric)


def _above(study: Study, model: str, label: str) -> Entry:
    found = spread(list(figures.above_local(study, model, label).values()))
    return Entry("–" if label == "local" else found.short(1))


def _federated_only(get: Reader) -> Reader:
    return lambda cell: None if cell.label in REFERENCES else get(cell)


def _minutes(cell: Cell, name: str) -> float | None:
    value = number(figures.branch(cell.result, "seconds").get(name))
    return None if value is None else value / 60.0


def _scaled(value: float | None) -> float | None:
    # Rounded, so that equal runs have equal figures.
    return None if value is None else round(value / _MEGA, 9)


def _lacking(classes: object) -> list[str]:
    there = classes if isinstance(classes, list) else []
    return [name for name in DETECTION_CLASSES if name not in there]


def _unseen(named: object, classes: object) -> list[str]:
    counted = named if isinstance(named, list) else []
    return [name for name in _lacking(classes) if name in counted]


def _by_seed(found: Mapping[int, Sequence[str]]) -> str:
    """Return the names, with their seeds where not all seeds have them: rendered streets differ by seed."""
    texts = []
    for name in DETECTION_CLASSES:
        seeds = [str(seed) for seed in sorted(found) if name in found[seed]]
        if seeds:
            texts.append(name if len(seeds) == len(found) else f"{name} (seed {', '.join(seeds)})")
    return ", ".join(texts) or ("none" if found else "–")


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
