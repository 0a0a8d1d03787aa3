"""Jobs in a child process: answers become events, a lost child is started again, but not for ever."""

import errno
import os
import queue
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fed_core.errors import StoreError
from fed_core.requests import JobRequest
from fed_core.roles import events as ev
from fed_nodes.training import worker as worker_module
from fed_nodes.training.jobs import MAX_RESTARTS, Jobs

#: Stands in for ``fed_nodes.training.trainer``: quick to start, ends as its job says.
CHILD = """
import json, os, signal, sys
orders = []
for line in sys.stdin:
    job = json.loads(line)
    orders.append(job.get("control") or job["kind"])
    if "control" in job:
        continue
    say = lambda event, **more: print(json.dumps({"job": job["job"], "event": event, **more}), flush=True)
    if job["kind"] == "die":
        log = open(job["log"], "a"); log.write(f"{os.getpid()}\\n"); log.close()
        if sum(1 for _ in open(job["log"])) <= job["times"]:
            os.kill(os.getpid(), signal.SIGKILL)
    if job["kind"] == "noise":
        print("a library prints", flush=True)
    if job["kind"] == "fail":
        say("failed", text="no such strategy"); continue
    if job["kind"] == "worry":
        print(json.dumps({"job": "", "event": "warning", "text": "a file is damaged"}), flush=True)
    if job["kind"] == "hang":
        say("progress", share=0.5, loss=1.5, samples_per_s=9.0); signal.pause()
    if job["kind"] == "hold":
        say("paused"); say("resumed")
    say("progress", share=1.0, loss=0.5, samples_per_s=8.0)
    say("done", result={"pid": orders if job["kind"] == "orders" else os.getpid()})
"""


class Posted:
    """Events in the order they were posted."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, event: Any) -> None:
        self._events.put(event)

    def next(self) -> Any:
        return self._events.get(timeout=20.0)

    def end(self) -> Any:
        """Return the next event that is no progress."""
        while isinstance(event := self.next(), ev.Progress):
            pass
        return event


@pytest.fixture
def posted() -> Posted:
    return Posted()


@pytest.fixture
def jobs(posted: Posted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(worker_module.sys, "executable", str(wrapper))
    made = Jobs(posted.put, warn=lambda text: posted.put(("warning", text)))
    yield made
    made.stop()


def request(kind: str, **arguments: Any) -> JobRequest:
    return JobRequest("round 1", kind, arguments, lambda result: ("finished", result["pid"]))


def test_progress_and_result_become_events(jobs: Jobs, posted: Posted) -> None:
    jobs.start(request("work"))
    assert posted.next() == ev.Progress(1.0, 0.5, 8.0)
    assert posted.next() == ("finished", jobs.pid)


def test_the_child_lives_on_for_the_next_job(jobs: Jobs, posted: Posted) -> None:
    jobs.start(request("noise"))
    first = posted.end()
    jobs.start(request("work"))
    assert posted.end() == first


def test_a_warning_is_handed_on_and_the_job_goes_on(jobs: Jobs, posted: Posted) -> None:
    jobs.start(request("worry"))
    assert posted.end() == ("warning", "a file is damaged")
    assert posted.end()[0] == "finished"


def test_failure_is_told(jobs: Jobs, posted: Posted) -> None:
    jobs.start(request("fail"))
    assert posted.end() == ev.JobFailed("round 1", "no such strategy")


def test_lost_child_is_started_again(jobs: Jobs, posted: Posted, tmp_path: Path) -> None:
    jobs.start(request("die", log=str(tmp_path / "log"), times=MAX_RESTARTS))
    event = posted.end()
    pids = (tmp_path / "log").read_text().split()
    assert event == ("finished", int(pids[-1]))
    assert len(set(pids)) == MAX_RESTARTS + 1 == 4


def test_a_job_that_always_kills_its_child_fails(jobs: Jobs, posted: Posted, tmp_path: Path) -> None:
    jobs.start(request("die", log=str(tmp_path / "log"), times=99))
    event = posted.end()
    assert isinstance(event, ev.JobFailed) and event.job == "round 1"
    assert "the training process ended (SIGKILL)" in event.text
    assert len((tmp_path / "log").read_text().split()) == MAX_RESTARTS + 1
    jobs.start(request("work"))  # the next job has its own child and its own attempts
    assert posted.end()[0] == "finished"


def test_a_pause_reaches_the_child_before_its_first_job_and_every_later_child(jobs: Jobs, posted: Posted) -> None:
    jobs.pause(True)
    jobs.start(request("orders"))
    assert posted.end() == ("finished", ["pause", "orders"])
    jobs.stop()  # a new round
    jobs.start(request("orders"))
    assert posted.end() == ("finished", ["pause", "orders"])
    jobs.pause(True)  # is told once
    jobs.pause(False)
    jobs.start(request("orders"))
    assert posted.end() == ("finished", ["pause", "orders", "resume", "orders"])


def test_a_held_job_is_neither_done_nor_failed(jobs: Jobs, posted: Posted) -> None:
    jobs.start(request("hold"))
    assert posted.next() == ev.Progress(1.0, 0.5, 8.0)
    assert posted.next()[0] == "finished"


def test_stop_ends_the_child_without_an_answer(jobs: Jobs, posted: Posted) -> None:
    jobs.start(request("hang"))
    assert posted.next() == ev.Progress(0.5, 1.5, 9.0)
    pid = jobs.pid
    assert pid is not None
    jobs.stop()
    assert jobs.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    jobs.start(request("work"))
    assert posted.next() == ev.Progress(1.0, 0.5, 8.0)  # nothing of the stopped job came between


def test_child_killed_from_outside_while_it_works(jobs: Jobs, posted: Posted) -> None:
    jobs.start(request("hang"))
    for _ in range(MAX_RESTARTS):
        assert posted.next() == ev.Progress(0.5, 1.5, 9.0)
        assert jobs.pid is not None
        os.kill(jobs.pid, signal.SIGKILL)
    assert posted.next() == ev.Progress(0.5, 1.5, 9.0)


def test_a_child_that_cannot_be_started_is_a_failed_job(
    jobs: Jobs, posted: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*args: Any, **options: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as full:
        full.setattr(worker_module.subprocess, "Popen", no_memory)
        jobs.start(request("work"))
    assert posted.next() == ev.JobFailed("round 1", "cannot start the training process: Cannot allocate memory")
    jobs.start(request("work"))
    assert posted.end()[0] == "finished"


def test_result_that_cannot_be_kept_is_a_failed_job(jobs: Jobs, posted: Posted) -> None:
    def no_space(result: Any) -> Any:
        raise StoreError("no space is left")

    jobs.start(JobRequest("round 1", "work", {}, no_space))
    assert posted.end() == ev.JobFailed("round 1", "no space is left")
    assert jobs.pid is not None
