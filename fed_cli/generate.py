"""``fedperc generate``: made-up data sets in the form of published ones, one sub-command per data set."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fed_cli.main import app
from fed_core.errors import ConfigError

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
    _with_progress("frames", lambda on_step: write(out, options, on_step))
    for name, count in options.frames_of_clients().items():
        typer.echo(f"{name}: {count} training and {test_frames} test frames")
    typer.echo(f"synthetic data in {out}")


@generate_app.command("detection")
def generate_detection(
    out: Annotated[Path, typer.Option(help="Folder for the data; new, or one that was stopped.", show_default=False)],
    seed: Annotated[int, typer.Option(min=0, help="Another seed is other streets and traffic.")] = 0,
    domains: Annotated[str, typer.Option(help="Letters of the domains.")] = "A,B,C,D,E",
    train_scenes: Annotated[str, typer.Option(help="Training scenes of A, B, C, D, E.")] = "20,9,17,5,3",
    val_scenes: Annotated[str, typer.Option(help="Validation scenes of A, B, C, D, E.")] = "10,5,11,3,2",
    keyframes: Annotated[int, typer.Option(min=2, help="Keyframes of a scene, two per second.")] = 8,
    sweeps: Annotated[int, typer.Option(min=0, help="LiDAR scans before each keyframe.")] = 1,
    width: Annotated[int, typer.Option(min=16, help="Width of the pictures.")] = 160,
    height: Annotated[int, typer.Option(min=16, help="Height of the pictures.")] = 64,
    cameras: Annotated[str, typer.Option(help="Cameras by nuScenes' names.")] = "CAM_FRONT,CAM_BACK",
    beams: Annotated[int, typer.Option(min=1, help="Rows of the LiDAR.")] = 24,
    azimuths: Annotated[int, typer.Option(min=8, help="Columns of the LiDAR.")] = 300,
) -> None:
    """Streets of two cities by day, in rain and at night as nuScenes tables: cameras, LiDAR, 3D boxes. Resumes.

    fedperc generate detection --out generated/detection

    fedperc generate detection --out generated/night --domains D,E --keyframes 20
    """
    from fed_core.scenes.domains import KINDS, DomainOptions
    from fed_core.scenes.domains import generate as write

    options = DomainOptions(
        seed=seed,
        domains=_split(domains),
        train_scenes=_counts(train_scenes, "--train-scenes"),
        val_scenes=_counts(val_scenes, "--val-scenes"),
        keyframes=keyframes,
        sweeps=sweeps,
        width=width,
        height=height,
        cameras=_split(cameras),
        beams=beams,
        azimuths=azimuths,
    )
    _with_progress("keyframes", lambda on_step: write(out, options, on_step))
    for letter, train, val in zip(KINDS, options.train_scenes, options.val_scenes, strict=True):
        if letter in options.domains:
            typer.echo(f"{letter} {KINDS[letter].code}: {train} training and {val} validation scenes")
    typer.echo(f"synthetic data in {out}")


def _with_progress(unit: str, write: Callable[[Callable[[int, int], None]], object]) -> None:
    """Run ``write``, which tells how many of how many it has done, under a bar; in a log a line for every tenth."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True))
    task = progress.add_task(unit, total=None)

    def draw(done: int, total: int) -> None:
        progress.start()  # not before: what is refused has no bar
        progress.update(task, completed=done, total=total)

    def tell(done: int, total: int) -> None:
        if 10 * done // total > 10 * (done - 1) // total:
            typer.echo(f"{done} of {total} {unit}", err=True)

    if not progress.console.is_terminal:
        write(tell)
        return
    try:
        write(draw)
    finally:
        progress.stop()


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _counts(text: str, flag: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _split(text))
    except ValueError as err:
        raise ConfigError(f"{flag} is {text!r}; give counts with commas between, such as 20,9,17,5,2") from err
