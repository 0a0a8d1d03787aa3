"""Several runs or studies side by side."""

from collections.abc import Iterator, Sequence

from fed_cli.fleetrun.figures import words_of
from fed_cli.reports.history import History
from fed_cli.reports.plots import named_bars
from fed_cli.reports.runs import facts
from fed_cli.reports.settings import difference_table
from fed_cli.reports.sources import Source
from fed_cli.reports.studies import MOST_METHODS, Curve, curves_chart
from fed_cli.reports.tables import figure, left_out, mean, size, with_spread
from fed_cli.reports.training import losses
from fed_core.study.report.document import Block, Chart, Entry, Section, Table, rows_of
from fed_core.study.report.results import Study

_MB = 1e6


def comparison(sources: Sequence[Source]) -> list[Section]:
    """Return what several paths have in common, and where they differ; nothing for a single run or study."""
    histories = [history for source in sources for history in source.histories if history.trained]
    studies = [source for source in sources if source.study is not None]
    found: list[Block] = []
    if len(sources) > 1 and histories:  # one demo tells its runs itself
        found.append(facts(histories))
    if len(histories) > 1:
        found += _runs(histories)
    found += _scores([source for source in sources if source.summary])
    if len(studies) > 1:
        found += _studies(studies)
    blocks = tuple(block for block in found if not isinstance(block, Table) or block.rows)
    return [Section("Side by side", blocks)] if blocks else []


def _runs(histories: Sequence[History]) -> Iterator[Block]:
    same = _by_method(histories)
    curves = {name: [_curve(history) for history in runs] for name, runs in same.items()}
    yield curves_chart(curves, "training loss", f"{len(histories)} runs")
    yield _costs(same)
    yield difference_table({history.name: history.config for history in histories[:MOST_METHODS]})


def _by_method(histories: Sequence[History]) -> dict[str, list[History]]:
    """Return runs that differ in nothing but their seed together, by a name for people."""
    found: dict[str, list[History]] = {}
    for history in histories:
        key = repr(sorted((k, v) for k, v in history.config.items() if k != "seed"))
        found.setdefault(key, []).append(history)
    named: dict[str, list[History]] = {}
    for runs in found.values():
        seeds = {history.config.get("seed") for history in runs}
        if len(runs) > 1 and len(seeds) == len(runs):
            name = f"{runs[0].config.get('strategy')}, {len(runs)} seeds"
            named[f"{name}, {runs[0].name}" if name in named else name] = runs
        else:  # twice the same run: a line each
            named |= {f"{history.name} ({history.config.get('strategy')})": [history] for history in runs}
    return named


def _curve(history: History) -> list[tuple[int, float]]:
    pairs = ((number, mean(values)) for number, values in losses(history).items())
    return [(number, value) for number, value in pairs if value is not None]


def _costs(same: dict[str, list[History]]) -> Chart:
    """Return bytes and seconds of a round of each method, mean over its runs."""
    rows, sent, given = [], [], []
    for name, runs in same.items():
        count = sum(len(history.trained) for history in runs)
        up = sum(update.sent_bytes for history in runs for update in history.updates.values()) / count
        down = sum(sum(one.received_bytes.values()) for history in runs for one in history.trained) / count
        seconds = [value for history in runs for value in history.seconds().values()]
        sent.append(up / _MB)
        given.append(down / _MB)
        rows.append((name, size(up), size(down), with_spread(seconds)))
    return Chart(
        named_bars(list(same), {"robots send": sent, "robots are given": given}, title="megabytes in a round"),
        "Bytes of a round: " + "; ".join(f"{name}: {up} and {down}" for name, up, down, _ in rows),
        "Mean over the rounds, all robots together.",
        Table("Bytes and seconds of a round", ("Run", "Robots send", "Robots are given", "Seconds"), rows_of(*rows)),
    )


def _scores(demos: Sequence[Source]) -> Iterator[Table]:
    """Yield mean figures of the methods of several demos, a table for each task."""
    tasks: dict[str, list[Source]] = {}
    for demo in demos:
        tasks.setdefault(str((demo.summary or {}).get("task", "depth")), []).append(demo)
    for task, found in tasks.items():
        if len(found) < 2:
            continue
        figures = words_of({"task": task}).figures
        rows = []
        for demo in found:
            sequences = (demo.summary or {}).get("sequences") or []
            for method in sequences[0][figures[0].key] if sequences else ():
                means = [one.mean([row[one.key].get(method) for row in sequences]) for one in figures]
                rows.append((demo.name, str(method), str(len(sequences)), *map(figure, means)))
        header = ("Demo", "Method", "Sequences", *(one.title for one in figures))
        yield Table(f"{task}: mean over the unseen sequences", header, rows_of(*rows))


def _studies(sources: Sequence[Source]) -> Iterator[Block]:
    """Yield main figures and curves of the studies of each task."""
    tasks: dict[str, list[tuple[str, Study]]] = {}
    for source in sources:
        if source.study is not None:
            tasks.setdefault(str(source.study.plan.get("task", "depth")), []).append((source.name, source.study))
    for task, found in tasks.items():
        if len(found) > 1:
            yield from _of_task(task, found)
    yield difference_table({s.name: s.study.plan.get("options") or {} for s in sources if s.study is not None})


def _of_task(task: str, found: Sequence[tuple[str, Study]]) -> Iterator[Block]:
    names = [name for name, _ in found]
    main = words_of({"task": task}).figures[0]
    keys = list(dict.fromkeys(key[:2] for _, study in found for key in study.cells))
    rows, curves = [], {}
    for model, label in keys:
        texts = []
        for name, study in found:
            texts.append(with_spread(list(study.values(model, label, lambda cell: cell.macro(main.key)).values())))
            drawn: list[Curve] = [cell.curve(main.key) for cell in study.of(model, label)]
            if any(drawn):
                curves[f"{name}: {label} ({model})"] = drawn
        rows.append((Entry(label), Entry(model), *map(Entry, texts)))
    note = f"{main.title}, {'more' if main.higher else 'less'} is better; mean ± sample standard deviation over seeds."
    note += left_out(len(rows[:500]), len(rows), "rows")
    yield Table(f"{task}: {main.title} of the studies", ("Strategy", "Model", *names), tuple(rows[:500]), note)
    if curves:
        yield curves_chart(curves, main.title, "studies")
