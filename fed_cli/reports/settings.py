"""What a run was told, and what software took part."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fed_cli.reports.history import History
from fed_cli.reports.tables import MISSING, left_out
from fed_core.study.report.document import Entry, Table, rows_of

_MOST_ROWS, _MOST_TEXT = 2000, 500


def flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted names and values of a JSON tree; entries of a list are told apart by their place."""
    if isinstance(tree, Mapping) and tree:
        for name, value in tree.items():
            yield from flat(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(tree, Sequence) and not isinstance(tree, str) and any(isinstance(e, Mapping) for e in tree):
        for place, value in enumerate(tree):
            yield from flat(value, f"{prefix}[{place}]")
    else:
        yield prefix, _text(tree)


def settings_table(tree: Mapping[str, Any], caption: str) -> Table:
    """Return all settings of a JSON tree, closed until one opens it."""
    rows = list(flat(tree))
    note = left_out(min(_MOST_ROWS, len(rows)), len(rows), "settings").strip()
    return Table(caption, ("Setting", "Value"), rows_of(*rows[:_MOST_ROWS]), note, folded=True)


def version_table(histories: Sequence[History], summary: Mapping[str, Any] | None) -> Table:
    """Return the versions that robots registered with, and those that a demo wrote down."""
    counts: dict[tuple[str, str], int] = {}
    for history in histories:
        for robot in history.robots.values():
            key = ("fed_perception on robots", str(robot.get("software") or "not told"))
            counts[key] = counts.get(key, 0) + 1
    rows = [(what, version) for what, version in counts]
    rows += [(str(k), str(v)) for k, v in ((summary or {}).get("versions") or {}).items()]
    return Table("Versions", ("Software", "Version"), rows_of(*rows))


def difference_table(trees: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the settings in which runs differ, a column for each run; those unlike the first run's are marked."""
    known = {name: dict(flat(tree)) for name, tree in trees.items()}
    settings = list(dict.fromkeys(setting for values in known.values() for setting in values))
    rows = []
    for setting in settings:
        texts = [values.get(setting, MISSING) for values in known.values()]
        if len(set(texts)) > 1:
            rows.append((Entry(setting), *(Entry(text, text != texts[0]) for text in texts)))
    return Table(
        "Settings that differ",
        ("Setting", *known),
        tuple(rows[:_MOST_ROWS]),
        "Marked: unlike the first run. All else is the same in these runs."
        + left_out(len(rows[:_MOST_ROWS]), len(rows), "settings"),
    )


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        text = ", ".join(map(_text, value)) or "none"
    elif value is None or value == {}:
        text = "none"
    elif isinstance(value, float):
        text = f"{value:g}"
    else:
        text = str(value)
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"
