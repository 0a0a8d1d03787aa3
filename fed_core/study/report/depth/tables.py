"""The tables of a study's results."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fed_core.study.report.depth import curves
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.entries import marked
from fed_core.study.report.results import REFERENCES, Cell, Metrics, Study, is_ablation, number, read_metric
from fed_core.study.report.statistics import Spread, spread


class Column(NamedTuple):
    """A metric in a table."""

    metric: str
    heading: str
    digits: int
    less_is_better: bool


COLUMNS = (
    Column("abs_rel", "AbsRel ↓", 3, True),
    Column("sq_rel", "SqRel [m] ↓", 3, True),
    Column("rmse_m", "RMSE [m] ↓", 3, True),
    Column("rmse_log", "RMSE log ↓", 3, True),
    Column("log10", "log10 ↓", 3, True),
    Column("silog", "SIlog ↓", 2, True),
    Column("delta1", "δ1 ↑", 3, False),
    Column("delta2", "δ2 ↑", 3, False),
    Column("delta3", "δ3 ↑", 3, False),
)


def federated(study: Study, model: str) -> list[str]:
    """Return the finished federated strategies with their default options."""
    return [s for s in study.finished(model) if not is_ablation(s) and s not in REFERENCES]


def references(study: Study, model: str) -> list[str]:
    """Return the finished references."""
    return [s for s in study.finished(model) if s in REFERENCES]


def accuracy(study: Study, model: str) -> Table:
    """Return the main table: strategy x metric, the best federated strategy of each column marked."""
    labels = federated(study, model)
    return Table(
        f"{model}: accuracy on unseen sequences",
        _ACCURACY_HEADER,
        _accuracy_rows(study, model, labels, mark=True),
        "Mean over the test sequences (macro), ± sample standard deviation over the seeds; without ± only one seed is "
        "finished. Bold: best federated mean of the column. Scored are the frames after the descriptor prefix, the "
        "same for every strategy; “all frames” counts the prefix too, “micro” is the mean over frames.",
    )


def reference_accuracy(study: Study, model: str) -> Table:
    """Return the same table of the references, which are no federation."""
    rows = _accuracy_rows(study, model, references(study, model), mark=False)
    return Table(
        f"{model}: references, not federated",
        _ACCURACY_HEADER,
        rows,
        "centralised: one network trained on all recordings pooled. local: each robot trains alone.",
    )


_ACCURACY_HEADER = ("Strategy", "Seeds", *(c.heading for c in COLUMNS), "AbsRel, all frames", "AbsRel, micro")


def _accuracy_rows(study: Study, model: str, labels: list[str], *, mark: bool) -> tuple[tuple[Entry, ...], ...]:
    getters: list[tuple[Callable[[Cell], float | None], int, bool]] = [
        (_macro(c.metric), c.digits, c.less_is_better) for c in COLUMNS
    ]
    getters += [(_all_frames, 3, True), (lambda cell: read_metric(cell.result.get("micro"), "abs_rel"), 3, True)]
    columns = []
    for get, digits, less in getters:
        found = [spread(list(study.values(model, label, get).values())) for label in labels]
        columns.append(marked(found, digits, less_is_better=less) if mark else [Entry(s.text(digits)) for s in found])
    seeds = [Entry(str(len(study.of(model, label)))) for label in labels]
    names = [Entry(label) for label in labels]
    return tuple(zip(names, seeds, *columns, strict=True))


def costs(study: Study, model: str) -> Table:
    """Return clusters, traffic and time of every strategy."""
    robots = max(1, len(study.plan.get("clients") or []))

    def megabytes(name: str) -> Callable[[Cell], float | None]:
        unit = 1e6 * robots * max(1, study.rounds)
        # What a reference moves inside this machine is no traffic of a federation.
        return lambda cell: None if cell.label in REFERENCES else _scaled(cell.figure(name), unit)

    getters: tuple[tuple[Callable[[Cell], float | None], int], ...] = (
        (lambda cell: cell.figure("num_clusters"), 1),
        (lambda cell: cell.figure("memberships_mean"), 2),
        (lambda cell: cell.figure("singletons"), 1),
        (lambda cell: cell.figure("tau"), 3),
        (lambda cell: cell.figure("noise_floor"), 3),
        (lambda cell: cell.figure("fallback_rate"), 2),
        (megabytes("upload_bytes"), 2),
        (megabytes("download_bytes"), 2),
        (lambda cell: _scaled(cell.figure("descriptor_bytes"), 1e3 * robots), 1),
        (lambda cell: _scaled(number((cell.result.get("seconds") or {}).get("total")), 60.0), 1),
    )
    labels = [*federated(study, model), *references(study, model)]
    rows = tuple(
        (Entry(label), *(Entry(spread(list(study.values(model, label, get).values())).short(d)) for get, d in getters))
        for label in labels
    )
    header = ("Strategy", "Clusters K", "Clusters per robot", "Singletons", "τ", "Noise floor", "Fallback rate")
    traffic = ("Up [MB]", "Down [MB]", "Descriptor [kB]", "Time [min]")
    return Table(
        f"{model}: clusters, traffic, time",
        (*header, *traffic),
        rows,
        "Up and down: per robot and round; descriptor: per robot, once. Fallback rate: share of test sequences for "
        "which no cluster was within τ, so that the nearest one served. Time: whole run on this machine. "
        "No ±: equal for all seeds, or one seed.",
    )


def by_environment(study: Study, model: str) -> Table:
    """Return AbsRel for each platform x environment, and where there is a second, nearer cap, for that too."""
    labels = [*federated(study, model), *references(study, model)]
    candidates = len(federated(study, model))
    rows: list[tuple[str, list[Spread]]] = []
    for read in (_by_cell, _at_near_cap):
        for name in _environments(study, model, labels, read):
            rows.append((name, [_in_environment(study.of(model, label), read, name) for label in labels]))
    entries = [
        (Entry(name), *marked(s[:candidates], 3, less_is_better=True), *(Entry(x.text()) for x in s[candidates:]))
        for name, s in rows
    ]
    return Table(
        f"{model}: AbsRel by platform and environment",
        ("Platform / environment", *labels),
        tuple(entries),
        "Mean over the seeds ± sample standard deviation. Bold: best federated strategy of the row.",
    )


def convergence(study: Study, model: str) -> Table:
    """Return how fast and how steadily each strategy converges."""
    rows = []
    for label in [*federated(study, model), *references(study, model)]:
        last = study.values(model, label, lambda cell: curves.last_value(cell, curves.METRIC))
        figures = (
            (curves.rounds_to_own_best(study, model, label), 1),
            (curves.rounds_to_fedavg(study, model, label), 1),
            (curves.late_deviations(study, model, label), 4),
            (last, 3),
        )
        rows.append((Entry(label), *(Entry(spread(list(values.values())).text(d)) for values, d in figures)))
    return Table(
        f"{model}: convergence of AbsRel",
        ("Strategy", "Rounds to own best", "Rounds to FedAvg's last", "SD, last third", "AbsRel, last round"),
        tuple(rows),
        "Rounds to own best: first round within 5 % of the run's own best AbsRel (early also for a run that hardly "
        "learns). Rounds to FedAvg's last: first round at or below the AbsRel that FedAvg ends with on the same seed; "
        "a run that never gets there counts as one round more than it has. SD, last third: standard deviation over "
        "the last third of the rounds, small = steady. All: mean over the seeds ± sample standard deviation.",
    )


def clustering(study: Study, model: str) -> Table:
    """Return what tells whether the clusters are tight and whether their models stay apart (fedepth spec 5.2, 14)."""
    getters: tuple[tuple[Callable[[Cell], float | None], int], ...] = (
        (lambda cell: cell.figure("within_cluster_max"), 3),
        (lambda cell: cell.figure("top_share"), 3),
        (lambda cell: cell.logged("second_eigenvalue"), 3),
        (lambda cell: cell.logged("model_distance_mean", first=True), 3),
        (lambda cell: cell.logged("model_distance_mean"), 3),
    )
    rows = []
    for label in federated(study, model):
        found = [spread(list(study.values(model, label, get).values())) for get, _ in getters]
        if any(s.count for s in found):
            texts = (s.short(digits) for s, (_, digits) in zip(found, getters, strict=True))
            rows.append((Entry(label), *map(Entry, texts)))
    return Table(
        f"{model}: inside the clusters",
        ("Strategy", "Largest distance inside", "Top 1 % of channels", "Second eigenvalue", *_APART),
        tuple(rows),
        "Largest distance inside: of two robots of one cluster; above τ where neighbours chain. Top 1 % of channels: "
        "their share of the distances. Second eigenvalue of the mixing: near 0 clusters melt into one model quickly, "
        "at 1 some never meet. Models apart: mean ‖w_k − w_l‖ between cluster models after a round.",
    )


_APART = ("Models apart, first round", "Models apart, last round")


def _macro(metric: str) -> Callable[[Cell], float | None]:
    return lambda cell: cell.macro(metric)


def _all_frames(cell: Cell) -> float | None:
    found = [read_metric(sequence.get("metrics_all"), "abs_rel") for sequence in cell.sequences]
    return _mean(value for value in found if value is not None)


def _by_cell(cell: Cell) -> Mapping[str, float]:
    tree: Mapping[str, Metrics] = cell.result.get("by_cell") or {}
    found = {name: read_metric(metrics, "abs_rel") for name, metrics in tree.items()}
    return {name: value for name, value in found.items() if value is not None}


def _at_near_cap(cell: Cell) -> Mapping[str, float]:
    """Return AbsRel by environment and second cap, such as "ugv/indoor, cap 10 m"."""
    groups: dict[str, list[float]] = {}
    for sequence in cell.sequences:
        value = read_metric(sequence.get("metrics_near"), "abs_rel")
        if value is not None:
            name = (
                f"{sequence.get('platform')}/{sequence.get('environment')}, cap {sequence.get('near_cap_m') or 0:g} m"
            )
            groups.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in groups.items()}


def _environments(
    study: Study, model: str, labels: list[str], read: Callable[[Cell], Mapping[str, float]]
) -> list[str]:
    return sorted({name for label in labels for cell in study.of(model, label) for name in read(cell)})


def _in_environment(cells: list[Cell], read: Callable[[Cell], Mapping[str, float]], name: str) -> Spread:
    found = [read(cell).get(name) for cell in cells]
    return spread([value for value in found if value is not None])


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
