"""The child process of a node: runs jobs with PyTorch, one JSON object per line in and out.

In: ``{"job": NAME, "kind": KIND, ...}`` with the arguments of the job. Out, each with the job's name: event "progress"
(share, loss, samples_per_s), at the end "done" (result) or "failed" (text); what people should know in between is event
"warning" (text). It speaks no ROS. It dies with its parent, and leaves Ctrl-C to the node, which ends it.
"""

import argparse
import ctypes
import json
import logging
import os
import signal
import sys
import time
import traceback
from typing import Any, TextIO

from fed_core.errors import FedError

_PR_SET_PDEATHSIG = 1
_PROGRESS_EVERY_S = 0.25


def main() -> int:
    """Work off jobs until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process id of the node")
    parser.add_argument("--nice", type=int, default=5, help="added niceness")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent(options.parent)
    os.nice(options.nice)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not break the protocol
    logging.getLogger().addHandler(_Warnings(answers))
    for line in sys.stdin:
        _work(json.loads(line), answers)
    return 0


def _work(request: dict[str, Any], answers: TextIO) -> None:
    job, kind = request.pop("job"), request.pop("kind")
    told_s = 0.0

    def say(event: str, **values: Any) -> None:
        answers.write(json.dumps({"job": job, "event": event, **values}) + "\n")
        answers.flush()

    def on_progress(share: float, loss: float, samples_per_s: float) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _PROGRESS_EVERY_S:
            told_s = time.monotonic()
            say("progress", share=share, loss=loss, samples_per_s=samples_per_s)

    try:
        say("done", result=_run(kind, request, on_progress))
    except FedError as err:
        say("failed", text=str(err))
    except Exception as err:  # the node must hear of it, whatever it is
        traceback.print_exc()
        say("failed", text=_explain(err))


class _Warnings(logging.Handler):
    """Hands warnings of the core to the node, which has the log and the diagnostics that people read."""

    def __init__(self, answers: TextIO) -> None:
        super().__init__(logging.WARNING)
        self._answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        self._answers.write(json.dumps({"job": "", "event": "warning", "text": record.getMessage()}) + "\n")
        self._answers.flush()


def _explain(error: Exception) -> str:
    """Return one line for people."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    # PyTorch reports it as OutOfMemoryError on a GPU, as a plain RuntimeError of its allocator on the CPU.
    if isinstance(error, MemoryError) or "OutOfMemory" in text or "can't allocate memory" in text:
        return "out of memory; use a smaller batch_size or network"
    return text


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
