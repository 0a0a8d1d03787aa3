"""A run or a demo as sections."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fed_cli.fleetrun.figures import Figure, number, words_of
from fed_cli.reports.clusters import memberships
from fed_cli.reports.faults import faults, log_table
from fed_cli.reports.history import History
from fed_cli.reports.layers import layer_blocks
from fed_cli.reports.settings import settings_table, version_table
from fed_cli.reports.sources import Source
from fed_cli.reports.tables import MISSING, figure, mean, size
from fed_cli.reports.training import course, losses
from fed_core.errors import StoreError
from fed_core.study.report.document import Block, Entry, Paragraph, Picture, Section, Table, rows_of
from fed_core.study.report.png import shrink

#: Pictures of a demo, written at its end.
PREDICTIONS = "predictions.png"
_MOST_PICTURE_BYTES = 1_500_000


def head(source: Source) -> list[Block]:
    """Return what was run: facts of every run of the source, scores of a demo, its pictures, and what is missing."""
    found: list[Block] = [Paragraph(note) for note in source.notes]
    found.append(facts(source.histories))
    if source.summary is not None:
        try:
            found += [*_scores(source.summary), *_pictures(source)]
        except (KeyError, TypeError, AttributeError, IndexError) as err:
            text = f"{source.folder}/summary.json cannot be read: {err!r}; it is broken or of another version"
            raise StoreError(text) from err
    return found


def facts(histories: Sequence[History]) -> Table:
    """Return a row for each run."""
    whose = ("Run", "Task", "Network", "Strategy", "Seed", "Rounds", "Robots")
    header = (*whose, "Updates", "Missed", "First loss", "Last loss", "Seconds", "Sent", "Given")
    note = "Loss: mean of the robots. Seconds: from the start to the end of the last closed round."
    return Table("The runs" if len(histories) > 1 else "The run", header, rows_of(*map(_fact, histories)), note)


def _fact(history: History) -> tuple[str, ...]:
    config, known = history.config, [v for v in losses(history).values() if v]
    rounds = history.trained
    return (
        history.name,
        *(str(config.get(key, MISSING)) for key in ("task", "network", "strategy", "seed")),
        f"{len(rounds)} of {history.total_rounds}",
        str(len(history.names)),
        str(len(history.updates)),
        str(len(history.absent())),
        figure(mean(known[0]) if known else None),
        figure(mean(known[-1]) if known else None),
        figure(sum(history.seconds().values()) if rounds else None),
        size(sum(update.sent_bytes for update in history.updates.values())),
        size(sum(sum(one.received_bytes.values()) for one in rounds)),
    )


def run_blocks(history: History) -> list[Block]:
    """Return all that one run's journal tells, round by round."""
    return [
        *course(history),
        *memberships(history),
        *layer_blocks(history),
        *faults(history),
        settings_table(history.config, f"All settings of {history.name}"),
    ]


def demo_settings(source: Source) -> list[Block]:
    """Return logs, fleet file and versions of a source."""
    found: list[Block] = list(log_table(source.folder / "log"))
    if source.fleet:
        found.append(settings_table(source.fleet, "The fleet file"))
    found.append(version_table(source.histories, source.summary))
    return [block for block in found if not isinstance(block, Table) or block.rows]


def _scores(summary: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table of unseen sequences for each figure, the best method of each marked."""
    words = words_of(summary)
    sequences = summary["sequences"]
    yield _choices(sequences)
    for one in words.figures:
        methods = list(sequences[0][one.key]) if sequences else []
        rows = [_marked(str(row["name"]), [row[one.key].get(m) for m in methods], one) for row in sequences]
        means = [one.mean([row[one.key].get(m) for row in sequences]) for m in methods]
        rows.append(_marked("mean", means, one))
        better = "more" if one.higher else "less"
        note = f"{words.served.capitalize()} served live on sequences that nobody trained on; {better} is better."
        yield Table(f"{one.title} on unseen sequences", ("Sequence", *methods), tuple(rows), note)


def _marked(name: str, values: Sequence[float | None], one: Figure) -> tuple[Entry, ...]:
    best = one.best(values)
    return (Entry(name), *(Entry(number(v), v is not None and v == best) for v in values))


def _choices(sequences: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for row in sequences:
        distances = ", ".join(f"{k}: {value:.3g}" for k, value in enumerate(row["distances"])) or MISSING
        chosen = " ".join(map(str, row["clusters"])) or "all"
        fallback = "yes" if row["fallback"] else "no"
        rows.append((str(row["name"]), str(row["frames"]), chosen, distances, figure(row["threshold"]), fallback))
    header = ("Sequence", "Frames", "Clusters", "Distance of each cluster", "Threshold", "Nearest only")
    note = "Nearest only: no cluster was within the threshold, and the nearest one served."
    return Table("Models chosen for unseen sequences", header, rows_of(*rows), note)


def _pictures(source: Source) -> Iterator[Block]:
    path, words = source.folder / PREDICTIONS, words_of(source.summary or {})
    if not path.is_file():
        yield Paragraph(f"There is no {PREDICTIONS}; a demo draws it at its end.")
        return
    names = [str(row["name"]) for row in (source.summary or {})["sequences"]]
    try:
        png = shrink(path.read_bytes(), _MOST_PICTURE_BYTES)
    except OSError as err:
        yield Paragraph(f"{PREDICTIONS} cannot be read: {err}.")
        return
    yield Picture(
        "predictions",
        png,
        f"Input, {words.served} predicted by each method, and the truth, for {', '.join(names)}",
        f"Frames of the unseen sequences: the input, {words.served} of each method as served live, and the truth.",
    )


def sections(source: Source) -> list[Section]:
    """Return the sections of a run or a demo that is alone in its report."""
    found = [Section("What was run", tuple(head(source)))]
    for history in source.histories:
        title = "Rounds" if len(source.histories) == 1 else f"Rounds of {history.name}"
        found.append(Section(title, tuple(run_blocks(history))))
    last = demo_settings(source)
    return [*found, *([Section("Logs and versions", tuple(last))] if last else [])]


def among_others(source: Source) -> list[Section]:
    """Return the sections of a run or a demo beside others: one for each run, so that many stay clear."""
    if not source.is_demo:
        blocks = [*map(Paragraph, source.notes), *(b for h in source.histories for b in run_blocks(h))]
        return [Section(source.name, (*blocks, *demo_settings(source)))]
    rounds = [Section(history.name, tuple(run_blocks(history))) for history in source.histories]
    return [Section(source.name, (*head(source), *demo_settings(source))), *rounds]
