"""What each robot of a run did: in all, and round by round."""

from collections.abc import Callable, Sequence

from fed_cli.reports.history import History, Update
from fed_cli.reports.plots import Grid, Number, Scale, fields
from fed_cli.reports.tables import MISSING, evenly, figure, left_out, size, with_spread
from fed_core.study.report.document import Chart, Table, rows_of

#: Most robots with a row in a picture, and with a row in a table.
MOST_ROWS, MOST_TOLD = 60, 200
#: Most rounds side by side.
_MOST_ROUNDS = 40
_MB = 1e6
#: A longer table of robots is closed until one opens it.
_MOST_OPEN = 20

Read = Callable[[int, str], Number]


def robot_table(history: History) -> Table:
    """Return a row for each robot: what it did in the whole run."""
    names = history.names
    absent: dict[str, int] = {}
    for _, robot in history.absent():
        absent[robot] = absent.get(robot, 0) + 1
    given: dict[str, int] = {}
    for one in history.trained:
        for robot, count in one.received_bytes.items():
            given[robot] = given.get(robot, 0) + count
    mine: dict[str, list[Update]] = {}
    for (_, robot), update in sorted(history.updates.items()):
        mine.setdefault(robot, []).append(update)
    rows = [_robot_row(name, mine.get(name, []), absent.get(name, 0), given.get(name, 0)) for name in names]
    header = ("Robot", "Samples", "Updates", "Missed", "First loss", "Last loss", "Training [s]", "Sent", "Given")
    note = left_out(min(MOST_TOLD, len(rows)), len(rows), "robots").strip()
    return Table("Robots", header, rows_of(*rows[:MOST_TOLD]), note, folded=len(rows) > _MOST_OPEN)


def _robot_row(name: str, updates: Sequence[Update], missed: int, given: int) -> tuple[str, ...]:
    known = [update.loss for update in updates if update.loss is not None]
    took = [update.seconds for update in updates if update.seconds is not None]
    return (
        name,
        str(updates[-1].samples) if updates else MISSING,
        str(len(updates)),
        str(missed),
        figure(known[0] if known else None),
        figure(known[-1] if known else None),
        with_spread(took),
        size(sum(update.sent_bytes for update in updates)),
        size(given),
    )


def by_robot(history: History) -> Chart:
    """Return loss, seconds and bytes as maps of robots by rounds."""
    names, trained = history.names, history.trained
    robots, shown = evenly(names, MOST_ROWS), evenly(trained, _MOST_ROUNDS)
    given = {one.number: one.received_bytes for one in trained}

    def told(read: Callable[[Update], Number]) -> Read:
        return lambda number, robot: read(u) if (u := history.updates.get((number, robot))) else None

    readers: dict[str, Read] = {
        "training loss": told(lambda update: update.loss),
        "training [s]": told(lambda update: update.seconds),
        "sent [MB]": told(lambda update: update.sent_bytes / _MB),
        "given [MB]": lambda number, robot: given[number].get(robot, 0) / _MB,
    }
    columns = [str(one.number) for one in shown]
    values = {title: [[read(one.number, r) for one in shown] for r in robots] for title, read in readers.items()}
    grids = {title: (Grid(robots, columns, rows), _scale(title, rows)) for title, rows in values.items()}
    rows = [
        (robot, *(", ".join(figure(values[title][k][column], 3) for title in values) for column in range(len(shown))))
        for k, robot in enumerate(robots)
    ]
    more = left_out(len(robots), len(names), "robots") + left_out(len(shown), len(trained), "rounds")
    return Chart(
        fields(grids, x_title="round"),
        f"{', '.join(readers)} of {len(robots)} robots of {history.name} over {len(shown)} rounds",
        "The menu chooses what is shown. Lighter: more; one value of twenty exceeds the lightest colour. Empty: "
        "no update was counted." + more,
        Table(
            f"Robots by round: {', '.join(readers)}",
            ("Robot", *(f"round {column}" for column in columns)),
            rows_of(*rows),
            "In each field: " + ", ".join(readers) + ".",
            folded=True,
        ),
    )


def _scale(title: str, rows: Sequence[Sequence[Number]]) -> Scale:
    """Return a scale on which a few robots that diverge do not leave one colour to all others."""
    known = sorted(value for row in rows for value in row if value is not None)
    if not known:
        return Scale(title)
    low, high = known[0], known[min(len(known) - 1, int(0.95 * len(known)))]
    return Scale(title, low, high if high > low else low + 1.0)
