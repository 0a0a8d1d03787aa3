"""Processes that carry out the runs of a study; each keeps its networks' samples and descriptors in memory."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty
from threading import Event, Thread
from typing import Any

from fed_core.errors import FedError, StudyError
from fed_core.study.cell import CellJob, run_cell
from fed_core.study.config import Cell
from fed_core.study.descriptors import DescriptorCache
from fed_core.study.scenario import StudySequence, prepare
from fed_core.training.jobs import Toolbox

MakeToolbox = Callable[[], Toolbox]
#: (what, done, total): what runs and how far it is.
OnStep = Callable[[str, int, int], None]


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

    def __init__(self, count: int, make_toolbox: MakeToolbox, on_step: OnStep = lambda what, done, total: None) -> None:
        context = multiprocessing.get_context("spawn")
        self._queue: Any = context.Queue()
        self._pids: set[int] = set()
        self._on_step = on_step
        self._closing = Event()
        self._pool = ProcessPoolExecutor(
            count, mp_context=context, initializer=_start, initargs=(make_toolbox, self._queue)
        )
        self._listener = Thread(target=self._listen, name="study steps", daemon=True)
        self._listener.start()

    def __enter__(self) -> "Workers":
        """Return the pool."""
        return self

    def __exit__(self, *args: object) -> None:
        """Stop every process, a working one, too."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self._closing.set()
        self._listener.join(5.0)

    def run(self, jobs: Sequence[CellJob]) -> Iterator[tuple[Cell, dict[str, Any] | Failure]]:
        """Yield each run with its result as it ends."""
        yield from self._finished({self._pool.submit(_run, job): job.cell for job in jobs})

    def prepare(self, sequences: Mapping[Path, Sequence[StudySequence]]) -> dict[Path, tuple[StudySequence, ...]]:
        """Bring recordings into stores, by folder; returns the sequences that read them from there.

        Raises:
            StudyError: one of them cannot be prepared.
        """
        parts = [(folder, sequence) for folder, group in sequences.items() for sequence in group]
        futures = {self._pool.submit(_prepare, folder, sequence): (folder, sequence.name) for folder, sequence in parts}
        ready: dict[tuple[Path, str], StudySequence] = {}
        for place, (key, answer) in enumerate(self._finished(futures)):
            if isinstance(answer, Failure):
                raise StudyError(f"recording {key[1]!r} cannot be prepared: {answer.text}")
            ready[key] = answer
            self._on_step("recordings", place + 1, len(parts))
        return {folder: tuple(ready[folder, s.name] for s in group) for folder, group in sequences.items()}

    def _finished(self, futures: Mapping["Future[Any]", Any]) -> Iterator[tuple[Any, Any]]:
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as err:
            text = "a process of the study was killed (out of memory?)"
            raise StudyError(f"{text}; start it again, with fewer --jobs: finished runs are kept") from err

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                kind, *values = self._queue.get(timeout=0.2)
            except Empty:
                continue
            if kind == "pid":
                self._pids.add(values[0])
            else:
                self._on_step(*values)


_toolbox: Toolbox | None = None
_steps: Any = None


def _start(make_toolbox: MakeToolbox, queue: Any) -> None:
    """Make a process ready; Ctrl-C is the parent's to handle."""
    import torch

    global _toolbox, _steps  # noqa: PLW0603 - the one state of a worker process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_die_with_parent, name="parent watch", daemon=True).start()
    torch.set_num_threads(1)
    queue.put(("pid", os.getpid()))
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
        return run_cell(job, _toolbox, lambda done, total: _steps.put(("step", name, done, total)))
    except FedError as err:
        return Failure(name, str(err))


def _prepare(folder: Path, sequence: StudySequence) -> StudySequence | Failure:
    try:
        return prepare(sequence, folder)
    except FedError as err:
        return Failure(sequence.name, str(err))
