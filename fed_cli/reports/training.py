"""Charts of a run's course: loss, seconds and bytes of every round, and of every robot in it."""

from collections.abc import Callable

from fed_cli.reports.history import History, Update
from fed_cli.reports.plots import Line, bars, lines
from fed_cli.reports.robots import by_robot, robot_table
from fed_cli.reports.tables import deviation, evenly, figure, left_out, mean, size, with_spread
from fed_core.study.report.document import Block, Chart, Paragraph, Table, rows_of

#: Most robots with a line of their own.
MOST_LINES = 8
#: Most rounds in a picture or a table.
MOST_ROUNDS = 100
_MB = 1e6


def course(history: History) -> list[Block]:
    """Return what a run's rounds are made of; a sentence where none has closed."""
    if not history.trained:
        asked = history.total_rounds
        return [Paragraph(f"None of its {asked} rounds has closed yet." if asked else "It asked for no round.")]
    return [_loss(history), _seconds(history), _bytes(history), robot_table(history), by_robot(history)]


def losses(history: History) -> dict[int, list[float]]:
    """Return the finite losses of every closed round."""
    return _by_round(history, lambda update: update.loss)


def _by_round(history: History, read: Callable[[Update], float | None]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {one.number: [] for one in history.trained}
    for (number, _), update in sorted(history.updates.items()):
        value = read(update)
        if number in found and value is not None:
            found[number].append(value)
    return found


def _loss(history: History) -> Chart:
    found = losses(history)
    rounds = list(found)
    every = Line(
        "mean of the robots",
        rounds,
        [mean(v) for v in found.values()],
        [deviation(v) or 0.0 if v else None for v in found.values()],
    )
    names = history.names
    single = [
        Line(name, rounds, [_loss_of(history, n, name) for n in rounds])
        for name in (names if len(names) <= MOST_LINES else [])
    ]
    figures = lines([every, *single], x_title="round", y_title="training loss")
    rows = [
        (str(n), with_spread(v), figure(min(v, default=None)), figure(max(v, default=None)), str(len(v)))
        for n, v in found.items()
    ]
    shown = evenly(rows, MOST_ROUNDS)
    note = left_out(len(shown), len(rows), "rounds").strip()
    table = Table("Training loss", ("Round", "Mean", "Least", "Most", "Robots"), rows_of(*shown), note)
    return Chart(
        figures,
        f"Training loss of {history.name} against the round, from {rows[0][1]} to {rows[-1][1]}",
        "As the robots reported it. Band: ± one sample standard deviation over the robots."
        + ("" if single else f" The {len(names)} robots are told one by one in a picture below."),
        table,
    )


def _loss_of(history: History, number: int, robot: str) -> float | None:
    update = history.updates.get((number, robot))
    return None if update is None else update.loss


def _seconds(history: History) -> Chart:
    trained = _by_round(history, lambda update: update.seconds)
    whole, rounds = history.seconds(), list(trained)
    found = [
        Line("whole round", rounds, [whole.get(n) for n in rounds]),
        Line(
            "training, mean of the robots",
            rounds,
            [mean(v) for v in trained.values()],
            [deviation(v) or 0.0 if v else None for v in trained.values()],
        ),
        Line("training, slowest robot", rounds, [max(v, default=None) for v in trained.values()]),
    ]
    rows = [(str(n), figure(whole.get(n)), with_spread(v), figure(max(v, default=None))) for n, v in trained.items()]
    header = ("Round", "Whole round [s]", "Training [s]", "Slowest robot [s]")
    shown = evenly(rows, MOST_ROUNDS)
    return Chart(
        lines(found, x_title="round", y_title="seconds"),
        f"Seconds of each round of {history.name}, and of training in it",
        "Whole round: from the end of the round before to its own. Training: as the robots reported it.",
        Table("Seconds of each round", header, rows_of(*shown), left_out(len(shown), len(rows), "rounds").strip()),
    )


def _bytes(history: History) -> Chart:
    sent, received, rounds = [], [], []
    for one in history.trained:
        rounds.append(one.number)
        sent.append(sum(update.sent_bytes for update in history.of_round(one.number).values()))
        received.append(sum(one.received_bytes.values()))
    found = [
        Line("robots send", rounds, [n / _MB for n in sent]),
        Line("robots are given", rounds, [n / _MB for n in received]),
    ]
    rows = [(str(n), size(up), size(down)) for n, up, down in zip(rounds, sent, received, strict=True)]
    shown = [*evenly(rows, MOST_ROUNDS), ("all", size(sum(sent)), size(sum(received)))]
    return Chart(
        bars(found, x_title="round", y_title="megabytes"),
        f"Bytes of each round of {history.name}: robots send {shown[-1][1]} and are given {shown[-1][2]} in all",
        "Sizes of updates, and of the models that the plan after the round names, each once for every robot; parts "
        "that were sent twice and the middleware's own bytes are not in it.",
        Table("Bytes of each round", ("Round", "Robots send", "Robots are given"), rows_of(*shown)),
    )
