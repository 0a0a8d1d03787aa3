"""What went wrong in a run: robots that were waited for in vain, warnings of the method, and lines of logs."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fed_cli.reports.history import History
from fed_cli.reports.tables import left_out
from fed_core.study.report.document import Block, Paragraph, Table, rows_of

#: Most rows of a table, and most bytes of a log that are read.
_MOST_ROWS, _MOST_BYTES = 100, 20_000_000
_MOST_TEXT = 300
_LINE = re.compile(r"^\[(WARN|ERROR|FATAL)\] \[[\d.]+\] \[([^\]]+)\]: (.*)$")


def faults(history: History) -> list[Block]:
    """Return tables of faults; a sentence where there are none."""
    found: list[Block] = [*_absent(history), *_refused(history), *_warnings(history)]
    fine = "Every robot that was asked for was counted in every closed round, and the method warned of nothing."
    return found or [Paragraph(fine)]


def _absent(history: History) -> Iterator[Table]:
    rounds: dict[int, list[str]] = {}
    for number, robot in history.absent():
        rounds.setdefault(number, []).append(robot)
    rows = [(str(number), str(len(robots)), _names(robots)) for number, robots in rounds.items()]
    if rows:
        note = "They were asked for in the plan; they were away, too late or refused."
        note += left_out(min(_MOST_ROWS, len(rows)), len(rows), "rounds")
        header = ("Round", "Count", "Robots without an update")
        yield Table("Robots that were not counted", header, rows_of(*rows[:_MOST_ROWS]), note)


def _refused(history: History) -> Iterator[Table]:
    """Yield what the aggregator refused until the round closed; older journals do not tell."""
    rows = [
        (str(one.number), str(robot), str(told.get("count")), str(told.get("code")), str(told.get("text")))
        for one in history.rounds
        for robot, told in dict(one.log.get("refused") or {}).items()
    ]
    if rows:
        note = "Messages of registered robots that were dropped until the round closed, and why the last of them was."
        note += left_out(min(_MOST_ROWS, len(rows)), len(rows), "rows")
        header = ("Round", "Robot", "Count", "Code", "Text of the last")
        yield Table("Refused by the aggregator", header, rows_of(*rows[:_MOST_ROWS]), note)


def _names(robots: list[str], most: int = 20) -> str:
    return ", ".join(robots[:most]) + (f" and {len(robots) - most} more" if len(robots) > most else "")


def _warnings(history: History) -> Iterator[Table]:
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for one in history.rounds:
        for text in one.log.get("warnings", ()):
            counts[str(text)] += 1
            first.setdefault(str(text), one.number)
    rows = [(str(first[text]), str(count), text) for text, count in counts.items()]
    if rows:
        yield Table("Warnings of the method", ("First round", "Rounds", "Text"), rows_of(*rows[:_MOST_ROWS]))


def log_table(folder: Path) -> list[Block]:
    """Return the warnings and errors of the logs in ``folder``, equal ones counted; refusals are among them."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for path in sorted(folder.glob("*.log")):
        counts.update(_lines(path))
    if not counts:
        return []
    order = {"FATAL": 0, "ERROR": 1, "WARN": 2}
    worst = sorted(counts.items(), key=lambda item: (order[item[0][0]], -item[1], item[0]))
    rows = [(node, level.lower(), str(count), text) for (level, node, text), count in worst]
    note = "Warnings and errors of all nodes, refusals of the aggregator among them; # stands for a long number."
    note += left_out(min(_MOST_ROWS, len(rows)), len(rows), "texts")
    header = ("Node", "Level", "Count", "Text")
    return [Table("Lines of the logs", header, rows_of(*rows[:_MOST_ROWS]), note)]


def _lines(path: Path) -> Iterator[tuple[str, str, str]]:
    read = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            read += len(line)
            if read > _MOST_BYTES:
                return
            match = _LINE.match(line.rstrip())
            if match:
                level, node, text = match.groups()
                yield level, node, re.sub(r"\d{4,}(\.\d+)?|\d+\.\d+", "#", text)[:_MOST_TEXT]
