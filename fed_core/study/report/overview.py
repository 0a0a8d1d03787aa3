"""The head of a report: what was run, with what, on what, and what is not finished."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from fed_core.study.report.document import Block, Paragraph, Table, rows_of
from fed_core.study.report.results import Study, read_metric
from fed_core.study.report.task import TaskReport


def overview(study: Study, task: TaskReport) -> tuple[Block, ...]:
    """Return the paragraphs and tables of the head."""
    plan = study.plan
    blocks: list[Block] = [Paragraph(_data_line(study, task.rendered)), _facts(study), *task.methods(study)]
    blocks.extend(_missing(study))
    if plan.get("tuning"):
        blocks.append(_tuning(plan["tuning"]))
    settings = tuple(_flat(plan.get("options") or {}))
    if settings:
        blocks.append(Table("All settings", ("Setting", "Value"), rows_of(*settings), folded=True))
    blocks.append(_recordings("Robots that train", plan.get("clients") or [], ("frames",)))
    tested = ("owner", "split", "scenes", "frames", "descriptor_frames", "scored_frames", "cap_m", "near_cap_m", "crop")
    blocks.append(_recordings(task.tested, plan.get("tests") or [], tested))
    return tuple(block for block in blocks if not isinstance(block, Table) or block.rows)


def _data_line(study: Study, rendered: str) -> str:
    if study.plan.get("synthetic"):
        return (
            f"Synthetic data: every image and {rendered} was rendered by our generator. The figures rank methods on "
            "it; they are not comparable with figures on real recordings."
        )
    return "Real recordings."


def _facts(study: Study) -> Table:
    plan = study.plan
    seeds = [str(seed) for seed in plan.get("seeds") or []]
    tests = [test for test in plan.get("tests") or [] if test.get("split", "test") == "test"]
    planned = len(study.cells) + len(study.missing)
    facts = {
        "Study": str(plan.get("study", "–")),
        "Command": str(plan.get("command", "–")),
        "Data": "synthetic" if plan.get("synthetic") else "real",
        "Models": ", ".join(_with_size(study, model) for model in study.models),
        "Rounds": str(study.rounds),
        "Seeds": f"{len(seeds)} ({', '.join(seeds)})",
        "Robots, test sequences": f"{len(plan.get('clients') or [])}, {len(tests)}",
        "Finished runs": f"{len(study.cells)} of {planned}",
        "In paper size": f"fedperc study {plan.get('study', '–')}-paper --data FOLDER, on a machine with a GPU",
        "Machine": str(plan.get("machine", "–")),
        "Versions": ", ".join(f"{name} {version}" for name, version in (plan.get("versions") or {}).items()),
    }
    return Table("The run", ("What", "Value"), rows_of(*facts.items()))


def _with_size(study: Study, model: str) -> str:
    sizes = [size for key, cell in study.cells.items() if key[0] == model and (size := cell.figure("parameters"))]
    return f"{model} ({sizes[0] / 1e6:.1f} M parameters)" if sizes else model


def _missing(study: Study) -> Iterator[Table]:
    """List the runs without a result, a line for each model and label."""
    groups: dict[tuple[str, str], list[str]] = {}
    for model, label, seed in study.missing:
        groups.setdefault((model, label), []).append(str(seed))
    rows = [(label, model, ", ".join(seeds)) for (model, label), seeds in groups.items()]
    if rows:
        yield Table(
            f"Not finished: {len(study.missing)} runs",
            ("Strategy", "Model", "Seeds"),
            rows_of(*rows),
            "The tables below are made of the finished runs only. The same command goes on where it stopped.",
        )


def _tuning(tuning: Mapping[str, Any]) -> Table:
    what, values = str(tuning.get("what", "value")), dict(tuning.get("values") or {})
    rows = []
    for name, found in values.items():
        tree = found if isinstance(found, Mapping) else {"abs_rel": found}
        texts = [read_metric(tree, metric) for metric in ("abs_rel", "delta1")]
        mark = "chosen" if _same(name, tuning.get("chosen")) else ""
        rows.append((str(name), *("–" if text is None else f"{text:.4f}" for text in texts), mark))
    return Table(
        f"Choice of {what}",
        (what, "AbsRel ↓", "δ1 ↑", ""),
        rows_of(*rows),
        "Chosen on held-out frames of training robots, before any test sequence was opened.",
    )


def _same(name: str, chosen: Any) -> bool:
    try:
        return float(name) == float(chosen)
    except (TypeError, ValueError):
        return str(name) == str(chosen)


def _recordings(caption: str, items: list[Mapping[str, Any]], counts: tuple[str, ...]) -> Table:
    columns = (
        "name",
        "platform",
        "environment",
        *(c for c in counts if any(item.get(c) is not None for item in items)),
    )
    heading = {"cap_m": "cap [m]", "near_cap_m": "second cap [m]"}
    rows = [tuple(_text(item.get(column, "–")) for column in columns) for item in items]
    header = tuple(heading.get(column, column.replace("_", " ")) for column in columns)
    return Table(f"{caption}: {len(items)}", header, rows_of(*rows), folded=True)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _text(value)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    if value is None or value == {}:
        return "none"
    return str(value)


def without_folders(tree: Any) -> Any:
    """Return a JSON tree with absolute paths cut to their last part: a published page names no machine's folders."""
    if isinstance(tree, Mapping):
        return {key: without_folders(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_folders(value) for value in tree]
    if isinstance(tree, str):
        return " ".join(_last_part(word) for word in tree.split(" "))
    return tree


def _last_part(word: str) -> str:
    name, mark, path = word.rpartition("=")
    return f"{name}{mark}{PurePath(path).name}" if path.startswith(("/", "~/")) and len(path) > 1 else word
