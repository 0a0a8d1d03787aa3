"""``fedperc picture``: what a robot published, from a bag, as pictures."""

from pathlib import Path
from typing import Annotated

import typer

from fed_cli.main import app


@app.command()
def picture(
    bag: Annotated[Path, typer.Argument(help="Bag (.mcap, .db3, .bag, or a rosbag2 folder).")],
    out: Annotated[Path, typer.Option(help="Folder of the pictures.")] = Path("pictures"),
    frames: Annotated[int, typer.Option(min=1, max=20, help="Frames in each picture, evenly chosen.")] = 3,
    min_score: Annotated[float, typer.Option(min=0.0, max=1.0, help="Boxes with a lower score are left out.")] = 0.2,
) -> None:
    """Draw the depth, boxes and maps that inference published: ROS is not needed.

    fedperc picture my_bag/

    fedperc picture drive.mcap --out shown --frames 5
    """
    from fed_cli.recorded.drawn import Wanted, draw_bag

    for path in draw_bag(bag, Wanted(out, frames, min_score)):
        typer.echo(path)
