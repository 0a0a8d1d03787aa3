"""``fedperc inspect``: what is in a bag, a folder of frames, a model file or a run, in one table."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fed_cli.main import app

if TYPE_CHECKING:
    from fed_core.data.inspect import Report


@app.command()
def inspect(
    path: Annotated[
        Path, typer.Argument(help="Bag, folder of frames or scans, model file, or folder of a run or demo.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Show what is in a recording, a model file or a run.

    fedperc inspect my_recording.mcap

    fedperc inspect runs/demo
    """
    from fed_cli.fleetrun.contents import contents

    report = contents(path)
    if as_json:
        typer.echo(json.dumps({**asdict(report), "rows": dict(report.rows)}, indent=2))
    else:
        _show(report)


def _show(report: "Report") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(report.title), title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in report.rows:
        table.add_row(Text(name, style="cyan"), Text(value))
    for note in report.notes:
        table.add_section()
        table.add_row(Text("note", style="yellow"), Text(note))
    console = Console()
    console.print(table)
    if report.columns:
        inner = Table(box=None, pad_edge=False)
        for name in report.columns:
            inner.add_column(name, overflow="fold")
        for row in report.table:
            inner.add_row(*map(Text, row))
        console.print(inner)
