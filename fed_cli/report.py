"""``fedperc report``: runs, demos and studies as one page for a browser."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from fed_cli.main import app


@app.command()
def report(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders of runs, demos or studies; several are put side by side.")
    ],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    bag: Annotated[
        Optional[list[Path]],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(help="Recording of what inference published, to draw pictures of; may be given again."),
    ] = None,
) -> None:
    """Write one HTML page about runs, demos and studies; it needs no network and no server.

    fedperc report runs/demo

    fedperc report runs/mine runs/fedavg --out compared.html

    fedperc report runs/depth-hpe
    """
    from fed_cli.reports.page import build, write

    write(build(paths, bag or ()), out)
    typer.echo(out)
