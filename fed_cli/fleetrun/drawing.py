"""Draws a fleet's state as text: the run, its robots, their clusters, what inference serves, what is wrong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fed_cli.fleetrun.marks import UNICODE, Marks
from fed_cli.fleetrun.state import Fault, FleetState, nearest

_MB = 1e6
#: Clusters beyond these are listed by number.
_MOST_DOTS = 16
#: Widths from which on there is room for longer bars, and for what robots say.
_ROOMY, _WIDE = 100, 120
_COLOURS = {
    "failed": "red",
    "set aside": "red",
    "away": "yellow",
    "training": "cyan",
    "reported": "green",
    "finished": "green",
}
_LEFT = ("robot", "doing", "", "history", "says")
#: Lists of selections and faults are at most this long.
_MOST_SELECTIONS, _MOST_FAULTS = 4, 5


@dataclass(frozen=True)
class Canvas:
    """Where a picture goes.

    Attributes:
        width: characters of a line.
        height: lines; 0 = as many as it takes.
        marks: characters of bars and the like.
    """

    width: int = 80
    height: int = 0
    marks: Marks = UNICODE


def draw_fleet(state: FleetState, canvas: Canvas, title: str = "") -> Group:
    """Return the whole picture; robots that find no room are counted, those in trouble come first then."""
    above: list[RenderableType] = [*_head(state, canvas, title)]
    below: list[RenderableType] = [*_selections(state), *_faults(state.faults())]
    room = canvas.height - len(above) - len(below) - 2 if canvas.height else 0
    return Group(*above, *_robots(state, canvas, max(3, room) if canvas.height else 0), *below)


def _plain(text: str) -> str:
    """Return a text without characters that move the cursor or command the terminal: robots choose what they say."""
    return "".join(char if char.isprintable() else " " for char in text)


def _line(text: str, style: str = "") -> Text:
    return Text(_plain(text), style=style, no_wrap=True, overflow="ellipsis", end="\n")


def _head(state: FleetState, canvas: Canvas, title: str) -> list[Text]:
    fleet, plan = state.fleet, state.plan
    if not fleet:
        return [_line(title, "bold")]
    same = plan.get("run") == fleet["run"]
    what = [
        f"run {fleet['run']}",
        fleet["strategy"],
        *([f"{plan['task']}, {plan['network']}"] if _told(plan) and same else []),
    ]
    first = _line(title, "bold")
    first.append(("   " if title else "") + _plain("   ".join(what)), style="cyan")
    robots = fleet["robots"]
    done = sum(robot["reported"] for robot in robots)
    moved = (fleet["sent_bytes"] + fleet["received_bytes"]) / _MB
    parts = [f"round {fleet['round']}/{fleet['rounds']}", fleet["phase"]]
    if robots and fleet["phase"] in ("training", "aggregating"):
        bar = canvas.marks.bar(done / len(robots), 20 if canvas.width >= _ROOMY else 10)
        parts.append(f"{bar} {done}/{len(robots)} reported")
    left_s = state.deadline_left_s()
    if left_s is not None and fleet["phase"] == "training":
        parts.append(f"{_duration(left_s)} left")
    parts.append(f"{moved:.1f} MB")
    lines = [first, _line("   ".join(parts))]
    if fleet.get("waiting_for"):
        lines.append(_line(f"waiting for {fleet['waiting_for']}", "dim"))
    return lines


def _told(plan: dict[str, Any]) -> bool:
    return bool(plan.get("task"))


def _duration(seconds: float) -> str:
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60}:{whole % 60:02d} min"


def _robots(state: FleetState, canvas: Canvas, room: int) -> list[RenderableType]:
    members = {robot["id"]: robot for robot in state.fleet.get("robots", [])}
    names = sorted({*members, *state.robots})
    if not names:
        return []
    every = sorted({cluster for robot in members.values() for cluster in robot["clusters"]})
    hidden = 0
    if room and len(names) > room:
        troubled = {fault.where for fault in state.faults()}
        names.sort(key=lambda name: (name not in troubled, name))
        hidden = len(names) - (room - 1)
        names = names[: room - 1]
    rows = [_row(state, canvas, name, members.get(name, {}), every) for name in names]
    columns = [name for name in rows[0] if name in _ALWAYS or any(row[name] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        title = _dots_head(every) if name == "clusters" and len(every) <= _MOST_DOTS else name
        table.add_column(title, justify="left" if name in (*_LEFT, "clusters") else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            *(Text(_plain(row[name]), style=_COLOURS.get(row[name], "") if name == "doing" else "") for name in columns)
        )
    return [table, *([_line(f"and {hidden} robots more; a higher window shows them", "dim")] if hidden else [])]


#: Head of the dots, before the digits.
_IN = "in "
_ALWAYS = ("robot", "doing", "", "loss", "samp/s", "MB")


def _row(state: FleetState, canvas: Canvas, name: str, member: dict[str, Any], every: Sequence[int]) -> dict[str, str]:
    robot, roomy = state.robots.get(name, {}), canvas.width >= _ROOMY
    loss, speed = robot.get("loss"), robot.get("samples_per_s")
    clusters = member.get("clusters", [])
    losses = state.losses(name)
    return {
        "robot": name if canvas.width >= _WIDE else _short(name, 16),
        "doing": _doing(member, robot),
        "": canvas.marks.bar(robot.get("progress"), 16 if roomy else 8),
        "loss": "" if loss is None else f"{loss:.3f}" if loss < 10 else f"{loss:.3g}",
        "history": canvas.marks.sparkline(losses, 20 if roomy else 10) if len(losses) > 1 else "",
        "samp/s": f"{speed:.0f}" if speed else "",
        "MB": f"{(robot.get('sent_bytes', 0) + robot.get('received_bytes', 0)) / _MB:.1f}",
        "shares": state.shares(name),
        "refused": str(member["refused"]) if member.get("refused") else "",
        "clusters": _clusters(canvas, clusters, every),
        "says": robot.get("text", "") if canvas.width >= _WIDE else "",
    }


def _doing(member: dict[str, Any], robot: dict[str, Any]) -> str:
    if member.get("quarantine"):
        return "set aside"
    return "away" if member and not member["alive"] else str(robot.get("phase", "registered"))


def _clusters(canvas: Canvas, clusters: Sequence[int], every: Sequence[int]) -> str:
    if not every or len(every) > _MOST_DOTS:
        return " ".join(map(str, clusters))
    return " " * len(_IN) + canvas.marks.memberships(clusters, every)


def _short(name: str, width: int) -> str:
    """Return a name with its middle left out: fleets differ in what names end with."""
    half = width // 2 - 1
    return name if len(name) <= width else f"{name[:half]}..{name[-half:]}"


def _dots_head(every: Sequence[int]) -> str:
    """Return the last digit of each cluster's number, above its dots."""
    return _IN + "".join(str(cluster % 10) for cluster in every)


def _selections(state: FleetState) -> list[Text]:
    shown = state.served()
    lines = []
    for source, line in shown[:_MOST_SELECTIONS]:
        models = "+".join(map(str, line["clusters"])) or ", ".join(line["models"])
        text = f"{source} serves {line['sequence']} with cluster {models} of round {line['round']}"
        distance = nearest(line)
        text += "" if distance is None else f", distance {distance:.3g}"
        text += f" > {line['threshold']:.3g}" if distance is not None and line["fallback"] and line["threshold"] else ""
        lines.append(_line(text, "yellow" if line["fallback"] else ""))
    if len(shown) > _MOST_SELECTIONS:
        lines.append(_line(f"and {len(shown) - _MOST_SELECTIONS} inference nodes more", "dim"))
    return lines


def _faults(faults: Sequence[Fault]) -> list[Text]:
    lines = [_line(f"! {f.where}: {f.text}", "red" if f.level == "error" else "yellow") for f in faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        lines.append(_line(f"! and {len(faults) - _MOST_FAULTS} faults more", "yellow"))
    return lines
