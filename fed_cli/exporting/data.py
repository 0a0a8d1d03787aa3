"""What is known on this machine of the recordings that a model learned from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fed_cli.exporting.choice import Chosen
from fed_cli.exporting.runs import Found
from fed_core.traffic import FOLDER

_NOT_KNOWN = "not known here"


def data_lines(found: Found, chosen: Chosen) -> list[str]:
    """Return who recorded how much, and where the recordings come from, as Markdown."""
    run = chosen.run
    sources = {str(entry["id"]): entry.get("source") for entry in (found.fleet or {}).get("robots", ())}
    learned, clusters = learned_from(chosen), run.history.rounds[-1].clusters
    lines = ["| robot | samples | clusters | in this model | recordings |", "|---|---|---|---|---|"]
    kinds = set()
    for robot in run.history.names:
        kind = _kind(found, chosen, sources.get(robot))
        kinds.add(kind.partition(":")[0])
        samples = str(run.history.robots.get(robot, {}).get("num_samples", "-"))
        places = " ".join(map(str, clusters.get(robot, ()))) or "-"
        lines.append(f"| {robot} | {samples} | {places} | {'yes' if robot in learned else 'no'} | {kind} |")
    if kinds == {"synthetic"}:
        lines += ["", "**All of it is synthetic**: rendered scenes, no recording of a real sensor."]
    return lines


def learned_from(chosen: Chosen) -> frozenset[str]:
    """Return the robots whose training in the run's clusters is in a model; all of them where there are no clusters."""
    run = chosen.run
    clusters = run.history.rounds[-1].clusters
    keys = run.plan.robots[chosen.robot].load if chosen.robot else (chosen.key,)
    places = {index for index, key in enumerate(run.plan.models) if key in keys}
    inside = {robot for robot in run.history.names if places & set(clusters.get(robot, ()))}
    return frozenset(inside if clusters else run.history.names)


def _kind(found: Found, chosen: Chosen, source: Any) -> str:
    """Return what a robot's recordings are, as the fleet file tells it."""
    run = chosen.run
    if isinstance(source, Mapping):
        if generated := source.get("generated"):
            told = [f"{key} {generated[key]}" for key in ("platform", "environment", "seed") if key in generated]
            return f"synthetic: {', '.join(told)}"
        data = str(source.get("data") or "")
        made = (found.demo or run.folder).absolute() / FOLDER
        if (found.fleet or {}).get(FOLDER) and (Path(data).parts[:1] == (FOLDER,) or Path(data).is_relative_to(made)):
            return f"synthetic: made-up traffic{_domain(source)}"
        return f"recorded: {Path(data).name}" if data else _NOT_KNOWN
    return _NOT_KNOWN


def _domain(source: Mapping[str, Any]) -> str:
    domain = (source.get("options") or {}).get("domain")
    return f", {domain}" if domain else ""
