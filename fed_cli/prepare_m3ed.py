"""``fedperc prepare m3ed``: M3ED recordings as robots and unseen sequences of one fleet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fed_cli.main import BAD_INPUT
from fed_cli.prepare import prepare_app

if TYPE_CHECKING:
    from fed_core.data.m3ed.prepare import PrepareOptions
    from fed_core.data.m3ed.split import M3edSplit

DATA_HELP = "Folder with NAME/NAME_data.h5, NAME_depth_gt.h5 and, if you have it, NAME_rgb.avi; or all of them flat."


@prepare_app.command("m3ed")
def prepare_m3ed(
    data: Annotated[Path, typer.Option(help=DATA_HELP, show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the prepared recordings.", show_default=False)],
    sequences: Annotated[
        Optional[list[str]],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(help="Only these recordings; repeat it, or separate the names by commas.", show_default=False),
    ] = None,
    pairing: Annotated[
        str, typer.Option(help="strict: image and depth within 5 ms; pose: within 20 ms, points moved to the image.")
    ] = "pose",
    camera: Annotated[
        str, typer.Option(help="depth_to_rgb, or rgb_to_event (right for far scenes only).")
    ] = "depth_to_rgb",
    max_frames: Annotated[int, typer.Option(min=1, help="Most frames of one recording, uniform in time.")] = 600,
) -> None:
    """Prepare the recordings of the 41/11 split that are there; others are told and skipped. Resumes.

    fedperc prepare m3ed --data m3ed --out prepared/m3ed

    fedperc prepare m3ed --data m3ed --out prepared/one --sequences spot_forest_hard --pairing strict
    """
    from fed_core.data.m3ed.options import M3edOptions
    from fed_core.data.m3ed.prepare import PrepareOptions, find_recordings
    from fed_core.data.m3ed.split import load_split

    options = PrepareOptions(M3edOptions(pairing=pairing, frame=camera), max_frames)
    names = [name.strip() for text in sequences or () for name in text.split(",") if name.strip()]
    split = load_split()
    chosen = _chosen(split, find_recordings(data), names)
    if not chosen or _write(split, chosen, out, options):
        raise typer.Exit(BAD_INPUT)


def _chosen(split: "M3edSplit", found: dict[str, Path], names: list[str]) -> dict[str, Path]:
    """Return the recordings to prepare; tells of those that are there but not used."""
    from fed_core.errors import DataError

    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(f"no recording {missing[0]} there; found: {', '.join(found)}")
    wanted = {name: folder for name, folder in found.items() if not names or name in names}
    for name in wanted:
        if reason := split.why_not(name):
            typer.echo(f"skipped {name}: {reason}")
    chosen = {name: folder for name, folder in wanted.items() if not split.why_not(name)}
    if not chosen:
        typer.echo("nothing to prepare: none of these recordings is in the split")
    return chosen


def _write(split: "M3edSplit", chosen: dict[str, Path], out: Path, options: "PrepareOptions") -> int:
    """Prepare the recordings one after the other; returns how many failed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from fed_core.data.m3ed.prepare import prepare_recording
    from fed_core.data.store import read_index
    from fed_core.errors import DataError

    entries = {entry.name: entry for entry in split.entries}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    failed = 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        whole = progress.add_task("recordings", total=len(chosen))
        for name, folder in chosen.items():
            task = progress.add_task(name, total=None)

            def show(what: str, done: int, total: int, task: object = task, name: str = name) -> None:
                progress.update(task, description=f"{name}: {what}", completed=done, total=total)  # type: ignore[arg-type]

            try:
                store = prepare_recording(folder, entries[name], out, options, show, role=split.role_of(name))
            except DataError as err:
                failed += 1
                typer.echo(f"failed {name}: {err}", err=True)
            else:
                index = read_index(store)
                frames, skipped = len(index["frames"]), index.get("skipped", 0)
                typer.echo(f"{name}: {frames} frames, {skipped} without depth; |dt| {index['info']['dt']}")
            progress.remove_task(task)
            progress.advance(whole)
    typer.echo(f"{len(chosen) - failed} of {len(chosen)} recordings in {out}")
    return failed
