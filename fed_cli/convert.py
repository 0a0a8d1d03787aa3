"""``fedperc convert``: a bag in another form, or a recording of another layout as a bag."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Optional

import typer

from fed_cli.main import app

#: Exit code where something of the source could not be carried.
INCOMPLETE = 1


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Bag of any form, or a recording that `fedperc inspect` understands.")],
    target: Annotated[Path, typer.Argument(help="New folder; or new file that ends in .mcap, .db3 or .bag (ROS 1).")],
    storage: Annotated[
        str, typer.Option(help="mcap, sqlite3 or ros1; default: by the ending of the name, else mcap.")
    ] = "",
    compress: Annotated[bool, typer.Option("--compress", help="Compress with zstd; with lz4 for ROS 1.")] = False,
    definitions: Annotated[
        Optional[list[Path]],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(help="Folder with PKG/msg/NAME.msg of types that the bag does not define; repeat it."),
    ] = None,
) -> None:
    """Write a bag in another form, without loss; or the frames of another recording as a bag.

    fedperc convert old.bag new_bag

    fedperc convert my_bag my_bag.mcap --compress
    """
    from fed_core.data.conversion import Target
    from fed_core.data.conversion import convert as write

    options = Target(target, storage, compress)
    with _progress() as on_progress:
        done = write(source, options, definitions=definitions or (), on_progress=on_progress)
    for line in done.left_out:
        typer.echo(line, err=True)
    typer.echo(f"wrote {target}: {done.messages} messages of {done.topics} topics")
    if done.left_out:
        raise typer.Exit(INCOMPLETE)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Give what draws a bar, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("converting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("converting", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
