"""Real frames of a run, on which an exported model is compared with PyTorch."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fed_cli.exporting.choice import Chosen
from fed_core.data.open import SourceConfig
from fed_core.errors import FedError
from fed_core.traffic import FOLDER

if TYPE_CHECKING:
    from fed_core.tasks.base import Task

#: Frames that a model is compared on.
COUNT = 2


def batch_of(chosen: Chosen, task: "Task", network: Any) -> tuple[Any, str]:
    """Return a batch of the run's recordings and where it came from; None and "" where none lies on this machine.

    Args:
        chosen: the model; its robot's recordings come first.
        task: of the run.
        network: that takes the frames.
    """
    for source, whose in _sources(chosen):
        try:
            samples = list(islice(_samples(task, source), COUNT))
            dataset = task.prepare(samples, network)
            indexes = [index % len(dataset) for index in range(COUNT)]
            word = "frame" if len(dataset) == 1 else "frames"
            return task.batch(dataset, indexes), f"{len(dataset)} recorded {word} of {whose}"
        except FedError:  # not of this task, or broken: another one may do
            continue
    return None, ""


def _samples(task: "Task", source: SourceConfig) -> Iterator[Any]:
    sequence = task.open(source, Path())
    for index in range(len(sequence)):
        try:
            sample = sequence[index]
        except FedError:
            continue
        if task.usable(sample):
            yield sample


def _sources(chosen: Chosen) -> Iterator[tuple[SourceConfig, str]]:
    """Yield what robots recorded, then made-up traffic, and whose it is."""
    run = chosen.run
    for robot in dict.fromkeys((*filter(None, [chosen.robot]), *sorted(run.plan.robots))):
        for folder in sorted(run.robot_folder(robot).glob("samples*")):
            if folder.is_dir():
                yield SourceConfig(data=str(folder.absolute())), robot
    traffic = (run.folder if run.demo is None else run.demo).absolute() / FOLDER
    for folder in (*sorted(traffic.glob("train/*")), traffic):
        if folder.is_dir():
            yield SourceConfig(data=str(folder)), "the run's traffic"
