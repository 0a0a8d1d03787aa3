"""What a demo ends with: the table, the membership matrix, the picture grid, and ``summary.json``."""

import json
import platform
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fed_cli.fleetrun.figures import WORDS, number, words_of
from fed_cli.fleetrun.folder import SUMMARY
from fed_cli.fleetrun.runs import JOURNAL, read_run
from fed_cli.fleetrun.stages import read_scores
from fed_core.extras import versions
from fed_core.fleet import FleetConfig
from fed_core.wire.files import write_text

_PACKAGES = ("fed_perception", "torch", "numpy", "rclpy", "rosbags", "safetensors")


def summarise(folder: Path, fleet: FleetConfig, seconds: float) -> dict[str, Any]:
    """Return the summary of a finished demo and write it to ``summary.json``."""
    scores = read_scores(folder, fleet)
    own = fleet.strategy.name
    run = scores[own]["run"]
    clusters: list[list[str]] = [[] for _ in run["models"]]
    for robot, ids in sorted(run["members"].items()):
        for index in ids:
            clusters[index].append(robot)
    if len(clusters) == 1 and not clusters[0]:
        clusters = [[robot.id for robot in fleet.robots]]
    sequences = []
    for entry in fleet.test:
        selection = scores[own][entry.name]["selection"]
        row: dict[str, Any] = {
            "name": entry.name,
            "clusters": selection["clusters"],
            "distances": selection["distances"],
            "threshold": selection["threshold"],
            "fallback": selection["fallback"],
            "frames": scores[own][entry.name]["frames"],
        }
        for figure in WORDS[fleet.task].figures:
            row[figure.key] = {name: scores[name][entry.name]["metrics"][figure.key] for name in scores}
        sequences.append(row)
    summary = {
        "task": fleet.task,
        "robots": [robot.id for robot in fleet.robots],
        "rounds": fleet.rounds,
        "strategy": own,
        "clusters": clusters,
        "shares": _shares(folder / "aggregator" / own),
        "sequences": sequences,
        "bytes": sum(scores[name]["run"]["bytes"] for name in scores),
        "seconds": round(seconds, 1),
        "seed": fleet.seed,
        "versions": {"python": platform.python_version(), **versions(*_PACKAGES)},
    }
    write_text(folder / SUMMARY, json.dumps(summary, indent=2))
    return summary


def show(console: Console, summary: dict[str, Any]) -> None:
    """Print the membership matrix and the table of unseen sequences."""
    members = Table(title="who learns with whom", title_justify="left")
    members.add_column("robot")
    for index in range(len(summary["clusters"])):
        members.add_column(f"cluster {index}", justify="center")
    shares = summary.get("shares") or {}
    if shares:
        members.add_column("shared layers by round")
    for robot in summary["robots"]:
        crosses = ("x" if robot in cluster else "" for cluster in summary["clusters"])
        members.add_row(robot, *crosses, *([_told(shares.get(robot))] if shares else []))
    console.print(members)
    console.print(_sequence_table(summary))
    main, rows = words_of(summary).figures[0], summary["sequences"]
    mean = {name: main.mean([row[main.key][name] for row in rows]) for name in _methods(summary)}
    told = "   ".join(f"{name} {number(value)}" for name, value in mean.items())
    console.print(f"mean {main.title}  {told}", highlight=False)


def _methods(summary: dict[str, Any]) -> list[str]:
    order = ["initial", "fedavg", summary["strategy"]]
    first = summary["sequences"][0][words_of(summary).figures[0].key]
    return [name for name in dict.fromkeys(order) if name in first]


def _sequence_table(summary: dict[str, Any]) -> Table:
    methods, words = _methods(summary), words_of(summary)
    table = Table(
        title=f"unseen sequences, {words.served} served live", title_justify="left", pad_edge=False, box=SIMPLE_HEAD
    )
    table.add_column("sequence", no_wrap=True)
    table.add_column("clusters\n(distance)", no_wrap=True)
    head = " ".join(methods)
    for figure in words.figures:
        table.add_column(f"{figure.title}\n{head}", justify="right", no_wrap=True)
    for row in summary["sequences"]:
        chosen = ", ".join(f"{index} ({row['distances'][index]:.3g})" for index in row["clusters"]) or "all"
        table.add_row(
            row["name"],
            chosen + ("*" if row["fallback"] else ""),
            *(
                _marked([row[f.key][name] for name in methods], f.best(list(row[f.key].values())))
                for f in words.figures
            ),
        )
    if any(row["fallback"] for row in summary["sequences"]):
        table.caption = "* no cluster was within tau; the nearest one serves"
    return table


def _marked(values: list[float | None], best: float | None) -> str:
    return "  ".join(
        f"[bold green]{number(value)}[/]" if value is not None and value == best else number(value) for value in values
    )


def _shares(run: Path) -> dict[str, Any]:
    """Return, by robot, the layers in all and how many it shared in each masked round; empty without masks."""
    if not (run / JOURNAL).is_file():
        return {}
    return {r.id: {"layers": r.units, "shared": list(r.shared)} for r in read_run(run).robots if r.units}


def _told(shares: dict[str, Any] | None) -> str:
    return f"{' '.join(map(str, shares['shared']))} of {shares['layers']}" if shares else "all"
