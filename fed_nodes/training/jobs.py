"""Hands jobs to the child process of a node and turns its answers into events."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from fed_core.errors import FedError
from fed_core.requests import JobRequest
from fed_core.roles import events as ev
from fed_nodes.training.limits import PLAIN, TrainingLimits
from fed_nodes.training.worker import Worker

#: A job whose process was killed (out of memory, by a person) is started again this often.
MAX_RESTARTS = 3


_log = logging.getLogger(__name__)


class Jobs:
    """Runs one job at a time in a worker and starts lost ones again.

    Args:
        post: takes an event from any thread.
        limits: what the child may take of the machine.
        warn: takes a text that people should read, from any thread.
    """

    def __init__(
        self,
        post: Callable[[ev.Event], None],
        *,
        limits: TrainingLimits = PLAIN,
        warn: Callable[[str], None] = _log.warning,
    ) -> None:
        self._post, self._warn = post, warn
        self._worker = Worker(self._on_message, limits=limits)
        self._running: JobRequest | None = None
        self._lost = 0
        # The thread that reads must not start a job again that is being stopped.
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process id of the child, None while none runs."""
        return self._worker.pid

    def start(self, request: JobRequest) -> None:
        """Start a job; its answer is posted as an event."""
        with self._lock:
            self._running, self._lost = request, 0
            self._submit(request)

    def pause(self, paused: bool) -> None:
        """Hold the running job and those that follow, between two batches; or let them go on."""
        self._worker.pause(paused)

    def stop(self) -> None:
        """Stop the running job and the child, paused or not."""
        with self._lock:
            self._running = None
            self._worker.stop()

    def _submit(self, request: JobRequest) -> None:
        try:
            self._worker.submit(request.name, request.kind, request.arguments)
        except OSError as err:  # such as no memory for one more process
            self._running = None
            self._post(ev.JobFailed(request.name, f"cannot start the training process: {err.strerror}"))

    def _on_message(self, message: dict[str, Any]) -> None:
        if message.get("event") == "warning":
            self._warn(str(message["text"]))
            return
        request = self._running
        if request is None or message.get("job") != request.name:
            return
        event = message["event"]
        if event in ("paused", "resumed"):
            _log.debug("%s: %s", request.name, event)
        elif event == "progress":
            self._post(ev.Progress(message["share"], message["loss"], message["samples_per_s"]))
        elif event == "done":
            self._running = None
            self._post(_finished(request, message["result"]))
        elif event == "lost" and self._lost < MAX_RESTARTS:
            with self._lock:
                if self._running is request:
                    self._lost += 1
                    self._submit(request)
        else:
            self._running = None
            self._post(ev.JobFailed(request.name, message.get("text", "unknown error")))


def _finished(request: JobRequest, result: dict[str, Any]) -> ev.Event:
    """Return the event of a job that is done; what it wrote may not fit into the store any more."""
    try:
        return request.finish(result)
    except FedError as err:
        return ev.JobFailed(request.name, str(err))
    except OSError as err:
        return ev.JobFailed(request.name, f"cannot keep the result: {err.strerror}")
