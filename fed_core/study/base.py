"""What a kind of study states: where its recordings come from, and how the models of a run are scored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from fed_core.bookkeeping import ClosedRound, RunBook
from fed_core.fleet import NamedOptions
from fed_core.roles.messages import FleetPlan
from fed_core.strategies.base import Strategy
from fed_core.study.config import Cell, StudyConfig
from fed_core.study.scenario import Scenario, StudySequence
from fed_core.training.jobs import Toolbox

Line = Mapping[str, Any]
#: Called with steps done and steps in all.
OnStep = Callable[[int, int], None]


@dataclass(frozen=True)
class CellJob:
    """What a run needs.

    Attributes:
        cell: network, strategy and seed.
        config: the study.
        scenario: its clients and unseen sequences, prepared.
        folder: of the study.
        panels: keep pictures.
    """

    cell: Cell
    config: StudyConfig
    scenario: Scenario
    folder: Path
    panels: bool = False


@dataclass(frozen=True)
class Run:
    """One run that is to be scored.

    Attributes:
        job: what it is.
        chosen: its strategy by name and options.
        strategy: the same as an object.
        network: a built network that models are loaded into, in turn.
        toolbox: loads and describes.
        folder: of the run's result.
    """

    job: CellJob
    chosen: NamedOptions
    strategy: Strategy
    network: nn.Module
    toolbox: Toolbox
    folder: Path


@dataclass(frozen=True)
class Moment:
    """A round that closed.

    Attributes:
        closed: the round.
        plan: of the round that follows; its blobs are in the book's store.
        book: the run on disk.
        robots: folder with a folder for each robot.
    """

    closed: ClosedRound
    plan: FleetPlan
    book: RunBook
    robots: Path


class Scores(ABC):
    """Scores one run."""

    @abstractmethod
    def round(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return the figures of a round for its line; ``lines`` are those of the rounds before."""

    @abstractmethod
    def result(self, moment: Moment, lines: Sequence[Line]) -> dict[str, Any]:
        """Return the figures of the whole run after its last round, and write its pictures.

        Args:
            moment: the last round.
            lines: of all rounds.
        """


class Piece(Protocol):
    """Something that is rendered or converted by itself, in a process of its own."""

    @property
    def name(self) -> str:
        """What people read while it goes on."""

    def write(self, folder: Path, on_step: OnStep) -> None:
        """Write it below a folder, once; ``on_step`` is called with steps done and in all."""


class Kind(ABC):
    """One kind of study."""

    @abstractmethod
    def pieces(self, config: StudyConfig, seed: int, *, clients_only: bool = False) -> Sequence[Piece]:
        """Return what is rendered for a seed; ``clients_only`` leaves out what nobody trains on."""

    @abstractmethod
    def rendered(self, config: StudyConfig, seed: int, folder: Path) -> Scenario:
        """Return the scenario of a seed whose pieces lie in ``folder``."""

    @abstractmethod
    def recorded(self, config: StudyConfig, data: Path) -> Scenario:
        """Return the scenario of recordings."""

    @abstractmethod
    def scores(self, run: Run) -> Scores:
        """Return what scores a run."""

    @abstractmethod
    def scoring(self, sequence: StudySequence, num_frames: int, config: StudyConfig) -> dict[str, Any]:
        """Return how an unseen sequence is scored, for the report."""
