"""What single changes do: DALoss on two methods (the paper's Table II), the direction of the weights, options."""

from collections.abc import Sequence

from fed_core.study.report.bev.figures import MEAN, chosen_round, clients_of, headline
from fed_core.study.report.bev.methods import (
    FEDBEVT,
    FEDBEVT_DALOSS,
    FEDDWA,
    FEDDWA_DALOSS,
    SCAFFOLD,
    directions,
    federated,
    method_of,
    name_of,
    references,
)
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.entries import difference, marked
from fed_core.study.report.results import Study
from fed_core.study.report.statistics import paired, spread

_DIFFERENCE = ("Mean − base", "Seeds better")


def loss_ablation(study: Study, model: str) -> Table | None:
    """Return FedBEVT and FedDWA without and with DALoss: IoU and round of every client; None without a pair."""
    both = ((FEDBEVT, FEDBEVT_DALOSS), (FEDDWA, FEDDWA_DALOSS))
    pairs = [pair for pair in both if all(study.of(model, label) for label in pair)]
    labels = [label for pair in both for label in pair if study.of(model, label)]
    if not pairs:
        return None
    columns: list[list[Entry]] = []
    for client in clients_of(study):
        found = [spread(list(study.values(model, label, headline(client)).values())) for label in labels]
        columns.append(marked(found, 2, less_is_better=False))
        rounds = [study.values(model, label, chosen_round(client, "honest")) for label in labels]
        columns.append([Entry(spread(list(by_seed.values())).short(0)) for by_seed in rounds])
    found = [spread(list(study.values(model, label, headline(MEAN)).values())) for label in labels]
    columns.append(marked(found, 2, less_is_better=False))
    rows = list(zip([Entry(name_of(label)) for label in labels], *columns, strict=True))
    rows.extend(_gain_row(study, model, without, with_it) for without, with_it in pairs)
    header = [text for client in clients_of(study) for text in (f"{client} IoU", f"{client} round")]
    return Table(
        f"{model}: what DALoss adds",
        ("Method", *header, "Mean IoU"),
        tuple(rows),
        "IoU [%] on the test frames, and the round, chosen on validation frames. Rows “DALoss adds”: difference in "
        "points, taken seed by seed.",
    )


def _gain_row(study: Study, model: str, without: str, with_it: str) -> tuple[Entry, ...]:
    texts = []
    for client in clients_of(study):
        texts += [_gain(study, model, with_it, without, client), Entry("–")]
    return Entry(f"DALoss adds to {name_of(without)}"), *texts, _gain(study, model, with_it, without, MEAN)


def _gain(study: Study, model: str, label: str, base: str, client: str) -> Entry:
    ours, theirs = (study.values(model, name, headline(client)) for name in (label, base))
    return difference(paired(ours, theirs), 2, less_is_better=False)[0]


def direction_table(study: Study, model: str) -> Table | None:
    """Return the directions of FedDWA's weights side by side, SCAFFOLD at the end; None with one direction only."""
    found = directions(study, model)
    rows = []
    for base, labels in found.items():
        name = name_of(base)
        rows += [_row(study, model, label, base, f"{name}, {direction}") for direction, label in labels.items()]
    if rows and study.of(model, SCAFFOLD):
        rows.append(_row(study, model, SCAFFOLD, FEDDWA, name_of(SCAFFOLD)))
    return _table(
        study,
        f"{model}: direction of the weights",
        rows,
        "How a robot's weight follows its KL divergence T: increasing, w ~ T; inverse, w ~ 1 / T; softmax_neg, "
        "w ~ exp(−T / mean T); uniform, 1 / M; size, samples. The paper does not state the direction; the base is "
        "increasing.",
    )


def option_table(study: Study, model: str) -> Table | None:
    """Return each label with other changes below its base; None without any.

    A method on fewer seeds than the main ones is a change of what it wraps: FedAvg + DALoss one of FedAvg.
    """
    shown = {label for labels in directions(study, model).values() for label in labels.values()}
    shown |= {*federated(study, model), *references(study, model)}
    groups: dict[str, list[str]] = {}
    for method in (method_of(label) for label in study.finished(model) if label not in shown):
        groups.setdefault((method.wrapped if method.is_main else method.base) or method.label, []).append(method.label)
    rows = []
    for base, labels in groups.items():
        rows += [_row(study, model, label, base, name_of(label)) for label in dict.fromkeys((base, *labels))]
    return _table(study, f"{model}: changed options", rows, "")


def _row(study: Study, model: str, label: str, base: str, name: str) -> tuple[Entry, ...]:
    ours, theirs = (study.values(model, each, headline(MEAN)) for each in (label, base))
    values = [study.values(model, label, headline(client)) for client in clients_of(study)]
    return (
        Entry(name),
        Entry(str(len(study.of(model, label)))),
        *(Entry(spread(list(by_seed.values())).text(2)) for by_seed in (*values, ours)),
        *difference({} if label == base else paired(ours, theirs), 2, less_is_better=False),
    )


def _table(study: Study, caption: str, rows: Sequence[tuple[Entry, ...]], note: str) -> Table | None:
    if not rows:
        return None
    header = ("Setting", "Seeds", *clients_of(study), "Mean", *_DIFFERENCE)
    text = (
        "IoU [%] of the round chosen on validation frames. Mean − base: in points, seed by seed against the same "
        "method without the change; positive is better. A single seed has no spread and decides nothing."
    )
    return Table(caption, header, tuple(rows), f"{note} {text}".strip())
