"""Where the robots' work is carried out: an engine takes jobs and gives their answers back in the order they came in.

The order is the same with every engine, however long each job takes, so roles hear the same events in the same order.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from fed_core.errors import FedError
from fed_core.requests import JobRequest
from fed_core.training.jobs import Toolbox, run_job

OnProgress: TypeAlias = Callable[[float, float, float], None]


@dataclass(frozen=True)
class Job:
    """A robot's work.

    Attributes:
        robot_id: whose.
        request: what is computed.
        on_progress: told how far it is, by engines that hear it: share, loss, samples per second.
    """

    robot_id: str
    request: JobRequest
    on_progress: OnProgress = lambda share, loss, speed: None


@dataclass(frozen=True)
class Answer:
    """A job that is over: what it gave, or why it gave nothing."""

    job: Job
    result: Any = None
    error: FedError | None = None


class Engine(ABC):
    """Carries out jobs."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Take a job."""

    @abstractmethod
    def next(self) -> Answer | None:
        """Return the answer to the oldest job that is not answered yet; None where there is none.

        Raises:
            EngineError: workers are lost; started again, the run goes on.
        """


def carry_out(
    kind: str,
    arguments: Mapping[str, Any],
    toolbox: Toolbox,
    threads: int,
    on_progress: OnProgress = lambda share, loss, speed: None,
) -> dict[str, Any]:
    """Return the answer of a job; every engine uses as many threads, since their number changes the last bits."""
    torch.set_num_threads(threads)
    return run_job(kind, arguments, toolbox, on_progress)


class LocalEngine(Engine):
    """One job after the other, in this process.

    Args:
        toolbox: networks and encoder.
        threads: CPU threads of a job.
    """

    def __init__(self, toolbox: Toolbox, *, threads: int = 1) -> None:
        self._toolbox, self._threads = toolbox, threads
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)

    def next(self) -> Answer | None:
        """Carry out the oldest job."""
        if not self._waiting:
            return None
        job = self._waiting.popleft()
        try:
            result = carry_out(job.request.kind, job.request.arguments, self._toolbox, self._threads, job.on_progress)
        except FedError as err:
            return Answer(job, error=err)
        return Answer(job, result)
