"""``fedperc demo``: a whole fleet as real processes on ROS 2, scored on sequences nobody trained on."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fed_cli.main import app

if TYPE_CHECKING:
    from rich.console import Console

    from fed_core.fleet import FleetConfig


@app.command()
def demo(
    data: Annotated[
        Optional[Path],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(help="Fleet file, or a folder of recordings with a fleet.yaml; default: generated scenes."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    seed: Annotated[
        Optional[int],  # noqa: UP007, UP045
        typer.Option(help="Seed of worlds, weights and data order; default: the fleet file's."),
    ] = None,
    rounds: Annotated[Optional[int], typer.Option(help="Rounds; default: the fleet file's.")] = None,  # noqa: UP007, UP045
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
) -> None:
    """Run a fleet of robots, an aggregator and live inference on ROS 2, and score it.

    fedperc demo

    fedperc demo --data my_recordings/ --seed 3

    fedperc demo --data config/fleet/bev.yaml --out runs/vehicles

    fedperc demo --data config/fleet/detection.yaml --out runs/detection
    """
    from rich.console import Console

    from fed_cli.fleetrun.folder import alone, prepare, shared_file
    from fed_cli.fleetrun.recordings import fleet_of, reseed
    from fed_cli.fleetrun.stages import FleetRun
    from fed_cli.fleetrun.traffic import make_traffic
    from fed_cli.health.ros import require
    from fed_core.config import to_tree
    from fed_core.errors import ConfigError

    require("fedperc demo")
    console = Console()
    fleet, base = fleet_of(data if data is not None else shared_file("config/fleet/demo.yaml"))
    if seed is not None:
        fleet = reseed(fleet, seed)
    if rounds is not None:
        fleet = replace(fleet, rounds=rounds)
    if not fleet.test:
        raise ConfigError("the fleet file names no held-out sequence; list at least one under test")
    with alone(out):
        going_on = prepare(out, to_tree(fleet), resume=resume)
        console.print(f"{'resuming' if going_on else 'starting'} {out}: {len(fleet.robots)} robots, seed {fleet.seed}")
        start_s = time.monotonic()
        FleetRun(make_traffic(fleet, out, console), base, out, console).run()
        _finish(console, out, fleet, time.monotonic() - start_s)


def _finish(console: "Console", out: Path, fleet: "FleetConfig", seconds: float) -> None:
    from fed_cli.fleetrun.map_pictures import draw_maps
    from fed_cli.fleetrun.pictures import draw_grid
    from fed_cli.fleetrun.report import show, summarise
    from fed_cli.fleetrun.scan_pictures import draw_scans

    summary = summarise(out, fleet, seconds)
    show(console, summary)
    methods = list(dict.fromkeys(("initial", "fedavg", fleet.strategy.name)))
    draw = {"bev": draw_maps, "detection": draw_scans}.get(fleet.task, draw_grid)
    picture = draw(out, summary, methods)
    console.print(f"pictures {picture}\nsummary  {out / 'summary.json'}\n{summary['seconds']:.0f} s", highlight=False)
