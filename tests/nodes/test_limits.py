"""Limits of the training process, read back from the real one; no job begins, so PyTorch is not loaded."""

import os
import queue
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_nodes.training.limits import TrainingLimits, cpu_numbers, limit_gpu_memory
from fed_nodes.training.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits are read back from /proc")


class Held:
    """A worker whose process runs and holds its first job."""

    def __init__(self, limits: TrainingLimits) -> None:
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.worker = Worker(self.answers.put, limits=limits, environment={"PYTHONPATH": f"{ROOT}:{ROOT}/models"})
        self.worker.pause(True)
        self.worker.submit("first", "dance", {})
        self.warnings: list[str] = []
        while (message := self.next())["event"] == "warning":
            self.warnings.append(message["text"])
        assert message == {"job": "first", "event": "paused"}

    def next(self) -> dict[str, Any]:
        return self.answers.get(timeout=LIMIT_S)

    def proc(self, name: str) -> str:
        """Return a file of /proc about the process."""
        return Path(f"/proc/{self.worker.pid}/{name}").read_text()

    def stat(self, place: int) -> int:
        """Return a number of its ``stat``, by its place in proc(5)."""
        return int(self.proc("stat").rpartition(")")[2].split()[place - 3])


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[TrainingLimits], Held]]:
    monkeypatch.chdir(ROOT)
    made: list[Held] = []

    def start(limits: TrainingLimits) -> Held:
        made.append(Held(limits))
        return made[-1]

    yield start
    for one in made:
        one.worker.stop()


@linux
@pytest.mark.parametrize(("scheduling", "policy"), [("normal", 0), ("batch", 3), ("idle", 5)])
def test_scheduling_class_and_niceness(held: Callable[[TrainingLimits], Held], scheduling: str, policy: int) -> None:
    process = held(TrainingLimits(scheduling=scheduling, nice=7))

    assert process.stat(41) == policy and not process.warnings
    assert process.stat(19) == min(os.nice(0) + 7, 19)


@linux
def test_cpus_memory_threads_and_gpu(held: Callable[[TrainingLimits], Held]) -> None:
    cpu = min(os.sched_getaffinity(0))
    process = held(TrainingLimits(cpus=f"{cpu}", memory_mb=700, threads=3, gpu=1))

    assert re.search(r"^Cpus_allowed_list:\s*(\S+)$", process.proc("status"), re.MULTILINE)[1] == str(cpu)  # type: ignore[index]
    assert re.search(r"^Max data size\s+(\d+)", process.proc("limits"), re.MULTILINE)[1] == "700000000"  # type: ignore[index]
    environment = process.proc("environ").split("\0")
    assert {"OMP_NUM_THREADS=3", "CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"} <= set(environment)
    assert int(process.proc("oom_score_adj")) == 800  # the first to go when the machine has no memory left


@linux
def test_without_limits_it_may_use_what_the_node_may(held: Callable[[TrainingLimits], Held]) -> None:
    process = held(TrainingLimits())

    assert os.sched_getaffinity(process.worker.pid or 0) == os.sched_getaffinity(0)
    own = re.search(r"^Max data size\s+(\S+)", Path("/proc/self/limits").read_text(), re.MULTILINE)
    assert re.search(r"^Max data size\s+(\S+)", process.proc("limits"), re.MULTILINE)[1] == own[1]  # type: ignore[index]
    assert process.stat(41) == os.SCHED_IDLE  # by default it takes only what nobody wants


def test_a_paused_process_can_be_stopped_and_the_next_one_is_paused_too(held: Callable[[TrainingLimits], Held]) -> None:
    process = held(TrainingLimits(scheduling="normal"))
    first = process.worker.pid

    process.worker.stop()
    assert process.worker.pid is None
    process.worker.submit("second", "dance", {})

    assert process.next() == {"job": "second", "event": "paused"} and process.worker.pid != first
    process.worker.pause(False)
    assert process.next() == {"job": "second", "event": "resumed"}


def test_a_killed_process_that_gets_no_cpu_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, held: Callable[[TrainingLimits], Held]
) -> None:
    process, wait, asked = held(TrainingLimits()), subprocess.Popen.wait, list[float]()

    def starved(child: "subprocess.Popen[str]", timeout: float | None = None) -> int:
        if timeout is None:
            return wait(child)
        asked.append(timeout)
        raise subprocess.TimeoutExpired("trainer", timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", starved)
    process.worker.stop()

    assert asked == [1.0] and process.worker.pid is None


@pytest.mark.parametrize(
    ("text", "cpus"), [("", set()), ("0", {0}), ("0,2-4", {0, 2, 3, 4}), (" 1 , 1 ", {1}), ("7-7", {7})]
)
def test_lists_of_cpus(text: str, cpus: set[int]) -> None:
    assert cpu_numbers(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "0;1", "-1", "1,,2"])
def test_wrong_lists_of_cpus_are_named(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingLimits(cpus=text)
    assert str(caught.value) == (f"cpus is {text!r}; write numbers and ranges such as 0,2-3, or nothing for all CPUs")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system assigns no CPUs")
def test_a_cpu_that_is_not_there_ends_the_node_in_one_line() -> None:
    own = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
    with pytest.raises(ConfigError) as caught:
        Worker(lambda message: None, limits=TrainingLimits(cpus="0,4095"))
    assert str(caught.value) == f"cpus is '0,4095', but CPU 4095 is not one of this process: {own}"


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"memory_mb": 100}, "memory_mb is 100, and PyTorch alone needs most of 512; set it to 512 or more, or to 0"),
        ({"memory_mb": -1}, "TrainingLimits.memory_mb is -1; it must lie between 0 and 10000000"),
        ({"scheduling": "fifo"}, "TrainingLimits.scheduling is 'fifo'; choose one of normal, batch, idle"),
        ({"gpu_memory_share": 0.0}, "TrainingLimits.gpu_memory_share is 0.0; it must lie between 0.01 and 1.0"),
        ({"nice": 20}, "TrainingLimits.nice is 20; it must lie between 0 and 19"),
        ({"threads": 0}, "TrainingLimits.threads is 0; it must lie between 1 and 1024"),
        ({"gpu": 64}, "TrainingLimits.gpu is 64; it must lie between -1 and 63"),
    ],
)
def test_wrong_limits_are_named(tree: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        from_tree(TrainingLimits, tree)


@pytest.mark.parametrize(("share", "has_gpu", "told"), [(1.0, True, []), (0.5, True, [0.5]), (0.5, False, [])])
def test_the_share_of_the_gpu_is_set_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, share: float, has_gpu: bool, told: list[float]
) -> None:
    shares: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", shares.append)

    limit_gpu_memory(share)

    assert shares == told


@linux
def test_a_limit_that_the_system_refuses_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, held: Callable[[TrainingLimits], Held]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "def refuse(*_):\n"
        "    raise PermissionError(1, 'Operation not permitted')\n"
        "os.sched_setscheduler = refuse\n"
    )
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(tmp_path))
    environment = f"{tmp_path}:{ROOT}:{ROOT}/models"
    monkeypatch.setattr(Worker, "__init__", _with_path(environment, Worker.__init__))

    process = held(TrainingLimits())

    assert process.warnings == [
        "training runs without the limit scheduling, which the system refuses: [Errno 1] Operation not permitted"
    ]


def _with_path(path: str, init: Callable[..., None]) -> Callable[..., None]:
    def wrapped(self: Worker, listener: Any, *, limits: TrainingLimits, environment: dict[str, str]) -> None:
        init(self, listener, limits=limits, environment={**environment, "PYTHONPATH": path})

    return wrapped
