"""The sections of a detection study's report, in their order."""

from fed_core.study.report.detection import (
    claims,
    layer_tables,
    mask_plots,
    notes,
    panels,
    plots,
    settings,
    tables,
)
from fed_core.study.report.document import Block, Paragraph, Section, Table
from fed_core.study.report.results import Study
from fed_core.study.report.task import TaskReport
from fed_core.study.report.verdicts import comparison_table, verdict_table


def sections(study: Study) -> list[Section]:
    """Return claims, then scores, settings and layers of every network, and pictures of boxes."""
    models = [model for model in study.models if study.finished(model)]
    warning = tuple(Paragraph(notes.size_sentence(study, model)) for model in models)
    found = [Section("Domains", (*warning, *_present(tables.domains(study)))), _claims(study)]
    for model in models:
        found.append(Section(f"Results of {model}", _results(study, model)))
        found.append(Section(f"Settings of FedCKA, {model}", _settings(study, model)))
        found.append(Section(f"Layers and masks of {model}", _layers(study, model)))
    found.append(Section("Boxes in unseen frames", tuple(panels.draw_panels(study))))
    return [section for section in found if section.blocks]


def _claims(study: Study) -> Section:
    parts = claims.judge_claims(study)
    if not parts:
        return Section("Claims of the paper", ())
    note = " ".join(filter(None, (claims.CLAIMS_NOTE, claims.not_asked(study))))
    return Section("Claims of the paper", (verdict_table(parts, note), comparison_table(parts, claims.NOTE)))


def _results(study: Study, model: str) -> tuple[Block, ...]:
    return _present(
        tables.scores(study, model, "nds"),
        *map(Paragraph, filter(None, [tables.hardly_sentence(study, model)])),
        tables.scores(study, model, "map"),
        tables.scores(study, model, "cap"),
        plots.draw_matrices(study, model),
        tables.transfer(study, model),
        tables.costs(study, model),
        plots.draw_curves(study, model),
    )


def _settings(study: Study, model: str) -> tuple[Block, ...]:
    return _present(
        settings.choice_table(study, model),
        settings.insides(study, model),
        plots.draw_shares(study, model),
        settings.readings(study, model),
        settings.option_table(study, model),
    )


def _layers(study: Study, model: str) -> tuple[Block, ...]:
    return _present(
        mask_plots.draw_masks(study, model),
        layer_tables.grouped(study, model),
        layer_tables.single(study, model),
        layer_tables.stability(study, model),
        mask_plots.draw_depth(study, model),
    )


def _present(*blocks: "Block | None") -> tuple[Block, ...]:
    return tuple(b for b in blocks if b is not None and not (isinstance(b, Table) and not b.rows))


REPORT = TaskReport(
    rendered="LiDAR scan",
    tested="Test and validation scenes",
    methods=tables.methods,
    sections=sections,
    short=tables.short,
    claims=claims.judge_claims,
)
