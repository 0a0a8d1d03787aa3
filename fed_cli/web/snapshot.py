"""A fleet's state as one JSON tree for the page: bounded, finite, all texts plain."""

import math
from collections.abc import Sequence
from typing import Any

from fed_cli.fleetrun.state import Fault, FleetState, nearest
from fed_cli.reports.tables import evenly, mean

#: Most robots with a row, clusters with a column, faults and inference nodes; the rest is counted.
MOST_ROBOTS, MOST_CLUSTERS, MOST_FAULTS, MOST_SELECTIONS = 200, 40, 50, 50
#: Most robots with a line of their own in the chart, and values in a sparkline.
MOST_LINES, MOST_SPARKS = 8, 40
#: Longest name, and longest text of a robot or a fault [characters].
MOST_NAME, MOST_TEXT = 120, 400
#: What the page shows of a robot's own status, unchanged.
_SAID = (
    "progress",
    "loss",
    "samples",
    "samples_per_s",
    "sent_bytes",
    "received_bytes",
    "disk_free_bytes",
    "gpu_used_bytes",
)


def run_tree(state: FleetState, more: Sequence[Fault] = ()) -> dict[str, Any]:
    """Return one run.

    Args:
        state: what is known of it.
        more: faults that the state does not know.
    """
    fleet, plan = state.fleet, state.plan
    same = plan.get("run") == fleet.get("run")
    members = fleet.get("robots", [])
    clusters = sorted({k for member in members for k in member["clusters"]})
    faults = [*state.faults(), *more]
    return {
        "name": short(fleet.get("run", ""), MOST_NAME),
        "strategy": fleet.get("strategy", ""),
        "task": plan.get("task", "") if same else "",
        "network": plan.get("network", "") if same else "",
        "phase": fleet.get("phase", ""),
        "round": fleet.get("round", 0),
        "rounds": fleet.get("rounds", 0),
        "reported": sum(member["reported"] for member in members),
        "members": len(members),
        "expected": fleet.get("expected", 0),
        "deadline_left_s": state.deadline_left_s() if same else None,
        "waiting_for": short(fleet.get("waiting_for", ""), MOST_TEXT),
        "moved_bytes": fleet.get("sent_bytes", 0) + fleet.get("received_bytes", 0),
        **_robots(state, faults),
        "clusters": clusters[:MOST_CLUSTERS],
        "clusters_total": len(clusters),
        "losses": losses_tree(state),
        "faults": [_fault(fault) for fault in faults[:MOST_FAULTS]],
        "faults_total": len(faults),
        **_selections(state),
    }


def losses_tree(state: FleetState) -> dict[str, Any]:
    """Return mean, least and most of the robots' losses by round, and lines of single robots where they are few."""
    found = state.losses_by_round()
    rounds = list(found)
    names = sorted({name for losses in found.values() for name in losses})
    columns = [list(found[number].values()) for number in rounds]
    return {
        "rounds": rounds,
        "mean": [mean(column) for column in columns],
        "low": [min(column) for column in columns],
        "high": [max(column) for column in columns],
        "robots": [
            {"name": short(name, MOST_NAME), "values": [found[number].get(name) for number in rounds]}
            for name in (names if len(names) <= MOST_LINES else ())
        ],
        "robots_total": len(names),
    }


def short(text: str, most: int) -> str:
    """Return a text with its end left out where it is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _robots(state: FleetState, faults: Sequence[Fault]) -> dict[str, Any]:
    members = {member["id"]: member for member in state.fleet.get("robots", [])}
    names = sorted({*members, *state.robots})
    troubled = {fault.where for fault in faults}
    if len(names) > MOST_ROBOTS:
        names.sort(key=lambda name: (name not in troubled, name))
    rows = [_robot(state, name, members.get(name), name in troubled) for name in names[:MOST_ROBOTS]]
    return {"robots": rows, "robots_total": len(names)}


def _robot(state: FleetState, name: str, member: dict[str, Any] | None, troubled: bool) -> dict[str, Any]:
    said = state.robots.get(name, {})
    away = member is not None and not member["alive"]
    return {
        "id": short(name, MOST_NAME),
        "phase": "away" if away else said.get("phase", "registered"),
        **{key: _finite(said.get(key)) for key in _SAID},
        "losses": evenly(state.losses(name), MOST_SPARKS),
        "said_s": said.get("time_s"),
        "text": short(said.get("text", ""), MOST_TEXT),
        "clusters": member["clusters"][:MOST_CLUSTERS] if member else [],
        "refused": member["refused"] if member else 0,
        "shares": state.shares(name),
        "troubled": troubled,
    }


def _selections(state: FleetState) -> dict[str, Any]:
    served = state.served()
    rows = [
        {
            "source": short(source, MOST_NAME),
            "sequence": short(choice["sequence"], MOST_NAME),
            "round": choice["round"],
            "clusters": choice["clusters"][:MOST_CLUSTERS],
            "models": short(", ".join(choice["models"]), MOST_NAME),
            "distance": nearest(choice),
            "threshold": choice["threshold"],
            "fallback": choice["fallback"],
        }
        for source, choice in served[:MOST_SELECTIONS]
    ]
    return {"selections": rows, "selections_total": len(served)}


def _fault(fault: Fault) -> dict[str, str]:
    return {"level": fault.level, "where": short(fault.where, MOST_NAME), "text": short(fault.text, MOST_TEXT)}


def _finite(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None
