"""What a path is: a run, a demo with its runs, or a study; anything else is an error that says what to name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fed_cli.fleetrun.folder import CONFIG, SUMMARY
from fed_cli.fleetrun.runs import JOURNAL, runs_of_demo
from fed_cli.reports.history import History, read_history
from fed_core.errors import DataError, StoreError
from fed_core.study.report.results import Study, read_study

STUDY = "study.json"


@dataclass(frozen=True)
class Source:
    """One path of the command line.

    Attributes:
        name: what it is called in the report.
        folder: where it is.
        study: of a study.
        histories: of the runs of a demo, or of the one run.
        summary: of a demo that ended.
        fleet: fleet file of a demo.
        notes: what is missing or cannot be read.
    """

    name: str
    folder: Path
    study: Study | None = None
    histories: tuple[History, ...] = ()
    summary: Mapping[str, Any] | None = None
    fleet: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def is_demo(self) -> bool:
        """Whether it is the folder of a demo."""
        return self.study is None and bool(self.summary or self.fleet)


def read_sources(paths: Sequence[Path]) -> list[Source]:
    """Read all paths; names are as short as they can be told apart.

    Raises:
        DataError: a path does not exist or is nothing that a report can be made of.
        StoreError: a journal is broken.
    """
    names = short_names([path.absolute() for path in paths])
    return [_read(path, name) for path, name in zip(paths, names, strict=True)]


def short_names(paths: Sequence[Path]) -> list[str]:
    """Return the last parts of each path, as many as tell all paths apart."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise DataError(f"the same path is named twice: {', '.join(map(str, paths))}; name each once")


def _read(path: Path, name: str) -> Source:
    if path.name == JOURNAL and path.is_file():
        path, name = path.parent, path.absolute().parent.name
    if not path.exists():
        raise DataError(f"{path} does not exist; name the folder of a run, a demo or a study")
    if not path.is_dir():
        raise DataError(f"{path} is a file; name the folder of a run, a demo or a study")
    if (path / STUDY).is_file():
        return Source(name, path, study=read_study(path))
    if (path / SUMMARY).is_file() or (path / CONFIG).is_file() or runs_of_demo(path):
        return _demo(path, name)
    if (path / JOURNAL).is_file():
        return Source(name, path, histories=(read_history(path, name),))
    raise DataError(_nothing(path))


def _nothing(path: Path) -> str:
    """Return why a folder is nothing to report on, and what in it is."""
    if not any(path.iterdir()):
        return f"{path} is empty; name the folder of a run, a demo or a study"
    ends = (STUDY, SUMMARY, CONFIG, JOURNAL)
    inside = sorted({str(file.parent) for end in ends for file in path.glob(f"*/{end}")})
    if inside:
        return f"{path} holds several; name those that you want: {' '.join(inside[:10])}"
    return f"{path} holds no run, demo or study; see what it is with: fedperc inspect {path}"


def _demo(folder: Path, name: str) -> Source:
    notes: list[str] = []
    histories = []
    for run in runs_of_demo(folder):
        try:
            histories.append(read_history(run, f"{name}/{run.name}"))
        except StoreError as err:  # the others can still be told
            notes.append(str(err))
    summary, fleet = (_tree(folder / file, notes) for file in (SUMMARY, CONFIG))
    if summary is None:
        notes.append("The demo has not ended: there are no scores yet. The same command with --resume goes on.")
    order = [summary.get("strategy") if summary else None, "fedavg"]
    histories.sort(key=lambda h: (order.index(h.folder.name) if h.folder.name in order else 2, h.name))
    return Source(name, folder, histories=tuple(histories), summary=summary, fleet=fleet, notes=tuple(notes))


def _tree(path: Path, notes: list[str]) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        notes.append(f"{path.name} cannot be read: {err}.")
        return None
    return tree if isinstance(tree, dict) else None
