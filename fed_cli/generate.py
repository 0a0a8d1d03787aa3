"""``fedperc generate``: made-up data sets in the form of published ones, one sub-command per data set."""

from pathlib import Path
from typing import Annotated

import typer

from fed_cli.main import app

generate_app = typer.Typer(
    no_args_is_help=True, help="Write made-up data in the folders of a published data set, for what cannot be had."
)
app.add_typer(generate_app, name="generate")


@generate_app.callback()
def generate() -> None:
    """Write made-up data in the folders of a published data set, for what cannot be had."""


@generate_app.command("bev")
def generate_bev(
    out: Annotated[Path, typer.Option(help="Folder for the data; new, or one that was stopped.", show_default=False)],
    seed: Annotated[int, typer.Option(min=0, help="Another seed is other streets and traffic.")] = 0,
    frames: Annotated[int, typer.Option(min=4, help="Training frames of all clients together.")] = 1024,
    test_frames: Annotated[int, typer.Option(min=1, help="Test frames of each client.")] = 64,
    scene_frames: Annotated[int, typer.Option(min=1, help="Most frames of a scenario.")] = 16,
    width: Annotated[int, typer.Option(min=16, help="Width of the pictures.")] = 256,
    height: Annotated[int, typer.Option(min=16, help="Height of the pictures.")] = 192,
    carriers: Annotated[int, typer.Option(min=1, help="Vehicles with cameras in each scenario.")] = 1,
    min_visible_px: Annotated[
        int, typer.Option(min=1, help="Pixels of a vehicle in one camera from which on it is on the visibility map.")
    ] = 30,
) -> None:
    """Traffic around a bus, a truck and two cars as OPV2V folders: pictures of four cameras, masks, poses. Resumes.

    fedperc generate bev --out generated/bev

    fedperc generate bev --out generated/small --frames 256 --width 128 --height 96
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from fed_core.scenes.driving import DrivingOptions
    from fed_core.scenes.driving import generate as write

    options = DrivingOptions(
        seed=seed,
        frames=frames,
        test_frames=test_frames,
        scene_frames=scene_frames,
        width=width,
        height=height,
        carriers=carriers,
        min_visible_px=min_visible_px,
    )
    columns = (TextColumn("frames"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("frames", total=None)
        write(out, options, lambda done, total: progress.update(task, completed=done, total=total))
    for name, count in options.frames_of_clients().items():
        typer.echo(f"{name}: {count} training and {test_frames} test frames")
    typer.echo(f"synthetic data in {out}")
