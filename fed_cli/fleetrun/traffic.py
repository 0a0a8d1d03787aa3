"""Made-up traffic of a fleet file, with its progress on the terminal."""

from pathlib import Path

from rich.console import Console

from fed_core.fleet import FleetConfig


def make_traffic(fleet: FleetConfig, folder: Path, console: Console) -> FleetConfig:
    """Return the fleet with its traffic in ``folder``; see :func:`fed_core.traffic.with_traffic`."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from fed_core.traffic import with_traffic

    if not fleet.traffic:
        return fleet
    columns = (TextColumn("rendering traffic"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=console.is_terminal) as progress:
        task = progress.add_task("frames", total=None)
        return with_traffic(fleet, folder, lambda done, total: progress.update(task, completed=done, total=total))
