"""Where the page's figures come from: a live fleet through the monitor, or the folder of a run or a demo."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from fed_cli.fleetrun.folder import CONFIG, SUMMARY
from fed_cli.fleetrun.monitor import MonitorReader
from fed_cli.fleetrun.runs import JOURNAL
from fed_cli.fleetrun.watching import Watch, domain_of
from fed_cli.reports.runs import PREDICTIONS, head
from fed_cli.reports.sources import STUDY, read_sources
from fed_cli.web.pictures import Shown, read_picture
from fed_cli.web.recorded import faults_of, state_of
from fed_cli.web.snapshot import MOST_NAME, run_tree, short
from fed_core.errors import DataError, FedError
from fed_core.study.report.document import Block, Paragraph, Picture, Table

Tree = dict[str, Any]
#: How often a live state is new even if nobody said anything [s].
_TIME_S = 2.0
#: How long a picture is there after a newer one has come [s].
_KEPT_S = 10.0


class Feed(Protocol):
    """What the server asks of a source. Its methods are called in threads, one call at a time."""

    def version(self) -> object:
        """Return something that is not the same after a change."""

    def tree(self) -> Tree:
        """Return the newest state."""

    def picture(self, digest: str) -> Shown | None:
        """Return a picture that the newest tree names."""

    def services(self) -> Mapping[str, str]:
        """Return types of services that somebody may act on, by name."""

    def check(self) -> None:
        """Raise a FedError where nothing will ever come again."""


class LiveFeed:
    """A fleet that runs.

    Args:
        monitor: listens to it.
        what: where.
    """

    def __init__(self, monitor: MonitorReader, what: Watch) -> None:
        self._monitor, self._what = monitor, what
        self._pictures: dict[str, tuple[Shown, float]] = {}
        self._read: dict[str, tuple[str, Shown | None]] = {}

    def version(self) -> object:
        """Return how many lines the monitor told; faults end and deadlines near by time alone."""
        return self._monitor.state.heard, time.monotonic() // _TIME_S

    def check(self) -> None:
        """Raise a FedError where the monitor has ended."""
        if self._monitor.ended:
            raise FedError(f"the monitor ended: {self._monitor.last_words()}")

    def services(self) -> Mapping[str, str]:
        """Return what may be acted on."""
        with self._monitor.changed:
            return {one["name"]: one["type"] for one in self._monitor.state.services}

    def picture(self, digest: str) -> Shown | None:
        """Return one of the newest pictures, or one that a slow browser asks for a little late."""
        return self._pictures.get(digest, (None, 0.0))[0]

    def tree(self) -> Tree:
        """Return the newest state of the fleet."""
        with self._monitor.changed:
            state = self._monitor.state
            run, known, lines = run_tree(state), bool(state.fleet), dict(state.pictures)
            others, looked = list(state.fleets), state.looked
        shown = self._shown(lines)
        return {
            "mode": "live",
            "title": f"{self._what.fleet_ns} in ROS domain {self._domain()}",
            "notes": [] if known else [self._missing(others, looked)],
            "runs": [run],
            "pictures": [one.to_tree() for one in shown],
            "tables": [],
        }

    def _shown(self, lines: Mapping[str, Mapping[str, Any]]) -> list[Shown]:
        """Decode what is new; the lines are already few and small."""
        read: dict[str, tuple[str, Shown | None]] = {}
        for name, line in lines.items():
            before = self._read.get(name)
            read[name] = before if before and before[0] is line["image"] else (line["image"], read_picture(line))
        self._read = read
        shown = [one for _, (_, one) in sorted(read.items()) if one is not None]
        now_s = time.monotonic()
        named = {**self._pictures, **{one.digest: (one, now_s) for one in shown}}
        self._pictures = {digest: told for digest, told in named.items() if now_s - told[1] <= _KEPT_S}
        return shown

    def _domain(self) -> str:
        return domain_of(self._what)

    def _missing(self, fleets: list[str], looked: bool) -> str:
        if not looked:
            return "The monitor starts."
        others = [short(name, MOST_NAME) for name in fleets if name != self._what.fleet_ns.rstrip("/")]
        hint = f" Fleets there: {', '.join(others[:10])} (--fleet-ns)." if others else ""
        return f"No fleet answers on {self._what.fleet_ns} yet; the page fills when its aggregator runs.{hint}"


class FolderFeed:
    """A run or a demo in a folder; one that still goes on is read again when its files change.

    Args:
        path: the folder.

    Raises:
        FedError: it holds neither.
    """

    def __init__(self, path: Path) -> None:
        self._path = path if path.is_dir() else path.parent
        self._pictures: dict[str, Shown] = {}
        if (path / STUDY).is_file():
            raise DataError(f"{path} is a study; its report shows it: fedperc report {path}")
        self._source = read_sources([path])[0]
        self._blocks: list[Block] = []

    def version(self) -> object:
        """Return sizes and times of the files that are shown."""
        return tuple(sorted(_marks(self._path)))

    def check(self) -> None:
        """Raise nothing: the folder may come back."""

    def services(self) -> Mapping[str, str]:
        """Return nothing: there is nobody to act on."""
        return {}

    def picture(self, digest: str) -> Shown | None:
        """Return the picture of the demo's predictions."""
        return self._pictures.get(digest)

    def tree(self) -> Tree:
        """Return what the journals say now; what was read last where they cannot be read."""
        notes = []
        try:
            self._source = read_sources([self._path])[0]
            self._blocks = head(self._source) if self._source.is_demo else []
        except FedError as err:
            notes.append(str(err))
        source, blocks = self._source, self._blocks
        shown = [_shown(block) for block in blocks if isinstance(block, Picture)]
        self._pictures = {one.digest: one for one in shown}
        return {
            "mode": "folder",
            "title": source.name,
            "notes": [*notes, *(block.text for block in blocks if isinstance(block, Paragraph))],
            "runs": [run_tree(state_of(one), faults_of(one)) for one in source.histories],
            "pictures": [one.to_tree() for one in shown],
            "tables": [_table(block) for block in blocks if isinstance(block, Table)],
        }


def _marks(folder: Path) -> Iterator[tuple[str, int, int]]:
    journals = (JOURNAL, f"{JOURNAL}-wal")
    patterns = (SUMMARY, CONFIG, PREDICTIONS, *journals, *(f"aggregator/*/{name}" for name in journals))
    for path in (found for pattern in patterns for found in folder.glob(pattern)):
        try:
            told = path.stat()
        except OSError:  # SQLite has just removed its write-ahead log
            continue
        yield str(path), told.st_mtime_ns, told.st_size


def _shown(picture: Picture) -> Shown:
    return Shown(picture.caption, "image/png", picture.png)


def _table(table: Table) -> Tree:
    rows: list[list[Any]] = [[{"text": entry.text, "strong": entry.strong} for entry in row] for row in table.rows]
    numeric = list(table.numeric)
    return {
        "caption": table.caption,
        "header": list(table.header),
        "numeric": numeric,
        "rows": rows,
        "note": table.note,
    }
