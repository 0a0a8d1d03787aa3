"""Put a study's report together and write it: Markdown with pictures beside it, and one HTML file without any."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fed_core.study.report.depth import ablations, panels, plots, tables
from fed_core.study.report.depth.claims import comparison_table, judge_claims, not_asked, verdict_table
from fed_core.study.report.document import Block, Paragraph, Picture, Report, Section, Table, to_markdown
from fed_core.study.report.overview import overview, without_folders
from fed_core.study.report.results import Study, folder_name, read_study
from fed_core.wire import files

if TYPE_CHECKING:
    from rich.table import Table as RichTable

IMAGES = "images"


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
    """Return the whole report of a study."""
    sections = [Section("What was run", overview(study))]
    if not study.cells:
        sections.append(Section("Results", (Paragraph("No run is finished yet."),)))
        return Report(_title(study), tuple(sections))
    parts = judge_claims(study)
    if parts:
        sections.append(
            Section("Claims of the paper", (verdict_table(parts, not_asked(study)), comparison_table(parts)))
        )
    for model in study.models:
        if study.finished(model):
            sections.append(Section(f"Results of {model}", _results(study, model)))
    pictures = panels.draw_panels(study)
    if pictures:
        sections.append(Section("Depth on unseen sequences", tuple(pictures)))
    return Report(_title(study), tuple(sections))


def _results(study: Study, model: str) -> tuple[Block, ...]:
    blocks: list[Block | None] = [
        tables.accuracy(study, model),
        tables.reference_accuracy(study, model),
        tables.costs(study, model),
        tables.clustering(study, model),
        tables.by_environment(study, model),
        plots.draw_convergence(study, model),
        tables.convergence(study, model),
        plots.draw_memberships(study, model),
        plots.draw_choices(study, model),
        ablations.ablations(study, model),
    ]
    return tuple(b for b in blocks if b is not None and not (isinstance(b, Table) and not b.rows))


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


def to_html(report: Report) -> str:
    """Return the report as one page that loads nothing: styles and pictures are inside."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["data_url"] = _data_url
    return environment.get_template("page.html.jinja").render(report=report)


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def summary(folder: Path) -> "RichTable":
    """Return the short version for a terminal: the main figures of every model and strategy, and the verdicts."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    study = read_study(folder)
    table = RichTable(title=escape(_title(study)), box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.caption, table.caption_justify = escape(_caption(study)), "left"
    short = ("Strategy", "Seeds", "AbsRel ↓", "RMSE [m] ↓", "δ1 ↑")
    table.add_column("Model", no_wrap=True)
    for heading in short:
        table.add_column(escape(heading), justify="left" if heading == "Strategy" else "right", no_wrap=True)
    for model in study.models:
        for full in (tables.accuracy(study, model), tables.reference_accuracy(study, model)):
            columns = [full.header.index(heading) for heading in short]
            for row in full.rows:
                fields = [row[column] for column in columns]
                texts = [f"[bold]{escape(f.text)}[/bold]" if f.strong else escape(f.text) for f in fields]
                table.add_row(escape(model), *texts)
        table.add_section()
    return table


def _caption(study: Study) -> str:
    lines = ["Mean ± sample standard deviation over the seeds; bold: best federated strategy."]
    if study.missing:
        lines.append(f"{len(study.missing)} of {len(study.cells) + len(study.missing)} runs are not finished.")
    for part in judge_claims(study):
        verdicts: dict[str, list[str]] = {}
        for model in part.models:
            verdicts.setdefault(part.verdict(model), []).append(model)
        lines.append(f"{part.claim}. {part.text}: " + "; ".join(f"{v} ({', '.join(m)})" for v, m in verdicts.items()))
    return "\n".join(lines)
