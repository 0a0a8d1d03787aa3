"""Real frames of a run, on which an exported model is compared with PyTorch."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fed_cli.exporting.choice import Chosen
from fed_cli.exporting.data import learned_from
from fed_cli.exporting.runs import Found
from fed_core.data.open import SourceConfig
from fed_core.errors import FedError
from fed_core.traffic import FOLDER

if TYPE_CHECKING:
    from fed_core.tasks.base import Task

#: Frames that a model is compared on; a detector takes one scan at a time.
_COUNT, _SCANS = 2, 1


def batch_of(found: Found, chosen: Chosen, task: "Task", network: Any) -> tuple[Any, str]:
    """Return a batch of the run's recordings and where it came from; None and "" where none lies on this machine.

    Args:
        found: what the run's path holds.
        chosen: the model; its robot's recordings come first.
        task: of the run.
        network: that takes the frames.
    """
    count = _SCANS if chosen.run.plan.config.task == "detection" else _COUNT
    for source, base, whose in _sources(found, chosen):
        try:
            samples = list(islice(_samples(task, source, base), count))
            dataset = task.prepare(samples, network)
            indexes = [index % len(dataset) for index in range(count)]
            word = "frame" if len(dataset) == 1 else "frames"
            return task.batch(dataset, indexes), f"{len(dataset)} recorded {word} of {whose}"
        except FedError:  # not of this task, or broken: another one may do
            continue
    return None, ""


def _samples(task: "Task", source: Any, base: Path) -> Iterator[Any]:
    sequence = task.open(source, base)
    for index in range(len(sequence)):
        try:
            sample = sequence[index]
        except FedError:
            continue
        if task.usable(sample):
            yield sample


def _sources(found: Found, chosen: Chosen) -> Iterator[tuple[Any, Path, str]]:
    """Yield what robots recorded, or what the fleet file names, with the folder that paths start from and whose it is.

    Rendered scenes that lie nowhere are not rendered again.
    """
    run, fleet = chosen.run, found.fleet or {}
    named = {str(entry["id"]): entry.get("source") or {} for entry in fleet.get("robots", ())}
    learned = learned_from(chosen)
    for robot in sorted(run.plan.robots, key=lambda one: (one != chosen.robot, one not in learned, one)):
        for folder in sorted(run.robot_folder(robot).glob("samples*")):
            if folder.is_dir():
                yield SourceConfig(data=str(folder.absolute())), Path(), robot
        source = named.get(robot, {})
        if data := source.get("data"):
            made = fleet.get(FOLDER) and Path(data).parts[:1] == (FOLDER,)
            base = (found.demo or run.folder).absolute() if made else found.base
            if base is not None:
                yield {key: value for key, value in source.items() if value not in (None, [], {})}, base, robot
