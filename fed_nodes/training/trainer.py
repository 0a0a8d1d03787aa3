"""The child process of a node: runs jobs with PyTorch, one JSON object per line in and out.

In: ``{"job": NAME, "kind": KIND, ...}`` with the arguments of the job. Out, each with the job's name: event "progress"
(share, loss, samples_per_s), at the end "done" (result) or "failed" (text); what people should know in between is event
"warning" (text). ``{"control": "pause"}`` holds the job between two batches (event "paused"), or the next one before it
begins; ``{"control": "resume"}`` lets it go on (event "resumed"). It speaks no ROS. It dies with its parent, and leaves
Ctrl-C to the node, which ends it.
"""

import argparse
import ctypes
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from fed_core.errors import FedError
from fed_core.training.memory import is_out_of_memory
from fed_nodes.training.limits import NORMAL, TrainingLimits, limit_gpu_memory, limit_this_process

_PR_SET_PDEATHSIG = 1
_PROGRESS_EVERY_S = 0.25


def main() -> int:
    """Work off jobs until standard input ends."""
    options = _options()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent(options.parent)
    answers = _Answers(os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not break the protocol
    logging.getLogger().addHandler(_Warnings(answers))
    limit_this_process(
        TrainingLimits(nice=options.nice, scheduling=options.scheduling, cpus=options.cpus, memory_mb=options.memory_mb)
    )
    gate, jobs = Gate(), queue.SimpleQueue[dict[str, Any] | None]()
    threading.Thread(target=_read, args=(sys.stdin, jobs, gate), daemon=True, name="orders").start()
    while (request := jobs.get()) is not None:
        _work(request, answers, gate, options.gpu_memory_share)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process id of the node")
    parser.add_argument("--nice", type=int, default=5, help="added niceness")
    parser.add_argument("--scheduling", default=NORMAL, help="normal, batch or idle")
    parser.add_argument("--cpus", default="", help="CPUs as 0,2-3; empty = all")
    parser.add_argument("--memory-mb", type=int, default=0, help="most memory [MB]; 0 = no limit")
    parser.add_argument("--gpu-memory-share", type=float, default=1.0, help="most of the GPU's memory")
    return parser.parse_args()


class Gate:
    """Holds the thread that works while another one keeps it closed; open at first."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def set(self, control: str) -> None:
        """Close it ("pause") or open it ("resume")."""
        if control == "pause":
            self._open.clear()
        else:
            self._open.set()

    def pass_through(self, say: Callable[[str], None]) -> None:
        """Return at once where it is open, else when it opens; ``say`` hears "paused" and "resumed"."""
        if self._open.is_set():
            return
        say("paused")
        self._open.wait()
        say("resumed")


def _read(lines: Iterable[str], jobs: "queue.SimpleQueue[dict[str, Any] | None]", gate: Gate) -> None:
    """Sort what the node writes: controls take effect at once, jobs wait for their turn."""
    for line in lines:
        request = json.loads(line)
        if "control" in request:
            gate.set(request["control"])
        else:
            jobs.put(request)
    jobs.put(None)
    gate.set("resume")  # nobody is left who could


class _Answers:
    """Lines to the node, from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def write(self, job: str, event: str, **values: Any) -> None:
        with self._lock:
            self._stream.write(json.dumps({"job": job, "event": event, **values}) + "\n")
            self._stream.flush()


def _work(request: dict[str, Any], answers: _Answers, gate: Gate, gpu_memory_share: float) -> None:
    job, kind = request.pop("job"), request.pop("kind")
    told_s = 0.0

    def say(event: str, **values: Any) -> None:
        answers.write(job, event, **values)

    def on_progress(share: float, loss: float, samples_per_s: float) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _PROGRESS_EVERY_S:
            told_s = time.monotonic()
            say("progress", share=share, loss=loss, samples_per_s=samples_per_s)
        gate.pass_through(say)

    gate.pass_through(say)
    try:
        limit_gpu_memory(gpu_memory_share)
        say("done", result=_run(kind, request, on_progress))
    except FedError as err:
        say("failed", text=str(err))
    except Exception as err:  # the node must hear of it, whatever it is
        traceback.print_exc()
        say("failed", text=_explain(err))


class _Warnings(logging.Handler):
    """Hands warnings of the core to the node, which has the log and the diagnostics that people read."""

    def __init__(self, answers: _Answers) -> None:
        super().__init__(logging.WARNING)
        self._answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        self._answers.write("", "warning", text=record.getMessage())


def _explain(error: Exception) -> str:
    """Return one line for people."""
    if is_out_of_memory(error):
        return "out of memory; use a smaller batch_size or network"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _run(kind: str, arguments: dict[str, Any], on_progress: Any) -> dict[str, Any]:
    from fed_core.training.jobs import run_job
    from fed_models.toolbox import toolbox

    return run_job(kind, arguments, toolbox(), on_progress)


def _die_with_parent(parent: int) -> None:
    """End this process when ``parent`` ends, however it ends; the end of standard input does the rest elsewhere."""

    def check(*_: Any) -> None:
        if os.getppid() != parent:
            os._exit(1)

    if sys.platform == "linux":
        # The kernel sends the signal when the *thread* that started us ends, too. So it must be one that can be looked
        # into: SIGKILL would take the trainer down with any short-lived thread of the node.
        signal.signal(signal.SIGUSR1, check)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
    check()  # it may have ended before the line above


if __name__ == "__main__":
    sys.exit(main())
