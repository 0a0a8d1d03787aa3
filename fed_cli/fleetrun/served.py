"""The models of a finished or interrupted run, put where an inference node finds them: no aggregator is needed."""

import json
from pathlib import Path

from fed_cli.fleetrun.folder import CONFIG
from fed_cli.fleetrun.runs import JOURNAL, open_journal, runs_of_demo
from fed_core.errors import DataError, StoreError
from fed_core.roles.last_plan import save_plan
from fed_core.roles.messages import FleetPlan
from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef


def run_folder(path: Path) -> Path:
    """Return the folder of the run that a path means; of a demo, that of its own method.

    Raises:
        DataError: there is no run.
    """
    if (path / JOURNAL).is_file():
        return path
    runs = runs_of_demo(path)
    if not runs:
        raise DataError(f"{path} holds no run; name the folder of a demo, of a simulation or of a run (runs/demo)")
    own = path / "aggregator" / _method(path)
    if own in runs:
        return own
    if len(runs) > 1:
        raise DataError(f"{path} holds several runs, name one: {', '.join(map(str, runs))}")
    return runs[0]


def _method(demo: Path) -> str:
    try:
        return str(json.loads((demo / CONFIG).read_text(encoding="utf-8"))["strategy"]["name"])
    except (OSError, ValueError, KeyError, TypeError):  # a fleet that was launched has no such file
        return ""


def hand_over(run: Path, models: Path) -> FleetPlan:
    """Copy the models of the last round of a run into a folder that an inference node can serve from.

    Args:
        run: folder of a run.
        models: ``state_dir`` of the node.

    Returns:
        The plan of that round.

    Raises:
        StoreError: the journal or a model is broken, or no model is there yet.
    """
    with open_journal(run) as journal:
        row = journal.execute("SELECT plan FROM rounds ORDER BY round DESC LIMIT 1").fetchone()
        if row is None:
            raise StoreError(f"{run} has no models yet; wait for its first round")
        plan = FleetPlan.from_json(json.loads(row[0]))
    source, target = BlobStore(run / "blobs"), BlobStore(models)
    wanted = {key: plan.blobs[key] for key in plan.models}
    for blob in [*wanted.values(), *([plan.serving] if plan.serving else [])]:
        _copy(source, target, blob)
    save_plan(target, plan)
    return plan


def _copy(source: BlobStore, target: BlobStore, blob: BlobRef) -> None:
    source.ref(blob.digest)
    found = target.put_file(source.path(blob.digest), keep=True)
    if found.digest != blob.digest:
        raise StoreError(f"{source.path(blob.digest)} is damaged: its bytes have another digest than its name")
