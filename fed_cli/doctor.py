"""``fedperc doctor``: what of this machine is ready for a fleet, what is not, and what to do about it."""

import json
import sys
from typing import Annotated, Any

import typer

from fed_cli.main import app


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of the table.")] = False,
) -> None:
    """Check Python, ROS 2, memory, disk and GPU: what is wrong and what to do.

    Exit code 1 when something must be repaired before a fleet can run.
    """
    from fed_cli.health import FAIL, run_checks

    checks = run_checks()
    if as_json:
        typer.echo(json.dumps([check.to_json() for check in checks], indent=2))
    else:
        _show(checks)
    if any(check.state == FAIL for check in checks):
        raise typer.Exit(1)


def _show(checks: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fed_cli.health import COLOURS

    table = Table()
    for title in ("check", "state", "found", "what to do"):
        table.add_column(title, overflow="fold")
    for check in checks:
        table.add_row(check.name, Text(check.state, style=COLOURS[check.state]), Text(check.found), Text(check.advice))
    Console(file=sys.stdout).print(table)
