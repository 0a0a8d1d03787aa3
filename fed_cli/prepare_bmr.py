"""``fedperc prepare bmr``: NYU Depth v2 and KITTI as robots and unseen sequences of one fleet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fed_cli.prepare import prepare_app

if TYPE_CHECKING:
    from fed_core.data.bmr.clients import BmrSequence

#: An unseen sequence needs two frames that choose its models and one that is scored.
FEWEST_TEST_FRAMES = 3


@prepare_app.command("bmr")
def prepare_bmr(
    nyu: Annotated[Path, typer.Option(help="Folder of NYU Depth v2.", show_default=False)],
    kitti: Annotated[Path, typer.Option(help="Folder of KITTI.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the prepared recordings.", show_default=False)],
    splits: Annotated[
        Path | None, typer.Option(help="Folder with the published lists of frames; default: all frames of the trees.")
    ] = None,
    max_frames: Annotated[int, typer.Option(min=1, help="Most frames of one robot.")] = 1000,
) -> None:
    """Prepare 10 indoor and 10 outdoor robots, and the unseen sequences of both groups.

    fedperc prepare bmr --nyu nyu_depth_v2 --kitti kitti --splits data_splits --out prepared/bmr
    """
    from fed_core.data.bmr.clients import bmr_clients, bmr_tests

    tests = bmr_tests(nyu, kitti, splits)
    long_enough = [test for test in tests if len(test.frames) >= FEWEST_TEST_FRAMES]
    for test in tests:
        if test not in long_enough:
            typer.echo(f"left out {test.name}: it has {len(test.frames)} frames, {FEWEST_TEST_FRAMES} are needed")
    _write([*bmr_clients(nyu, kitti, splits, max_frames), *long_enough], out)


def _write(sequences: "list[BmrSequence]", out: Path) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from fed_core.data.store import read_index, write_store

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    skipped = 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("frames", total=sum(len(sequence.frames) for sequence in sequences))
        before = 0
        for sequence in sequences:
            progress.update(task, description=sequence.name)

            def show(done: int, total: int, before: int = before) -> None:
                progress.update(task, completed=before + done)

            # A finished store stays as it is, a half-done one goes on.
            store = write_store(sequence.open(), out / sequence.name, info=sequence.info, on_progress=show)
            skipped += int(read_index(store).get("skipped", 0))
            before += len(sequence.frames)
            progress.update(task, completed=before)
    typer.echo(f"{len(sequences)} recordings in {out}; {skipped} broken or empty frames left out")
