"""What FedCKA's settings do: the tau / rho ablation and the choice of the headline (Table IV), further options, G1."""

from collections.abc import Iterable, Sequence

from fed_core.strategies.fedcka import GRID
from fed_core.study.detection.headline import common_seeds, validation_scores
from fed_core.study.report.detection import figures, layers, traffic
from fed_core.study.report.detection.figures import Reader, clients_of, letter_of
from fed_core.study.report.detection.methods import changed, headline, name_of, settings, shown
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.entries import difference
from fed_core.study.report.results import Cell, Study, number
from fed_core.study.report.statistics import paired, spread

_SECONDS, _BYTES = "probe_seconds", "probe_extra_bytes"


def choice_table(study: Study, model: str) -> Table:
    """Return the settings with their validation scores and what they gave, the chosen one marked."""
    chosen = headline(study, model)
    labels = settings(study, model)
    held = validation_scores([cell.result for label in labels for cell in study.of(model, label)])
    seeds = common_seeds(held)
    rows = tuple(
        (
            Entry(shown(study, model, label)),
            Entry(str(len(study.of(model, label)))),
            Entry(spread([held[label][seed] for seed in seeds if label in held]).text(4), label == chosen),
            *(Entry(figures.spreads(study, model, [label], get)[0].text(digits)) for _, get, digits in _SCORES),
        )
        for label in labels
    )
    return Table(
        f"{model}: settings of FedCKA, and which one is the headline",
        ("Setting", "Seeds", "Validation NDS", *(heading for heading, _, _ in _SCORES)),
        rows,
        "The rule, fixed beforehand: the headline is the setting with the best NDS on held-out training scenes, mean "
        f"over clients (bold), on what every setting has run: seed {', '.join(map(str, seeds))}. Those scenes neither "
        "train nor test, and no test figure has a say. Test figures are means over the seeds of a row ± sample "
        "standard deviation; rows of one seed and of more do not compare.",
    )


def insides(study: Study, model: str) -> Table:
    """Return what each setting keeps on the robots, sends and costs."""
    labels = settings(study, model)
    counts = [len(layers.units_of(cell)) for label in labels for cell in study.of(model, label)]
    rows = tuple((Entry(shown(study, model, label)), *_entries(study, model, label, _INSIDE)) for label in labels)
    header = [heading.format(units=max(counts, default=0)) for heading, _, _ in _INSIDE]
    return Table(
        f"{model}: what the settings of FedCKA keep, send and cost",
        ("Setting", *header),
        rows,
        "Personal: after the last round, mean over the clients; a percentage rule takes layers whole, so the realised "
        "share may go over ρ. Nobody shares: units that stay with every robot, so that the global model keeps an old "
        "one. Upload: all robots and rounds, by the paper's accounting. CKA: seconds of one robot's comparison in one "
        "round; share of training: all comparisons of a run over its training time, which holds them; memory: the most "
        "that a robot told of beside its own model, that is the global model and the outputs that wait for their "
        "partner. What forward passes hold meanwhile is measured by benchmarks/bench_cka.py.",
    )


def readings(study: Study, model: str) -> Table | None:
    """Return how many layers each threshold would pick in the last compared round, read both ways; None without."""
    label = headline(study, model)
    runs = [] if label is None else study.of(model, label)
    if label is None or not any(figures.told(cell, f"below_tau/{GRID[0]:g}") for cell in runs):
        return None
    rows = []
    for tau in GRID:
        columns = [
            spread(_known(figures.last_told(cell, f"{name}/{tau:g}") for cell in runs))
            for name in ("below_tau", "distance_above_tau")
        ]
        rows.append((Entry(f"{tau:g}"), *(Entry(found.short(1)) for found in columns)))
    number_of = len(layers.layer_names(runs[0]))
    return Table(
        f"{model}: how many of {number_of} layers a threshold τ picks, in both readings",
        ("τ", "Similarity: CKA < τ", "Distance: 1 − CKA > τ"),
        tuple(rows),
        f"Mean over the clients, last compared round, {name_of(label)}. The released code changed between a distance "
        "and a similarity, and it is not known which one made the published tables; ours is CKA < τ, as in the paper's "
        "text.",
    )


