"""What a path holds: a recording, a model blob, a run, or a demo, as one report."""

import json
from pathlib import Path

from fed_cli.fleetrun.figures import number, words_of
from fed_cli.fleetrun.folder import SUMMARY
from fed_cli.fleetrun.runs import JOURNAL, read_run, runs_of_demo, shared_layers
from fed_core.data.inspect import Report, describe, size_text
from fed_core.data.open import UNFINISHED, find_reader
from fed_core.data.opv2v.files import SPLITS, is_generated
from fed_core.data.opv2v.use_cases import OWN_FILE, ClientFolders, list_clients
from fed_core.errors import DataError, StoreError

STUDY, REPORT = "study.json", "report.html"
_BAG_SUFFIXES = (".bag", ".db3", ".mcap", UNFINISHED)


def contents(path: Path) -> Report:
    """Return what is in ``path``.

    Raises:
        DataError: it does not exist, or nothing known is in it.
        StoreError: a journal or a summary is broken.
        WireError: a model file is broken.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist; name a bag, a folder of frames, a model file or the folder of a run")
    if path.is_file():
        return describe(path) if path.name.endswith(_BAG_SUFFIXES) else _model(path)
    if (path / SUMMARY).is_file():
        return _demo(path)
    if (path / STUDY).is_file():
        return _study(path)
    if (path / JOURNAL).is_file():
        return _run(path)
    if (path / OWN_FILE).is_file() or all((path / split).is_dir() for split in SPLITS):
        return _vehicles(path)
    if not find_reader(path):
        inside = [str(run) for run in runs_of_demo(path)]
        if inside:
            raise DataError(f"{path} is a demo that has not ended; its runs, name one: {', '.join(inside)}")
    return describe(path)


def _study(folder: Path) -> Report:
    try:
        tree = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        title, cells = str(tree["title"]), [tuple(cell) for cell in tree.get("cells", ())]
        finished, shown = [], words_of(tree).figures
        for path in sorted(folder.glob("cells/*/*/seed*/result.json")):
            result = json.loads(path.read_text(encoding="utf-8"))
            figures = [number(result["macro"][figure.key]) for figure in shown]
            finished.append((result["model"], result["label"], str(result["seed"]), *figures))
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise StoreError(f"the study in {folder} cannot be read: {err}; it is broken or of another version") from err
    rows = [("study", title), ("runs", f"{len(finished)} of {len(cells)}" if cells else "not begun")]
    if (folder / REPORT).is_file():
        rows.append(("report", str(folder / REPORT)))
    notes = (
        () if cells and len(finished) >= len(cells) else ("not finished; the same command goes on where it stopped",)
    )
    columns = ("network", "strategy", "seed", *(figure.title for figure in shown))
    return Report(f"{folder}: study", tuple(rows), columns, tuple(finished), notes)


def _vehicles(folder: Path) -> Report:
    """Return the clients of a folder of OPV2V's layout."""
    table, clients = [], list_clients(folder)
    for found in clients:
        cameras = ", ".join(map(str, found.client.cameras))
        counts = [text for split in SPLITS for text in _size(found, split)]
        table.append((found.client.name, found.client.vehicle, cameras, *counts))
    rows = (
        ("layout", "opv2v"),
        ("data", "generated" if any(is_generated(path.name) for path in clients[0].train) else "recorded"),
    )
    columns = (
        "client",
        "vehicle",
        "cameras",
        *(f"{split} {what}" for split in SPLITS for what in ("scenarios", "frames")),
    )
    return Report(f"{folder}: vehicles with cameras", rows, columns, tuple(table), ())


def _size(found: ClientFolders, split: str) -> tuple[str, str]:
    sequence = found.open(split)
    return str(len(sequence.scenarios)), str(len(sequence))


def _model(path: Path) -> Report:
    from fed_core.wire.codec import open_tensors
    from fed_core.wire.files import hash_file

    blob, tensors = hash_file(path), open_tensors(path)
    table = tuple(
        (spec.name, " x ".join(map(str, spec.shape)) or "scalar", spec.dtype, size_text(spec.size_bytes))
        for spec in tensors.specs
    )
    rows = (("tensors", str(len(tensors))), ("size", size_text(blob.size_bytes)), ("sha256", blob.digest))
    notes: tuple[str, ...] = ()
    if len(path.name) == len(blob.digest) and path.name != blob.digest:
        notes = ("the file is named by another digest than its bytes have; it is damaged",)
    return Report(f"{path}: model file (safetensors)", rows, ("tensor", "shape", "type", "size"), table, notes)


def _run(folder: Path) -> Report:
    run = read_run(folder)
    rows = [
        ("run", run.run_id),
        ("strategy", run.strategy),
        ("network", run.network),
        ("rounds", f"{run.rounds} of {run.total_rounds}"),
        ("updates", str(sum(robot.updates for robot in run.robots))),
    ]
    rows += [(f"model {key}", f"{digest} ({size_text(size)})") for key, digest, size in run.models]
    masked = any(robot.units for robot in run.robots)
    table = tuple(
        (
            robot.id,
            " ".join(map(str, robot.clusters)),
            str(robot.updates),
            str(robot.samples),
            f"{robot.losses[-1]:.3f}" if robot.losses else "",
            *([shared_layers(robot)] if masked else []),
        )
        for robot in run.robots
    )
    columns = ("robot", "clusters", "updates", "samples", "last loss", *(["shared layers"] if masked else []))
    notes = run.warnings
    notes += () if run.rounds == run.total_rounds else ("not all rounds have closed yet",)
    return Report(f"{folder}: run", tuple(rows), columns, table, notes)


def _demo(folder: Path) -> Report:
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        figures = words_of(summary).figures
        methods = list(summary["sequences"][0][figures[0].key]) if summary["sequences"] else []
        table = tuple(
            (
                row["name"],
                " ".join(map(str, row["clusters"])),
                *(number(row[figure.key][name]) for figure in figures for name in methods),
            )
            for row in summary["sequences"]
        )
        rows = [(key, str(summary[key])) for key in ("rounds", "seed", "seconds")]
        rows += [("robots", ", ".join(summary["robots"])), ("bytes moved", size_text(summary["bytes"]))]
        rows += [(f"cluster {index}", ", ".join(ids)) for index, ids in enumerate(summary["clusters"])]
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise StoreError(f"cannot read {folder / SUMMARY}: {err}; it is broken or of another version") from err
    columns = ("sequence", "clusters", *(f"{figure.title} {name}" for figure in figures for name in methods))
    return Report(f"{folder}: demo", tuple(rows), columns, table)
