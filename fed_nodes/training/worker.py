"""Runs jobs in a child process of its own, so that training never holds up a callback.

The child is ``python -m fed_nodes.training.trainer``: one JSON object per line in and out, tensors in files. It is
started on the first job, lives on for the next ones (importing PyTorch takes seconds), and dies with its parent.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from fed_nodes.training.limits import PLAIN, TrainingLimits

#: Called in the worker's reader thread with every line of the child: ``{"job": ..., "event": ..., ...}``.
Listener = Callable[[dict[str, Any]], None]

#: Longest wait for a killed child to be gone.
_STOP_S = 1.0


class Worker:
    """One child process that works off one job at a time.

    Args:
        listener: receives what the child says; it must only hand over, for example to a queue.
        limits: what the child may take of the machine.
        environment: further variables of the child.

    Raises:
        ConfigError: the machine cannot give what the limits name.
    """

    def __init__(
        self, listener: Listener, *, limits: TrainingLimits = PLAIN, environment: Mapping[str, str] | None = None
    ) -> None:
        limits.require_machine()
        self._listener, self._limits = listener, limits
        self._environment = {**(environment or {}), **limits.environment()}
        self._paused = False
        self._process: subprocess.Popen[str] | None = None
        self._job = ""
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process id of the child, None while none runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def submit(self, job: str, kind: str, arguments: Mapping[str, Any]) -> None:
        """Send a job; its answers carry the name ``job`` and end with event "done" or "failed"."""
        with self._lock:
            if self.pid is None:
                self._start()
            self._job = job
            self._write({"job": job, "kind": kind, **arguments})

    def pause(self, paused: bool) -> None:
        """Hold the running job and those that follow, between two batches; or let them go on.

        It holds for a child that is started later, too.
        """
        with self._lock:
            if paused is not self._paused:
                self._paused = paused
                if self.pid is not None:
                    self._write(_control(paused))

    def _write(self, order: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("the worker has no child process")
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            logging.getLogger(__name__).debug("child ended before it took %s", order.get("job", "a control"))

    def stop(self) -> None:
        """End the child at once; an unfinished job is never answered.

        A killed process needs a CPU to go, which one of the idle class may wait for: the caller does not.
        """
        with self._lock:
            process, self._process, self._job = self._process, None, ""
        if process is not None and process.poll() is None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)  # later, the thread that reads from it takes its end

    def _start(self) -> None:
        environment = {**os.environ, **self._environment}
        program = [sys.executable, "-m", "fed_nodes.training.trainer", "--parent", str(os.getpid())]
        self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
            [*program, *self._limits.arguments()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C in a terminal goes to the node, which ends its child itself
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True, name="worker").start()
        if self._paused:
            self._write(_control(True))

    def _read(self, process: "subprocess.Popen[str]") -> None:
        last = ""
        for line in process.stdout or ():
            try:
                message = json.loads(line)
            except ValueError:
                last = line.strip() or last
                continue
            if self._process is not process:
                continue  # stopped meanwhile, and a job of the same name may run in another child
            if message.get("event") in ("done", "failed") and message.get("job") == self._job:
                self._job = ""
            self._listener(message)
        code = process.wait()
        if self._process is process and self._job:
            reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            job, self._job = self._job, ""
            text = f"the training process ended ({reason}); {last}".rstrip("; ")
            self._listener({"job": job, "event": "lost", "text": text})


def _control(paused: bool) -> dict[str, str]:
    return {"control": "pause" if paused else "resume"}