def option_table(study: Study, model: str) -> Table | None:
    """Return each run with other changes below what it changes; None without any."""
    rows: list[tuple[Entry, ...]] = []
    for base, labels in changed(study, model).items():
        rows += [_row(study, model, label, base) for label in dict.fromkeys((base, *labels)) if study.of(model, label)]
    if not rows:
        return None
    header = ("Setting", "Seeds", *map(letter_of, clients_of(study)), "Weighted mean", "Mean − base", "Seeds better")
    return Table(
        f"{model}: other options, NDS",
        (*header, "Personal entries [%]"),
        tuple(rows),
        "Mean − base: seed by seed against the row above without the change. A single seed has no spread and decides "
        "nothing. Debiased: CKA that is near 0 for unrelated features. layers: what one bit of the mask switches; "
        "block joins a convolution with its norm, released takes the released code's overlapping modules.",
    )


def _row(study: Study, model: str, label: str, base: str) -> tuple[Entry, ...]:
    ours, theirs = (study.values(model, each, figures.macro("nds")) for each in (label, base))
    values = [study.values(model, label, figures.own("nds", client)) for client in clients_of(study)]
    share = study.values(model, label, figures.personal("share", 100.0))
    return (
        Entry(name_of(label)),
        Entry(str(len(study.of(model, label)))),
        *(Entry(spread(list(by_seed.values())).text()) for by_seed in (*values, ours)),
        *difference({} if label == base else paired(ours, theirs), 3, less_is_better=False),
        Entry(spread(list(share.values())).short(1)),
    )


def _entries(study: Study, model: str, label: str, columns: Sequence[tuple[str, Reader, int]]) -> list[Entry]:
    return [Entry(spread(list(study.values(model, label, get).values())).short(digits)) for _, get, digits in columns]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def probe_seconds(cell: Cell) -> float | None:
    """Return the seconds of one robot's comparison, mean over robots and rounds."""
    return figures.mean_of(value for _, _, value in figures.told(cell, _SECONDS))


def probe_share(cell: Cell) -> float | None:
    """Return the per cent of training time that all comparisons of a run took."""
    total = number(figures.branch(cell.result, "seconds").get("train"))
    found = [value for _, _, value in figures.told(cell, _SECONDS)]
    return 100.0 * sum(found) / total if found and total else None


def probe_megabytes(cell: Cell) -> float | None:
    """Return the most memory of a comparison beside the robot's own model, over robots and rounds [MB]."""
    found = [value for _, _, value in figures.told(cell, _BYTES)]
    return max(found) / 1e6 if found else None


def shared_by_nobody(cell: Cell) -> float | None:
    """Return how many units stay with every robot after the last round."""
    masks = list(layers.last_masks(cell).values())
    if not masks or len({mask.shape for mask in masks}) > 1:
        return None
    together = masks[0].copy()
    for mask in masks[1:]:
        together &= mask
    return float(together.sum())


def _upload(cell: Cell) -> float | None:
    found = traffic.accounted(cell)
    return None if found is None else round(found / 1e6, 9)


_SCORES: tuple[tuple[str, Reader, int], ...] = (
    ("NDS, weighted", figures.macro("nds"), 3),
    ("NDS, plain", figures.plain("nds"), 3),
    ("mAP, weighted", figures.macro("map"), 3),
    ("NDS on other domains", figures.macro("other_nds"), 3),
)
_INSIDE: tuple[tuple[str, Reader, int], ...] = (
    ("Personal entries [%]", figures.personal("share", 100.0), 1),
    ("Personal units (of {units})", figures.personal("units"), 1),
    ("Nobody shares", shared_by_nobody, 1),
    ("Upload [MB]", _upload, 2),
    ("CKA [s]", probe_seconds, 2),
    ("CKA of training [%]", probe_share, 1),
    ("CKA memory [MB]", probe_megabytes, 1),
)
