"""Processes that carry out the runs of a study; each keeps its networks' samples and descriptors in memory."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty
from threading import Event, Thread, current_thread, main_thread
from typing import Any

from fed_core.errors import FedError, StudyError
from fed_core.study.base import CellJob, Piece
from fed_core.study.cell import run_cell
from fed_core.study.config import Cell
from fed_core.study.descriptors import DescriptorCache
from fed_core.training.jobs import Toolbox

MakeToolbox = Callable[[], Toolbox]
#: (what, done, total): what runs and how far it is.
OnWork = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Failure:
    """A run that could not be carried out, and why."""

    what: str
    text: str


class Workers:
    """A pool of processes; leave it as a context manager, and nothing of it stays behind.

    Args:
        count: processes.
        make_toolbox: makes the networks' toolbox in each; a function of a module.
        on_step: called in a thread of this process with every step of any worker.
    """

    def __init__(self, count: int, make_toolbox: MakeToolbox, on_step: OnWork = lambda what, done, total: None) -> None:
        context = multiprocessing.get_context("spawn")
        self._queue: Any = context.Queue()
        self._on_step = on_step
        self._closing = Event()
        self._pool = ProcessPoolExecutor(
            count, mp_context=context, initializer=_start, initargs=(make_toolbox, self._queue)
        )
        self._count, self._others = count, set(multiprocessing.active_children())
        self._listener = Thread(target=self._listen, name="study steps", daemon=True)
        self._listener.start()

    def __enter__(self) -> "Workers":
        """Start the processes and return the pool."""
        try:
            with _interrupts_held_back():
                for _ in range(self._count):
                    self._pool.submit(int)  # starts one
        except BaseException:  # a signal that was held back
            self.__exit__()
            raise
        return self

    def __exit__(self, *args: object) -> None:
        """Stop every process, a working one, too."""
        for process in set(multiprocessing.active_children()) - self._others:
            process.kill()  # a run goes on from its journal
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._closing.set()
        self._listener.join(5.0)
        self._queue.close()

    def run(self, jobs: Sequence[CellJob]) -> Iterator[tuple[Cell, dict[str, Any] | Failure]]:
        """Yield each run with its result as it ends."""
        yield from self._finished((self._pool.submit(_run, job), job.cell) for job in jobs)

    def write(self, pieces: Sequence[Piece], folder: Path) -> Iterator[None]:
        """Write pieces below ``folder``; yields as each is there.

        Raises:
            StudyError: one of them cannot be prepared.
        """
        submitted = ((self._pool.submit(_write, folder, piece), piece.name) for piece in pieces)
        for name, answer in self._finished(submitted):
            if isinstance(answer, Failure):
                raise StudyError(f"recording {name!r} cannot be prepared: {answer.text}")
            yield None

    def _finished(self, submitted: Iterable[tuple["Future[Any]", Any]]) -> Iterator[tuple[Any, Any]]:
        try:
            futures = dict(submitted)  # a pool that is broken already refuses here
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as err:
            text = "a process of the study was killed (out of memory?)"
            raise StudyError(f"{text}; start it again, with fewer --jobs: finished runs are kept") from err

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                step = self._queue.get(timeout=0.2)
            except Empty:
                continue
            self._on_step(*step)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let no signal stop the start of processes half-way; it stops this process afterwards.

    Both are blocked, too: the processes inherit that until they are ready, and Ctrl-C stays this process's alone.
    """
    stops = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in stops}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            raise KeyboardInterrupt


_toolbox: Toolbox | None = None
_steps: Any = None


def _start(make_toolbox: MakeToolbox, queue: Any) -> None:
    """Make a process ready."""
    import torch

    global _toolbox, _steps  # noqa: PLW0603 - the one state of a worker process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    Thread(target=_die_with_parent, name="parent watch", daemon=True).start()
    torch.set_num_threads(1)
    made = make_toolbox()
    _toolbox, _steps = replace(made, describe=DescriptorCache(made.describe)), queue


def _die_with_parent() -> None:
    """End this process when the study's own is gone, however it ended; a run goes on from its journal next time."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(job: CellJob) -> dict[str, Any] | Failure:
    name = f"{job.cell.model} {job.cell.label} seed {job.cell.seed}"
    if _toolbox is None:
        return Failure(name, "its process was not made ready")
    try:
        return run_cell(job, _toolbox, lambda done, total: _steps.put((name, done, total)))
    except (FedError, OSError) as err:  # OSError: a full disk
        return Failure(name, str(err))


def _write(folder: Path, piece: Piece) -> Failure | None:
    try:
        piece.write(folder, lambda done, total: _steps.put((piece.name, done, total)))
    except (FedError, OSError) as err:  # OSError: a full disk
        return Failure(piece.name, str(err))
    return None
