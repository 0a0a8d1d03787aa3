"""Derives a run again, with its progress on the terminal."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fed_cli.fleetrun.runs import JOURNAL, runs_of_demo
from fed_core.audit import Audit, RoundCheck
from fed_core.errors import StoreError


def checked(folder: Path, *, quiet: bool) -> list[RoundCheck]:
    """Return the checks of all rounds.

    Args:
        folder: the run's folder.
        quiet: show no progress.

    Raises:
        StoreError: there is no run, it is of another version, or no round has closed yet.
    """
    if not (folder / JOURNAL).is_file():
        inside = [str(run) for run in runs_of_demo(folder)]
        told = (
            f"is a demo; name one of its runs: {', '.join(inside)}"
            if inside
            else "holds no run; fedperc runs finds them"
        )
        raise StoreError(f"{folder} {told}")
    audit = Audit(folder)
    try:
        if not audit.rounds:
            raise StoreError(f"{folder}: no round has closed yet; verify it later")
        columns = (TextColumn("round"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as progress:
            return list(progress.track(audit.checks(), total=len(audit.rounds)))
    finally:
        audit.close()
