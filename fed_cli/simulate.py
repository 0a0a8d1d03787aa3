"""``fedperc simulate``: a whole fleet in this process, without ROS."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fed_cli.fleetrun.engines import LOCAL, Address, EngineName, GpusPerRobot, Spill, Workers, ray_options
from fed_cli.main import app

if TYPE_CHECKING:
    from fed_core.fleet import FleetConfig

KeepUpdates = Annotated[
    bool, typer.Option("--keep-updates", help="Keep all updates and models of all rounds, for fedperc verify.")
]


@app.command()
def simulate(
    fleet: Annotated[
        Optional[Path],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(help="Fleet file, or a folder of recordings with a fleet.yaml; default: two rendered worlds."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted run in it goes on.")] = Path(
        "runs/simulation"
    ),
    seed: Annotated[Optional[int], typer.Option(help="Seed; default: the fleet file's.")] = None,  # noqa: UP007, UP045
    rounds: Annotated[Optional[int], typer.Option(help="Rounds; default: the fleet file's.")] = None,  # noqa: UP007, UP045
    strategy: Annotated[
        Optional[str],  # noqa: UP007, UP045
        typer.Option(help="Strategy, with its default options; default: the fleet file's."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of training; they change the last bits.")] = 2,
    keep_updates: KeepUpdates = False,
    engine: EngineName = LOCAL,
    workers: Workers = None,
    gpus_per_robot: GpusPerRobot = None,
    address: Address = "",
    spill: Spill = None,
) -> None:
    """Run a fleet without ROS: the same roles, the same models.

    fedperc simulate

    fedperc simulate --fleet my_fleet.yaml --out runs/mine --rounds 4

    fedperc simulate --fleet large.yaml --engine ray --threads 1
    """
    from rich.console import Console

    from fed_cli.fleetrun.folder import shared_file
    from fed_cli.fleetrun.recordings import fleet_of, reseed
    from fed_cli.fleetrun.simulation import play, show_result
    from fed_cli.fleetrun.traffic import make_traffic

    ray = ray_options(engine, workers, gpus_per_robot, address, spill)
    config, base = fleet_of(fleet if fleet is not None else shared_file("config/fleet/small.yaml"))
    config = _with(config, rounds, strategy, keep_updates)
    if seed is not None:
        config = reseed(config, seed)
    console = Console()
    console.print(f"{out}: {len(config.robots)} robots, {config.rounds} rounds, seed {config.seed}", highlight=False)
    play(make_traffic(config, out, console), base, out, console, threads=threads, ray=ray)
    show_result(console, out)


def _with(fleet: "FleetConfig", rounds: int | None, strategy: str | None, keep_updates: bool) -> "FleetConfig":
    from fed_core.fleet import NamedOptions
    from fed_core.strategies.base import strategies

    if strategy is not None:
        strategies.get(strategy)  # a name that is not known ends here
        fleet = replace(fleet, strategy=NamedOptions(strategy))
    if keep_updates:
        fleet = replace(fleet, aggregator=replace(fleet.aggregator, keep_updates=True))
    return fleet if rounds is None else replace(fleet, rounds=rounds)
