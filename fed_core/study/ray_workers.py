"""Processes of Ray that do the work of a study, on one machine or many; the study's folder is the same to all of them.

What a run writes (its journal above all, by which it goes on) lies in that folder, so a node that does not see it is
refused at the start.
"""

import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fed_core import __version__
from fed_core.errors import EngineError, StoreError
from fed_core.simulation.ray_cluster import RayOptions, cluster, fitting, one_line, our_variables, start_workers
from fed_core.simulation.ray_worker import settle
from fed_core.study.pool import MakeToolbox, OnWork, Pool, Work, done, toolbox_of

#: How long one wait for an answer may be, so that signals and steps are heard [s].
_WAIT_S = 0.2
#: What the list of steps may take to answer [s].
_ASK_S = 30.0
#: A run whose process was lost is carried out so often.
_ATTEMPTS = 2


class Steps:
    """An actor that workers tell how far they are."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, int, int]] = []

    def add(self, what: str, done: int, total: int) -> None:
        """Note a step."""
        self._steps.append((what, done, total))

    def take(self) -> list[tuple[str, int, int]]:
        """Return the steps since the last call."""
        taken, self._steps = self._steps, []
        return taken


class StudyWorker:
    """An actor that does any work of a study.

    Args:
        make_toolbox: makes the networks' toolbox.
        environment: variables that the work reads.
        folder: of the driver.
        mark: a file that the driver wrote into the study's folder.
        steps: actor of :class:`Steps`.
    """

    def __init__(
        self, make_toolbox: MakeToolbox, environment: Mapping[str, str], folder: str, mark: str, steps: Any
    ) -> None:
        settle(environment, folder)
        self._mark, self._steps = Path(mark), steps
        self._toolbox = toolbox_of(make_toolbox)

    def ready(self) -> dict[str, str]:
        """Return where this process runs, what, and whether it sees the study's folder."""
        seen = "yes" if self._mark.is_file() else ""
        return {"node": socket.gethostname(), "version": __version__, "sees folder": seen}

    def do(self, work: Work) -> Any:
        """Return the answer of a work."""
        return done(work, self._toolbox, lambda *step: self._steps.add.remote(*step))


@dataclass
class _Running:
    """A work that goes on."""

    work: Work
    worker: int
    attempt: int


class RayWorkers(Pool):
    """Processes that Ray runs, one CPU each.

    Args:
        options: how Ray is used.
        make_toolbox: makes the networks' toolbox in each; a function of a module.
        folder: of the study.
        on_step: called in the thread that waits for answers, with every step of any worker.
    """

    def __init__(
        self,
        options: RayOptions,
        make_toolbox: MakeToolbox,
        folder: Path,
        on_step: OnWork = lambda what, done, total: None,
    ) -> None:
        self._options, self._make, self._on_step = options, make_toolbox, on_step
        self._mark = folder.absolute() / f".seen-by-{secrets.token_hex(6)}"
        self._stack = ExitStack()
        self._workers: list[Any] = []
        self._helpers: list[Any] = []

    def __enter__(self) -> "RayWorkers":
        """Start the processes and return the pool."""
        try:
            self._ray = self._stack.enter_context(cluster(self._options, 1))
            count, self._gpus = fitting(self._ray, self._options, 1)
            self._steps = self._ray.remote(Steps).options(num_cpus=0).remote()
            self._helpers.append(self._steps)
            self._workers = self._started(count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *args: object) -> None:
        """Stop every process, a working one, too."""
        for actor in [*self._workers, *self._helpers]:
            self._ray.kill(actor)
        self._workers.clear()
        self._helpers.clear()
        self._stack.close()
        self._mark.unlink(missing_ok=True)

    @property
    def count(self) -> int:
        """Processes."""
        return len(self._workers)

    def finished(self, works: Sequence[Work]) -> Iterator[tuple[Any, Any]]:
        """Yield each work with its answer as it ends; one whose process was lost is begun once more."""
        waiting = [(work, 1) for work in reversed(works)]
        idle = list(range(len(self._workers)))
        running: dict[Any, _Running] = {}
        while waiting or running:
            while waiting and idle:
                work, attempt = waiting.pop()
                worker = idle.pop()
                with one_line(f"{work.name} cannot be handed to Ray"):
                    running[self._workers[worker].do.remote(work)] = _Running(work, worker, attempt)
            ready, _ = self._ray.wait(list(running), num_returns=1, timeout=_WAIT_S)
            self._tell()
            for reference in ready:
                one = running.pop(reference)
                idle.append(one.worker)
                if self._lost(reference, one):
                    waiting.append((one.work, one.attempt + 1))
                else:
                    yield one.work, self._answer(reference, one)

    def _lost(self, reference: Any, one: _Running) -> bool:
        """Replace a worker that is gone; True where its work is to be begun again."""
        known = self._ray.exceptions
        try:
            self._ray.get(reference)
        except (known.RayActorError, known.OutOfMemoryError):
            if one.attempt == _ATTEMPTS:
                return False
            self._workers[one.worker] = self._started(1)[0]
            return True
        except known.RayError:
            return False
        return False

    def _answer(self, reference: Any, one: _Running) -> Any:
        with one_line(f"{one.work.name} failed"):
            return self._ray.get(reference)

    def _started(self, count: int) -> list[Any]:
        """Return workers, all of which see the study's folder."""
        try:
            self._mark.touch()
        except OSError as err:
            raise StoreError(f"cannot write into {self._mark.parent}: {err.strerror}") from err
        arguments = (self._make, our_variables(), str(Path.cwd()), str(self._mark), self._steps)
        workers, told = start_workers(self._ray, StudyWorker, arguments, count=count, cpus=1, gpus=self._gpus)
        blind = sorted({other["node"] for other in told if not other["sees folder"]})
        if blind:
            text = f"node {blind[0]} does not see the study's folder {self._mark.parent}"
            raise EngineError(f"{text}; name one with --out that lies under the same path on all nodes")
        return workers

    def _tell(self) -> None:
        with one_line("Ray does not answer"):
            steps = self._ray.get(self._steps.take.remote(), timeout=_ASK_S)
        for step in steps:
            self._on_step(*step)
