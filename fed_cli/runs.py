"""``fedperc runs``: which runs a folder holds, and how far each of them is."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fed_cli.main import app

if TYPE_CHECKING:
    from fed_cli.fleetrun.listing import Listed


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="Folder that holds runs, demos or studies, at any depth.")] = Path(
        "runs"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """List the runs below a folder: method, rounds, robots, size on disk, the newest last.

    fedperc runs

    fedperc runs /data/fleet --json
    """
    from fed_cli.fleetrun.listing import listed

    found = listed(folder)
    if as_json:
        typer.echo(json.dumps([{**asdict(run), "folder": str(run.folder)} for run in found], indent=2))
    else:
        _show(folder, found)


def _show(folder: Path, found: "list[Listed]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fed_core.data.inspect import size_text

    console = Console()
    if not found:
        console.print(Text(f"{folder} holds no run; fedperc simulate and fedperc demo make some"))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("run", "strategy", "network", "rounds", "robots", "size", "last round", "note"):
        right, folds = name in ("rounds", "robots", "size"), name in ("run", "note")
        table.add_column(name, justify="right" if right else "left", no_wrap=not folds, overflow="fold")
    for run in found:
        place = str(run.folder.relative_to(folder)) if run.folder != folder else str(folder)
        cells = [place, run.strategy, run.network, f"{run.rounds}/{run.total_rounds}"]
        cells += [str(run.robots), size_text(run.size_bytes), run.closed[5:16], run.note]
        table.add_row(*map(Text, cells))
    console.print(table)
