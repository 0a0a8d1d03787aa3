"""``fedperc verify``: derives a run's models again from its stored updates."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fed_cli.main import app

if TYPE_CHECKING:
    from fed_core.audit import RoundCheck


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="Folder of a run that kept its updates.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Derive every round's models again from the stored updates, and report the first difference.

    Ends with 0 where all rounds are the same, 1 where one is not, 2 where rounds cannot be derived.

    fedperc simulate --keep-updates --out runs/mine

    fedperc verify runs/mine
    """
    from fed_cli.fleetrun.verifying import checked
    from fed_core.audit import Verdict

    checks = checked(run, quiet=as_json)
    if as_json:
        rows = [{"round": c.round, "verdict": c.verdict.value, "updates": c.updates, "text": c.text} for c in checks]
        typer.echo(json.dumps({"run": str(run), "rounds": rows}, indent=2))
    else:
        _show(checks)
    wrong = [check for check in checks if check.verdict in (Verdict.DIFFERENT, Verdict.DAMAGED)]
    if wrong:
        raise typer.Exit(1)
    if any(check.verdict is Verdict.NOT_KEPT for check in checks):
        raise typer.Exit(2)


def _show(checks: "list[RoundCheck]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fed_core.audit import Verdict

    colours = {Verdict.SAME: "green", Verdict.NOT_KEPT: "yellow"}
    table = Table(box=None, pad_edge=False)
    for name, justify in (("round", "right"), ("updates", "right"), ("verdict", "left"), ("", "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for check in checks:
        word = Text(check.verdict.value, style=colours.get(check.verdict, "red"))
        table.add_row(str(check.round), str(check.updates), word, Text(check.text))
    console = Console()
    console.print(table)
    wrong = [check for check in checks if check.verdict in (Verdict.DIFFERENT, Verdict.DAMAGED)]
    missing = [check for check in checks if check.verdict is Verdict.NOT_KEPT]
    if wrong:
        told = f"the first difference is in round {wrong[0].round}: {wrong[0].text}"
    elif missing:
        told = (
            f"{len(missing)} of {len(checks)} rounds cannot be derived, since their updates were not kept; start a run "
            "with keep_updates (aggregator), or fedperc simulate --keep-updates"
        )
    else:
        told = f"all {len(checks)} rounds are what their updates give, bit for bit"
    console.print(Text(told))
