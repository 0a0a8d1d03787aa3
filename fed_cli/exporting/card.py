"""The card of an exported model: what it is, what it learned from, how good it is, and what it may be used for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fed_cli.exporting.choice import Chosen, served_by
from fed_cli.exporting.data import data_lines
from fed_cli.exporting.licences import licences
from fed_cli.exporting.runs import Found
from fed_cli.fleetrun.figures import number, words_of
from fed_cli.fleetrun.folder import SUMMARY
from fed_core.config import to_tree
from fed_core.data.inspect import size_text

if TYPE_CHECKING:
    from fed_models.export import Exported

_UNTRAINED = "initial"
_LIMITS = (
    "Not tested for safety: do not let it alone decide what a machine does near people.",
    "It has seen what the robots above recorded; elsewhere, with other cameras or other light it may be far off.",
    "The scores are those of single runs on few sequences; they rank nothing.",
)


@dataclass(frozen=True)
class Measured:
    """What was measured at the export.

    Attributes:
        files: what was written.
        parameters: number of trainable values.
        compared_on: where the inputs of the comparison came from.
        tolerance: largest share that was allowed.
        licence: of the weights, as the user said it; "" = not stated.
        versions: of packages, by name.
    """

    files: tuple["Exported", ...]
    parameters: int
    compared_on: str
    tolerance: float
    licence: str
    versions: Mapping[str, str]


def card(found: Found, chosen: Chosen, options: Mapping[str, Any], measured: Measured) -> str:
    """Return the card as Markdown.

    Args:
        found: what the run's path holds.
        chosen: the model.
        options: of the network, as it was exported.
        measured: what the export measured.
    """
    run = chosen.run
    config = run.plan.config
    lines = [
        f"# {config.network}: {chosen.label} of {run.run_id}",
        "",
        *_rows(
            ("task", config.task),
            ("network", f"{config.network}, {_options(options)}"),
            ("parameters", f"{measured.parameters:,}"),
            ("strategy", f"{config.strategy}, {_options(config.strategy_options)}"),
            ("chosen because", chosen.why),
            ("rounds", f"{run.round} of {config.total_rounds}{'' if run.plan.finished else ', the run goes on'}"),
            ("seed", str(config.seed)),
            ("training", _options(config.train)),
            ("run", f"{run.run_id}, configuration {config.digest[:12]}"),
            ("versions", ", ".join(f"{name} {version}" for name, version in measured.versions.items())),
        ),
        "",
        *_section("Files", _files(measured)),
        *_section("Inputs and outputs", _ports(measured)),
        *_section("Data", data_lines(found, chosen)),
        *_section("Scores", _scores(found, chosen)),
        *_section("Intended use and limits", _use(config.task)),
        *_section("Licence", _licence(config, measured)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _use(task: str) -> list[str]:
    return [f"For the task {task}, as inputs and outputs say.", "", *_bullets(_LIMITS)]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""]


def _rows(*rows: tuple[str, str]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {name} | {_cell(text)} |" for name, text in rows)]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    body = (f"| {' | '.join(map(_cell, row))} |" for row in rows)
    return [f"| {' | '.join(header)} |", "|" + "---|" * len(header), *body]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _bullets(lines: Sequence[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(dict(to_tree(options)).items())) or "default options"


def _files(measured: Measured) -> list[str]:
    rows = [
        (
            one.file,
            one.format + (f", opset {one.opset}" if one.opset else ""),
            size_text(one.size_bytes),
            one.digest,
            f"{one.difference:.2g} ({one.relative:.1g} of the largest value)" if one.outputs else "none: bit by bit",
        )
        for one in measured.files
    ]
    how = f"Each file was opened again and compared with PyTorch on {measured.compared_on}"
    note = f"{how}; at most {measured.tolerance:g} of an output's largest value was allowed."
    return [*_table(("file", "format", "size", "SHA-256", "largest difference"), rows), "", note]


def _ports(measured: Measured) -> list[str]:
    rows: dict[tuple[str, ...], list[str]] = {}
    for one in measured.files:
        for way, ports in (("in", one.inputs), ("out", one.outputs)):
            for port in ports:
                shape = " x ".join(map(str, port.shape))
                rows.setdefault((way, port.name, shape, port.dtype, port.meaning), []).append(one.format)
    if not rows:
        return ["Weights alone: `fed_models.build` with network and options of `config.yaml`, then `load_arrays`."]
    cells = [(*row, ", ".join(formats)) for row, formats in rows.items()]
    return _table(("", "name", "shape", "type", "meaning", "formats"), cells)


def _scores(found: Found, chosen: Chosen) -> list[str]:
    return [*_unseen(found, chosen), *_losses(chosen)]


def _unseen(found: Found, chosen: Chosen) -> Iterator[str]:
    method, summary = chosen.run.folder.name, found.summary or {}
    own = [
        one.name
        for one in served_by(found, chosen.run)
        if (one.robot == chosen.robot if chosen.robot else chosen.key in one.keys)
    ]
    if not own:
        yield from ("No unseen sequence was scored with this model.", "")
        return
    figures = words_of(summary).figures
    rows = [row for row in summary["sequences"] if row["name"] in own]
    header = ["unseen sequence", "frames", *(f"{f.title} {who}" for f in figures for who in ("", "untrained"))]
    cells = []
    for row in rows:
        values = [number(row[f.key].get(who)) for f in figures for who in (method, _UNTRAINED)]
        cells.append([str(row["name"]), str(row["frames"]), *values])
    yield from _table([" ".join(title.split()) for title in header], cells)
    note = "Served live on sequences that nobody trained on; where several models served one, their mean did."
    yield from ("", f"{note} From `{SUMMARY}`.", "")


def _losses(chosen: Chosen) -> Iterator[str]:
    history = chosen.run.history
    rows = []
    for robot in history.names:
        losses = [update.loss for (_, one), update in sorted(history.updates.items()) if one == robot]
        known = [f"{loss:.4g}" for loss in losses if loss is not None]
        rows.append((robot, str(len(losses)), known[0] if known else "-", known[-1] if known else "-"))
    yield from _table(("robot", "rounds trained", "first loss", "last loss"), rows)
    yield from ("", "Losses of training, from the run's journal.")


def _licence(config: Any, measured: Measured) -> list[str]:
    stated = measured.licence or "not stated"
    told = licences(config.network, config.network_options)
    return _bullets([f"Weights: {stated}.", *told, "The recordings may have terms of their own; they bind you, too."])
