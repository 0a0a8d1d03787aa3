"""``fedperc top``: a running fleet, live in the terminal."""

from typing import Annotated, Optional

import typer

from fed_cli.main import app


@app.command()
def top(
    fleet_ns: Annotated[str, typer.Option(help="Namespace of the fleet's topics.")] = "/fleet",
    domain_id: Annotated[
        Optional[int],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(min=0, max=232, help="ROS domain; default: ROS_DOMAIN_ID, a demo on this machine, or 0."),
    ] = None,
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a fleet's first answer.")] = 15.0,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the monitor's JSON lines instead.")] = False,
) -> None:
    """Watch a running fleet: rounds, robots, losses, clusters, what inference serves, faults. Stop it by Ctrl-C.

    fedperc top

    fedperc top --domain-id 7 --once
    """
    from fed_cli.fleetrun.watching import Watch, watch

    watch(Watch(fleet_ns, domain_id, wait), once=once, as_json=as_json)
