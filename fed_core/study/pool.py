"""What carries out the work of a study: processes of one kind or another, which all do the same."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from fed_core.errors import FedError, StudyError
from fed_core.study.base import CellJob, OnStep, Piece
from fed_core.study.cell import run_cell
from fed_core.study.config import Cell
from fed_core.study.descriptors import DescriptorCache
from fed_core.training.jobs import Toolbox

#: A function of a module: every process imports it.
MakeToolbox = Callable[[], Toolbox]
#: (what, done, total): what runs and how far it is.
OnWork = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Failure:
    """A run that could not be carried out, and why."""

    what: str
    text: str


class Work(Protocol):
    """Something that a process does by itself; it travels there, and its answer back."""

    @property
    def name(self) -> str:
        """What people read while it goes on."""

    def do(self, toolbox: Toolbox, on_step: OnStep) -> Any:
        """Return the answer."""


@dataclass(frozen=True)
class CellWork:
    """A run of a study."""

    job: CellJob

    @property
    def name(self) -> str:
        """Network, strategy, seed."""
        return self.job.cell.name

    def do(self, toolbox: Toolbox, on_step: OnStep) -> dict[str, Any]:
        """Return its result."""
        return run_cell(self.job, toolbox, on_step)


@dataclass(frozen=True)
class PieceWork:
    """A piece that is written below a folder."""

    piece: Piece
    folder: Path

    @property
    def name(self) -> str:
        """Of the piece."""
        return self.piece.name

    def do(self, toolbox: Toolbox, on_step: OnStep) -> None:
        """Write it."""
        self.piece.write(self.folder, on_step)


class Pool(ABC):
    """Processes that do the work of a study; leave it as a context manager, and nothing of it stays behind."""

    @abstractmethod
    def __enter__(self) -> "Pool":
        """Start the processes and return the pool."""

    @abstractmethod
    def __exit__(self, *args: object) -> None:
        """Stop every process, a working one, too: a run goes on from its journal."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Processes."""

    @abstractmethod
    def finished(self, works: Sequence[Work]) -> Iterator[tuple[Any, Any]]:
        """Yield each work with its answer, or a :class:`Failure`, as it ends.

        Raises:
            FedError: processes are lost; started again, the study goes on.
        """

    def run(self, jobs: Sequence[CellJob]) -> Iterator[tuple[Cell, dict[str, Any] | Failure]]:
        """Yield each run with its result as it ends."""
        for work, answer in self.finished([CellWork(job) for job in jobs]):
            yield work.job.cell, answer

    def write(self, pieces: Sequence[Piece], folder: Path) -> Iterator[None]:
        """Write pieces below ``folder``; yields as each is there.

        Raises:
            StudyError: one of them cannot be prepared.
        """
        for work, answer in self.finished([PieceWork(piece, folder) for piece in pieces]):
            if isinstance(answer, Failure):
                raise StudyError(f"recording {work.name!r} cannot be prepared: {answer.text}")
            yield None


def toolbox_of(make: MakeToolbox) -> Toolbox:
    """Return a process's toolbox, which remembers descriptors; one CPU thread computes: their number changes bits."""
    import torch

    torch.set_num_threads(1)
    made = make()
    return replace(made, describe=DescriptorCache(made.describe))


def done(work: Work, toolbox: Toolbox, on_work: OnWork) -> Any:
    """Return the answer of a work, or its :class:`Failure`."""
    try:
        return work.do(toolbox, lambda done, total: on_work(work.name, done, total))
    except (FedError, OSError) as err:  # OSError: a full disk
        return Failure(work.name, str(err))
