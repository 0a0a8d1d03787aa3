"""A study in the terminal: how far it is, and where its recordings come from."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fed_core.errors import DataError
from fed_core.study.config import StudyConfig
from fed_core.study.runner import Progress

if TYPE_CHECKING:
    from fed_core.simulation.ray_cluster import RayOptions

#: Scenarios whose data sets need no preparation.
_READ_AS_THEY_ARE = ("bev", "detection-domains")


class StudyView:
    """Draws a study's progress; on a pipe or in a log, one line per finished run.

    Args:
        console: where to draw.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start_s = self._stage_s = time.monotonic()
        self._last = ("", -1)
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def show(self, progress: Progress) -> None:
        """Draw how far it is."""
        if progress.stage != self._last[0]:
            self._stage_s = time.monotonic()
        if self._live is not None:
            self._live.update(self._draw(progress))
        elif (progress.stage, progress.done) != self._last:
            of = f" {progress.done}/{progress.total}{self._left(progress)}" if progress.total else ""
            self._console.print(f"[{self._elapsed()}] {progress.stage}{of}", highlight=False, soft_wrap=True)
        self._last = (progress.stage, progress.done)

    def _draw(self, progress: Progress) -> Group:
        head = Text(f"{self._elapsed()}  {progress.stage}", style="bold")
        if progress.total:
            head.append(f"  {progress.done} of {progress.total}{self._left(progress)}", style="cyan")
        if progress.failures:
            head.append(f"  {len(progress.failures)} failed", style="red")
        table = Table.grid(padding=(0, 1))
        if progress.total:
            table.add_row("all", ProgressBar(total=progress.total, completed=progress.done, width=30), "")
        for name, (done, total) in sorted(progress.running.copy().items()):
            if done < total:
                table.add_row(name, ProgressBar(total=total, completed=done, width=30), f"{done}/{total}")
        return Group(head, table)

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._start_s)
        return f"{seconds // 60:3d}:{seconds % 60:02d}"

    def _left(self, progress: Progress) -> str:
        """Return about how long the rest of the stage takes, once something is known."""
        done = progress.done - progress.found
        if done <= 0 or progress.done >= progress.total:
            return ""
        per_run_s = (time.monotonic() - self._stage_s) / done
        return f", about {max(1, round(per_run_s * (progress.total - progress.done) / 60))} min left"

    def __enter__(self) -> "StudyView":
        """Begin to draw."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()


def play(
    config: StudyConfig,
    folder: Path,
    console: Console,
    *,
    data: Path | None,
    jobs: int,
    command: str,
    ray: "RayOptions | None" = None,
) -> Progress:
    """Run a study with its progress on ``console``; see :class:`fed_core.study.runner.Study`."""
    from fed_core.study.runner import Study
    from fed_models.toolbox import toolbox

    with _terminated_like_interrupted(), StudyView(console) as view:
        where: dict[str, Any] = {"data": data, "jobs": jobs, "ray": ray}
        return Study(config, folder, toolbox, command=command, on_progress=view.show, **where).run()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Make SIGTERM stop a study as Ctrl-C does, so that its processes end with it."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show_result(console: Console, folder: Path, progress: Progress, docs: Path | None) -> None:
    """Print what failed, the figures, and where the report is; ``docs`` gets it as Markdown, too."""
    from fed_core.study.report import publish, summary, write_report

    for failure in progress.failures:
        console.print(f"failed: {failure.what}: {failure.text}", style="red", highlight=False, soft_wrap=True)
    reports = [*write_report(folder), *([publish(folder, docs)] if docs else [])]
    console.print(summary(folder))
    for path in reports:
        console.print(str(path), highlight=False, soft_wrap=True)


def recordings(scenario: str, data: Path, folder: Path) -> Path:
    """Return a folder of prepared recordings: ``data`` itself, or what is prepared from the data set in it.

    Args:
        scenario: "depth-hpe" takes M3ED, "depth-bmr" a folder with ``nyu``, ``kitti`` and, if there, ``splits``, "bev"
            OPV2V's layout as it is, "detection-domains" a nuScenes dataroot as it is.
        data: what the user named.
        folder: of the study; prepared recordings go below it.
    """
    if not data.is_dir():
        raise DataError(f"{data} is no folder; name the data set, or a folder that `fedperc prepare` wrote")
    if scenario in _READ_AS_THEY_ARE or any(data.glob("*/index.json")):
        return data
    out = folder / "recordings"
    if scenario == "depth-hpe":
        from fed_cli.prepare_m3ed import prepare_m3ed
        from fed_core.data.m3ed.prepare import find_recordings

        try:
            find_recordings(data)
        except DataError as err:
            raise DataError(f"{err}; nor anything that `fedperc prepare` wrote") from err
        prepare_m3ed(data, out, None, "pose", "depth_to_rgb", 600)
        return out
    from fed_cli.prepare_bmr import prepare_bmr

    splits = data / "splits"
    for name in ("nyu", "kitti"):
        if not (data / name).is_dir():
            raise DataError(f"{data} has no folder {name}; it needs nyu and kitti, or run `fedperc prepare bmr --help`")
    prepare_bmr(data / "nyu", data / "kitti", out, splits if splits.is_dir() else None, 1000)
    return out
