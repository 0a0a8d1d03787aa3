"""A run's journal as the lines of a monitor, so that a folder is shown by the same page as a live fleet."""

from collections.abc import Iterator
from typing import Any

from fed_cli.fleetrun.state import Fault, FleetState
from fed_cli.reports.history import History, Round, Update

#: Most faults that are told of one kind; the report tells all.
_MOST = 20


def state_of(history: History) -> FleetState:
    """Return what a monitor that had listened from the start would know."""
    state = FleetState()
    for line in _lines(history):
        state.add(line)
    return state


def finished(history: History) -> bool:
    """Return whether all rounds have closed."""
    return bool(history.trained) and history.trained[-1].number >= history.total_rounds


def faults_of(history: History) -> list[Fault]:
    """Return what went wrong in closed rounds, the newest first, and warnings of the method."""
    missed: dict[int, list[str]] = {}
    for number, robot in history.absent():
        missed.setdefault(number, []).append(robot)
    found = [
        Fault("warn", f"round {number}", f"without an update of {_names(robots)}")
        for number, robots in sorted(missed.items(), reverse=True)
    ][:_MOST]
    texts = dict.fromkeys(str(text) for one in history.rounds for text in one.log.get("warnings", ()))
    return [*found, *(Fault("warn", "method", text) for text in list(texts)[:_MOST])]


def _names(robots: list[str], most: int = 5) -> str:
    return ", ".join(robots[:most]) + (f" and {len(robots) - most} more" if len(robots) > most else "")


def _lines(history: History) -> Iterator[dict[str, Any]]:
    done, last = finished(history), history.rounds[-1] if history.rounds else None
    number = last.number if last else 0
    yield _fleet(history, number, done)
    yield {
        "kind": "plan",
        "run": history.name,
        "round": number,
        "task": str(history.config.get("task", "")),
        "network": str(history.config.get("network", "")),
        "finished": done,
        "deadline_s": None,
    }
    closed = {one.number: one for one in history.rounds}
    totals: dict[str, tuple[int, int]] = {}
    for (turn, robot), update in sorted(history.updates.items()):
        one = closed.get(turn)
        sent, received = totals.get(robot, (0, 0))
        totals[robot] = sent + update.sent_bytes, received + (one.received_bytes.get(robot, 0) if one else 0)
        yield _robot(robot, turn, update, totals[robot], one)
        if update.mask is not None:
            units, shared = len(update.mask), sum(update.mask)
            yield {"kind": "mask", "id": robot, "run": history.name, "round": turn, "units": units, "shared": shared}


def _fleet(history: History, number: int, done: bool) -> dict[str, Any]:
    last = history.rounds[-1] if history.rounds else None
    here = history.of_round(number if done else number + 1)
    refused: dict[str, tuple[int, str]] = {}
    for one in history.rounds:
        for robot, told in dict(one.log.get("refused") or {}).items():
            before = refused.get(robot, (0, ""))[0]
            refused[robot] = before + int(told.get("count") or 0), str(told.get("text") or "")
    counted: dict[str, int] = {}
    for _, robot in history.updates:
        counted[robot] = counted.get(robot, 0) + 1
    robots = [
        {
            "id": name,
            "alive": True,
            "described": True,
            "reported": name in here,
            "clusters": list(last.clusters.get(name, ())) if last else [],
            "updates": counted.get(name, 0),
            "refused": refused.get(name, (0, ""))[0],
            "last_text": refused.get(name, (0, ""))[1],
        }
        for name in history.names
    ]
    return {
        "kind": "fleet",
        "run": history.name,
        "phase": "finished" if done else "not finished",
        "round": number,
        "rounds": history.total_rounds,
        "strategy": str(history.config.get("strategy", "")),
        "expected": len(robots),
        "robots": robots,
        "sent_bytes": sum(sum(one.received_bytes.values()) for one in history.trained),
        "received_bytes": sum(update.sent_bytes for update in history.updates.values()),
        "waiting_for": "",
    }


def _robot(name: str, turn: int, update: Update, moved: tuple[int, int], one: Round | None) -> dict[str, Any]:
    return {
        "kind": "robot",
        "id": name,
        "phase": "reported",
        "round": turn,
        "progress": 1.0,
        "loss": update.loss,
        "samples": update.samples,
        "samples_per_s": None,
        "sent_bytes": moved[0],
        "received_bytes": moved[1],
        "disk_free_bytes": 0,
        "gpu_used_bytes": 0,
        "text": "",
        "time_s": one.closed_s if one else None,
    }
