"""Put a study's report together and write it: Markdown with pictures beside it, and one HTML file without any."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from fed_core.errors import DataError
from fed_core.study.report.bev.sections import REPORT as BEV
from fed_core.study.report.depth.sections import REPORT as DEPTH
from fed_core.study.report.detection.sections import REPORT as DETECTION
from fed_core.study.report.document import Block, Paragraph, Picture, Report, Section, to_markdown
from fed_core.study.report.html import to_html
from fed_core.study.report.overview import overview, without_folders
from fed_core.study.report.results import Study, folder_name, read_study
from fed_core.study.report.task import TaskReport
from fed_core.wire import files

if TYPE_CHECKING:
    from rich.table import Table as RichTable

IMAGES = "images"

_TASKS: Mapping[str, TaskReport] = {"depth": DEPTH, "bev": BEV, "detection": DETECTION}


def write_report(folder: Path) -> tuple[Path, Path]:
    """Write ``report.md`` (pictures in ``images/``) and the self-contained ``report.html`` into a study folder.

    Args:
        folder: what ``fedperc study --out`` wrote; it need not be finished.

    Returns:
        The paths of the Markdown and of the HTML file.

    Raises:
        DataError: the folder holds no study.
    """
    report = build(read_study(folder))
    _write_pictures(report, folder / IMAGES, prefix="")
    markdown, page = folder / "report.md", folder / "report.html"
    files.write_text(markdown, to_markdown(report, IMAGES))
    files.write_text(page, to_html(report))
    return markdown, page


def publish(folder: Path, docs_folder: Path) -> Path:
    """Write the Markdown report into a folder of the documentation, named after the study; returns its path.

    Absolute paths in the command and the settings are cut to their last part.
    """
    study = read_study(folder)
    study = replace(study, plan=without_folders(study.plan))
    name = folder_name(str(study.plan.get("study") or folder.name)).replace("-", "_")
    report = build(study)
    report = _write_pictures(report, docs_folder / IMAGES, prefix=f"{name}_")
    path = docs_folder / f"{name}.md"
    files.write_text(path, to_markdown(report, IMAGES))
    return path


def build(study: Study) -> Report:
    """Return the whole report of a study.

    Raises:
        DataError: no report is known for the study's task.
    """
    task = _task_of(study)
    first = Section("What was run", overview(study, task))
    if study.cells:
        return Report(_title(study), (first, *task.sections(study)))
    return Report(_title(study), (first, Section("Results", (Paragraph("No run is finished yet."),))))


def _task_of(study: Study) -> TaskReport:
    name = study.plan.get("task", "depth")
    if name not in _TASKS:
        raise DataError(f"{study.folder} is a study of task {name!r}; there are reports of {', '.join(_TASKS)}")
    return _TASKS[name]


def _title(study: Study) -> str:
    return str(study.plan.get("title") or study.plan.get("study") or "Study")


def _write_pictures(report: Report, folder: Path, prefix: str) -> Report:
    """Write all pictures and return the report with their names prefixed."""
    folder.mkdir(parents=True, exist_ok=True)

    def stored(block: Block) -> Block:
        if not isinstance(block, Picture):
            return block
        named = replace(block, name=prefix + block.name)
        (folder / f"{named.name}.png").write_bytes(named.png)
        return named

    sections = (replace(s, blocks=tuple(stored(block) for block in s.blocks)) for s in report.sections)
    return replace(report, sections=tuple(sections))


def summary(folder: Path) -> "RichTable":
    """Return the short version for a terminal: the main figures of every model and strategy, and the verdicts."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    study = read_study(folder)
    table = RichTable(title=escape(_title(study)), box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.caption, table.caption_justify = escape(_caption(study)), "left"
    shown = [(model, short) for model in study.models for short in _task_of(study).short(study, model)]
    table.add_column("Model", no_wrap=True)
    for column, heading in enumerate(shown[0][1].header if shown else ()):
        table.add_column(escape(heading), justify="right" if column else "left", no_wrap=True)
    for model, group in groupby(shown, key=itemgetter(0)):
        for row in (row for _, short in group for row in short.rows):
            texts = (f"[bold]{escape(f.text)}[/bold]" if f.strong else escape(f.text) for f in row)
            table.add_row(escape(model), *texts)
        table.add_section()
    return table


def _caption(study: Study) -> str:
    lines = ["Mean ± sample standard deviation over the seeds; bold: best federated strategy."]
    if study.missing:
        lines.append(f"{len(study.missing)} of {len(study.cells) + len(study.missing)} runs are not finished.")
    for part in _task_of(study).claims(study):
        verdicts: dict[str, list[str]] = {}
        for model in part.models:
            verdicts.setdefault(part.verdict(model), []).append(model)
        lines.append(f"{part.claim}. {part.text}: " + "; ".join(f"{v} ({', '.join(m)})" for v, m in verdicts.items()))
    return "\n".join(lines)
