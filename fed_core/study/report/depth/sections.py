"""The sections of a depth study's report, in their order."""

from fed_core.study.report.depth import ablations, claims, panels, plots, tables
from fed_core.study.report.document import Block, Section, Table
from fed_core.study.report.results import Study
from fed_core.study.report.task import TaskReport
from fed_core.study.report.verdicts import comparison_table, verdict_table

_SHORT = ("Strategy", "Seeds", "AbsRel ↓", "RMSE [m] ↓", "δ1 ↑")


def sections(study: Study) -> list[Section]:
    """Return claims, results of every network, and pictures of depth."""
    found = []
    parts = claims.judge_claims(study)
    if parts:
        verdicts = verdict_table(parts, claims.not_asked(study))
        found.append(Section("Claims of the paper", (verdicts, comparison_table(parts, claims.NOTE))))
    for model in study.models:
        if study.finished(model):
            found.append(Section(f"Results of {model}", _results(study, model)))
    pictures = panels.draw_panels(study)
    if pictures:
        found.append(Section("Depth on unseen sequences", tuple(pictures)))
    return found


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


def short(study: Study, model: str) -> list[Table]:
    """Return the main figures for a terminal."""
    return [_narrow(full) for full in (tables.accuracy(study, model), tables.reference_accuracy(study, model))]


def _narrow(table: Table) -> Table:
    columns = [table.header.index(heading) for heading in _SHORT]
    return Table(table.caption, _SHORT, tuple(tuple(row[column] for column in columns) for row in table.rows))


REPORT = TaskReport(
    rendered="depth",
    tested="Unseen test sequences",
    methods=lambda study: (),
    sections=sections,
    short=short,
    claims=claims.judge_claims,
)
