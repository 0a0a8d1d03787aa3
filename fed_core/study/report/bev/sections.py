"""The sections of a bev study's report, in their order."""

from fed_core.study.report.bev import ablations, claims, notes, panels, plots, tables
from fed_core.study.report.document import Block, Paragraph, Section, Table
from fed_core.study.report.results import Study
from fed_core.study.report.task import TaskReport
from fed_core.study.report.verdicts import comparison_table, verdict_table


def sections(study: Study) -> list[Section]:
    """Return claims and controls, results of every network, and pictures of maps."""
    found = [section for section in (_claims(study), _controls(study)) if section]
    for model in study.models:
        if study.finished(model):
            found.append(Section(f"Results of {model}", _results(study, model)))
            found.append(Section(f"Rounds of {model}", _rounds(study, model)))
    pictures = panels.draw_panels(study)
    if pictures:
        found.append(Section("Maps of unseen frames", tuple(pictures)))
    return [section for section in found if section.blocks]


def _claims(study: Study) -> Section | None:
    parts = claims.judge_claims(study)
    if not parts:
        return None
    verdicts = verdict_table(parts, " ".join(filter(None, (claims.CLAIMS_NOTE, claims.not_asked(study)))))
    return Section("Claims of the paper", (verdicts, comparison_table(parts, claims.NOTE, digits=2)))


def _controls(study: Study) -> Section | None:
    parts = claims.judge_controls(study)
    if not parts:
        return None
    verdicts = verdict_table(parts, claims.CONTROLS_NOTE, caption="Does the KL divergence do anything? Verdicts")
    caption = "Does the KL divergence do anything? All comparisons"
    return Section("Controls", (verdicts, comparison_table(parts, claims.NOTE, digits=2, caption=caption)))


def _results(study: Study, model: str) -> tuple[Block, ...]:
    return _present(
        tables.accuracy(study, model),
        tables.reference_accuracy(study, model),
        *map(Paragraph, filter(None, [notes.blind_sentence(study, model)])),
        tables.best_rounds(study, model),
        tables.measures(study, model),
        tables.measures_by_client(study, model),
        ablations.loss_ablation(study, model),
        ablations.direction_table(study, model),
        ablations.option_table(study, model),
        tables.costs(study, model),
    )


def _rounds(study: Study, model: str) -> tuple[Block, ...]:
    return _present(
        plots.draw_curves(study, model),
        plots.draw_clients(study, model),
        notes.pulls(study, model),
        *map(Paragraph, filter(None, (notes.inert_sentence(study, model), notes.floor_sentence(study, model)))),
        *plots.draw_insides(study, model),
        *map(Paragraph, notes.dropped_sentences(study, model)),
    )


def _present(*blocks: "Block | None") -> tuple[Block, ...]:
    return tuple(b for b in blocks if b is not None and not (isinstance(b, Table) and not b.rows))


REPORT = TaskReport(
    rendered="mask",
    tested="Test and validation frames",
    methods=tables.methods,
    sections=sections,
    short=tables.short,
    claims=lambda study: [*claims.judge_claims(study), *claims.judge_controls(study)],
)
