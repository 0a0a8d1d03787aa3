"""``fedperc dashboard``: a fleet, live or from a run's folder, in a browser."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from fed_cli.main import app


@app.command()
def dashboard(
    run: Annotated[
        Optional[Path],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Argument(help="Folder of a run or a demo, finished or not; without it: the live fleet."),
    ] = None,
    fleet_ns: Annotated[str, typer.Option(help="Namespace of the fleet's topics.")] = "/fleet",
    domain_id: Annotated[
        Optional[int],  # noqa: UP007, UP045
        typer.Option(min=0, max=232, help="ROS domain; default: ROS_DOMAIN_ID, a demo on this machine, or 0."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 = all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 = any that is free.")] = 8300,
    token_file: Annotated[
        Optional[Path],  # noqa: UP007, UP045
        typer.Option(help="File with the token of those who may act; or FED_PERCEPTION_TOKEN. Without: look only."),
    ] = None,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
) -> None:
    """Show a fleet in a browser: rounds, robots, clusters, losses, faults, predictions. Stop it by Ctrl-C.

    fedperc dashboard

    fedperc dashboard runs/demo --open
    """
    import os

    from fed_cli.fleetrun.watching import Watch
    from fed_cli.web.acting import read_token
    from fed_cli.web.serving import Place, serve

    token = read_token(token_file, os.environ.get("FED_PERCEPTION_TOKEN"))
    serve(run, Watch(fleet_ns, domain_id), Place(host, port, browser), token, lambda text: typer.echo(text))
