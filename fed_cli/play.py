"""``fedperc play``: one's own recording through a trained network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fed_cli.main import app

if TYPE_CHECKING:
    from rich.console import Console


@app.command()
def play(
    recording: Annotated[Path, typer.Argument(help="Bag, or folder of images with or without depth.")],
    run: Annotated[Path, typer.Option(help="Folder of a demo, a simulation or a run.")] = Path("runs/demo"),
    out: Annotated[Path, typer.Option(help="Folder of the pictures, the score and the new bag.")] = Path("runs/play"),
    start: Annotated[int, typer.Option(min=0, help="Leave out so many frames at the beginning.")] = 0,
    every: Annotated[int, typer.Option(min=1, help="Take every so many frames.")] = 1,
    frames: Annotated[int, typer.Option(min=1, max=20, help="Frames in the picture, evenly chosen.")] = 3,
    colour: Annotated[str, typer.Option(help="Colour topic of a bag; default: found by type.")] = "",
    depth: Annotated[str, typer.Option(help="Depth topic of a bag; default: found by type.")] = "",
    info: Annotated[str, typer.Option(help="CameraInfo topic of a bag; default: beside the colour.")] = "",
) -> None:
    """Play a recording to a live inference node with the depth models of a run, and show what comes out.

    fedperc play my_bag

    fedperc play my_bag.mcap --run runs/simulation --out shown --every 5
    """
    from rich.console import Console

    from fed_cli.fleetrun.folder import alone
    from fed_cli.fleetrun.playing import BAG, find_frames
    from fed_cli.fleetrun.playing import play as play_it
    from fed_cli.health.ros import require
    from fed_cli.recorded.drawn import Wanted, draw_bag

    require("fedperc play")
    console = Console(soft_wrap=True)
    topics = {name: topic for name, topic in (("colour", colour), ("depth", depth), ("info", info)) if topic}
    played = find_frames(recording, {"start": start, "step": every, "topics": topics})
    console.print(f"{recording}: {played.frames} frames", highlight=False)
    with alone(out):
        _show(console, play_it(played, run, out, console))
    for path in draw_bag(out / BAG, Wanted(out, frames, 0.0)):
        console.print(f"picture {path}", highlight=False)
    console.print(f"bag     {out / BAG}", highlight=False)


def _show(console: "Console", score: dict[str, Any]) -> None:
    from fed_cli.fleetrun.state import nearest

    served = score["selection"]
    distance = nearest(served)
    text = f"model   {' + '.join(served['models'])} of round {served['round']}"
    text += "" if distance is None else f", distance {distance:.3g}"
    console.print(text + (", the nearest; none is within the threshold" if served["fallback"] else ""), highlight=False)
    if score["metrics"]:
        metrics = score["metrics"]
        told = f"AbsRel {metrics['abs_rel']:.3f}, delta1 {metrics['delta1']:.3f}"
        console.print(f"score   {told} over {score['frames']} frames", highlight=False)
