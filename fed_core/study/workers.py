"""Processes of this machine that do the work of a study; each keeps its networks' samples and descriptors in memory."""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from queue import Empty
from threading import Event, Thread, current_thread, main_thread
from typing import Any

from fed_core.errors import StudyError
from fed_core.study.pool import MakeToolbox, OnWork, Pool, Work, done, toolbox_of
from fed_core.training.jobs import Toolbox


class Workers(Pool):
    """Processes of this machine.

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

    @property
    def count(self) -> int:
        """Processes."""
        return self._count

    def finished(self, works: Sequence[Work]) -> Iterator[tuple[Any, Any]]:
        """Yield each work with its answer as it ends."""
        try:
            futures = {self._pool.submit(_do, work): work for work in works}  # a pool that is broken refuses here
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
    global _toolbox, _steps  # noqa: PLW0603 - the one state of a worker process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    Thread(target=_die_with_parent, name="parent watch", daemon=True).start()
    _toolbox, _steps = toolbox_of(make_toolbox), queue


def _die_with_parent() -> None:
    """End this process when the study's own is gone, however it ended; a run goes on from its journal next time."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(work: Work) -> Any:
    if _toolbox is None:
        raise StudyError(f"the process of {work.name} was not made ready")
    return done(work, _toolbox, lambda *step: _steps.put(step))
