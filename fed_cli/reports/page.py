"""Put a report together and write it: one HTML file that loads nothing."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fed_cli.reports.compare import comparison
from fed_cli.reports.runs import among_others, sections
from fed_cli.reports.sources import Source, read_sources
from fed_cli.reports.studies import study_sections
from fed_core.errors import DataError, StoreError
from fed_core.study.report.document import Picture, Report, Section
from fed_core.study.report.html import GENERATOR, to_html
from fed_core.wire.files import write_text

#: Where :func:`write` looks whether a page is one of ours.
_HEAD_BYTES = 4096


def build(paths: Sequence[Path], bags: Sequence[Path] = ()) -> Report:
    """Return the report of runs, demos and studies, side by side where there are several.

    Args:
        paths: their folders.
        bags: recordings with what inference published, of which pictures are drawn.

    Raises:
        DataError: a path is nothing that a report can be made of.
        StoreError: a journal is broken.
    """
    sources = read_sources(paths)
    if len(sources) == 1:  # of one demo one wants to know first what it was
        single = sections(sources[0]) if sources[0].study is None else study_sections(sources[0].study)
        found = [*single[:1], *comparison(sources), *single[1:]]
    else:  # each of them alone first: that tells which one is broken
        single = [one for source in sources for one in _one_of_many(source)]
        found = [*comparison(sources), *single]
    pictures = [picture for bag in bags for picture in _drawn(bag)]
    if pictures:
        found.append(Section("Predictions in recordings", tuple(pictures)))
    return Report(_title(sources), tuple(found))


def _one_of_many(source: Source) -> list[Section]:
    if source.study is None:
        return among_others(source)
    return [replace(one, title=f"{source.name}: {one.title}") for one in study_sections(source.study)]


def _title(sources: Sequence[Source]) -> str:
    if len(sources) > 1:
        return f"{len(sources)} compared: {', '.join(source.name for source in sources)}"
    one = sources[0]
    if one.study is not None:
        return str(one.study.plan.get("title") or one.name)
    return f"{'Demo' if one.is_demo else 'Run'} {one.name}"


def _drawn(bag: Path) -> list[Picture]:
    """Return the pictures of ``fedperc picture``."""
    from fed_cli.recorded.drawn import Wanted, draw_bag

    with tempfile.TemporaryDirectory() as folder:
        return [
            Picture(path.stem, path.read_bytes(), f"{path.stem} in {bag.name}: input, prediction, truth", f"{bag.name}")
            for path in draw_bag(bag, Wanted(Path(folder)))
        ]


def write(report: Report, path: Path) -> None:
    """Write a report; a file that is none is not replaced.

    Raises:
        DataError: ``path`` is a folder, or a file that is no report.
        StoreError: it cannot be written.
        ConfigError: plotly is missing.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; name the file, as --out {path / 'report.html'}")
    if path.exists() and GENERATOR not in _head(path):
        raise DataError(f"{path} exists and is no report; choose another file with --out")
    text = to_html(report)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise StoreError(f"cannot make {path.parent}: {err.strerror}") from err
    write_text(path, text)


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode("utf-8", errors="replace")
    except OSError as err:
        raise StoreError(f"cannot read {path}: {err.strerror}") from err
