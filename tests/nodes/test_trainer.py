"""The trainer process: answers on a clean line, survives what it should, and dies with its node."""

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.types import ModelSignature
from fed_core.wire.codec import open_tensors
from fed_nodes.training.limits import TrainingLimits
from fed_nodes.training.trainer import _explain
from fed_nodes.training.worker import Worker
from tests.core.training.tiny import write_folder

ROOT = Path(__file__).resolve().parents[2]
NETWORK = {"network": "adabins_s", "network_options": {}}
LIMIT_S = 60.0
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "models"), os.environ.get("PYTHONPATH", "")]),
}


class Trainer:
    """A trainer with this process as its node."""

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fed_nodes.training.trainer", "--parent", str(os.getpid()), "--nice", "1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**ENVIRONMENT, **environment},
        )  # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line)

    def send(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.lines.get(timeout=LIMIT_S))
        return message

    def until(self, *events: str) -> list[dict[str, Any]]:
        """Return every message up to the first of these events."""
        messages = [self.next()]
        while messages[-1]["event"] not in events:
            messages.append(self.next())
        return messages

    def answers(self, job: str, kind: str, **arguments: Any) -> list[dict[str, Any]]:
        """Run a job; returns every message up to its end."""
        self.send(job=job, kind=kind, **arguments)
        return self.until("done", "failed")

    def close(self) -> str:
        """End the input, wait for the process, and return its error output."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        text = self.process.stderr.read()
        self.process.wait(LIMIT_S)
        return text


@pytest.fixture(scope="module")
def trainer() -> Iterator[Trainer]:
    trainer = Trainer()
    yield trainer
    trainer.process.kill()
    trainer.process.wait()


def test_a_robot_trains_from_the_initial_model(trainer: Trainer, tmp_path: Path) -> None:
    samples = {"source": write_folder(tmp_path / "recording", 9), "base": str(tmp_path)}
    initial = tmp_path / "initial.safetensors"
    (made,) = trainer.answers("initial model", "init", **NETWORK, seed=1, out=str(initial))
    (counted,) = trainer.answers("samples", "count", task="depth", **NETWORK, **samples)

    *progress, done = trainer.answers(
        "round 1", "train", robot_id="ana", round=1, total_rounds=2, strategy="fedavg", strategy_options={},
        task="depth", **NETWORK, load={"global": str(initial)}, extras={}, values={}, own="", memory="", seed=1,
        train={"batch_size": 4, "threads": 1, "device": "cpu"}, out_dir=str(tmp_path / "out"), **samples,
    )  # fmt: skip

    assert made["job"] == "initial model" and counted["result"]["num_samples"] == 9
    assert progress and set(progress[0]) == {"job", "event", "share", "loss", "samples_per_s"}
    assert done["event"] == "done" and done["job"] == "round 1", done
    signature = ModelSignature.from_json(made["result"]["signature"])
    before = open_tensors(initial, signature=signature)
    after = open_tensors(done["result"]["weights_path"], signature=signature)
    assert not np.array_equal(before["bin_scores.weight"], after["bin_scores.weight"])


def test_a_paused_round_goes_on_at_its_batch_to_the_same_bits(trainer: Trainer, tmp_path: Path) -> None:
    samples = {"source": write_folder(tmp_path / "recording", 8), "base": str(tmp_path)}
    small = {"network": "adabins_s", "network_options": {"height": 96, "width": 96, "d_max": 20.0}}
    initial = str(tmp_path / "initial.safetensors")
    trainer.answers("initial model", "init", **small, seed=1, out=initial)

    def order(name: str) -> dict[str, Any]:
        return {
            "job": "round 1", "kind": "train", "robot_id": "ana", "round": 1, "total_rounds": 2, "strategy": "fedavg",
            "strategy_options": {}, "task": "depth", **small, "load": {"global": initial}, "extras": {}, "values": {},
            "own": "", "memory": "", "seed": 1, "out_dir": str(tmp_path / name), **samples,
            "train": {"batch_size": 2, "local_epochs": 5, "threads": 1, "device": "cpu"},
        }  # fmt: skip

    undisturbed = trainer.answers(**order("undisturbed"))[-1]["result"]
    trainer.send(control="pause")
    trainer.send(**order("paused"))
    held = [trainer.next()["event"]]  # before it began
    trainer.send(control="resume")
    held += [message["event"] for message in trainer.until("progress")]
    trainer.send(control="pause")
    shares = [message["share"] for message in trainer.until("paused")[:-1]]
    trainer.send(control="resume")
    next_one, *_, done = trainer.until("done", "failed")

    assert held == ["paused", "resumed", "progress"] and next_one["event"] == "resumed"
    assert all(share < 1.0 for share in shares) and done["event"] == "done", done
    assert done["result"]["loss"] == undisturbed["loss"]
    paths = [Path(result["weights_path"]) for result in (undisturbed, done["result"])]
    assert paths[0] != paths[1] and paths[0].read_bytes() == paths[1].read_bytes()


def test_an_error_of_ours_is_its_one_line(trainer: Trainer, tmp_path: Path) -> None:
    (answer,) = trainer.answers(
        "samples", "count", task="depth", **NETWORK, source={"data": "missing"}, base=str(tmp_path)
    )

    assert answer["event"] == "failed" and "\n" not in answer["text"]
    assert answer["text"].endswith("missing does not exist")


def test_an_unexpected_error_fails_the_job_and_not_the_process(trainer: Trainer, tmp_path: Path) -> None:
    (answer,) = trainer.answers("x", "init", network="adabins_s")

    assert answer == {"job": "x", "event": "failed", "text": "KeyError: 'network_options'"}
    (next_one,) = trainer.answers("y", "init", **NETWORK, seed=0, out=str(tmp_path / "model"))
    assert next_one["event"] == "done"


def test_ctrl_c_is_left_to_the_node(trainer: Trainer, tmp_path: Path) -> None:
    trainer.answers("first", "init", **NETWORK, seed=0, out=str(tmp_path / "a"))

    trainer.process.send_signal(signal.SIGINT)

    (answer,) = trainer.answers("second", "init", **NETWORK, seed=0, out=str(tmp_path / "b"))
    assert answer["event"] == "done"


def test_prints_of_libraries_go_to_the_error_output(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import json, os\n"
        "loads = json.loads\n"
        "def noisy(*args, **options):\n"
        "    print('noise of python', flush=True)\n"
        "    os.write(1, b'noise of c\\n')\n"
        "    return loads(*args, **options)\n"
        "json.loads = noisy\n"
    )
    trainer = Trainer(PYTHONPATH=os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]]))

    (answer,) = trainer.answers("x", "dance")
    noise = trainer.close()

    assert answer["text"].startswith("no job is called 'dance'")
    assert "noise of python" in noise and "noise of c" in noise
    assert trainer.lines.empty() and trainer.process.returncode == 0


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux, where a process can be waited for by id")
def test_a_killed_node_leaves_no_trainer() -> None:
    """The node is killed while the pipe to its trainer stays open in another process."""
    program = (
        "import os, subprocess, sys\n"
        "read, write = os.pipe()\n"
        "os.set_inheritable(write, True)\n"
        "child = subprocess.Popen([sys.executable, '-m', 'fed_nodes.training.trainer', '--parent', str(os.getpid())],\n"
        "                         stdin=read, stdout=subprocess.PIPE, text=True)\n"
        "holder = subprocess.Popen(['sleep', '60'], close_fds=False)\n"
        'os.write(write, b\'{"job": "x", "kind": "dance"}\\n\')\n'
        "child.stdout.readline()\n"
        "print(child.pid, holder.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    node = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=ENVIRONMENT,
    )  # fmt: skip
    assert node.stdout is not None
    child, holder = map(int, node.stdout.readline().split())
    handle = os.pidfd_open(child)
    try:
        node.kill()
        node.wait()
        ended, _, _ = select.select([handle], [], [], LIMIT_S)
        assert ended, "the trainer still runs"
    finally:
        os.close(handle)
        os.kill(holder, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's rule about threads is Linux's own")
def test_the_thread_that_started_it_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: queue.Queue[dict[str, Any]] = queue.Queue()
    answered = threading.Event()
    monkeypatch.chdir(ROOT)
    worker = Worker(answers.put, limits=TrainingLimits(nice=0, scheduling="normal"), environment=ENVIRONMENT)

    def start() -> None:
        worker.submit("first", "dance", {})
        answered.wait(LIMIT_S)

    try:
        starter = threading.Thread(target=start)
        starter.start()
        first, pid = answers.get(timeout=LIMIT_S), worker.pid
        answered.set()
        starter.join()
        task, end_s = Path(f"/proc/self/task/{starter.native_id}"), time.monotonic() + LIMIT_S
        while task.exists() and time.monotonic() < end_s:
            os.sched_yield()
        worker.submit("second", "dance", {})
        second = answers.get(timeout=LIMIT_S)

        assert [first["event"], second["event"]] == ["failed", "failed"]
        assert pid is not None and worker.pid == pid
    finally:
        worker.stop()


def test_a_node_that_is_gone_already_ends_it_at_once() -> None:
    program = [sys.executable, "-m", "fed_nodes.training.trainer", "--parent", "1"]
    ended = subprocess.run(
        program, cwd=ROOT, env=ENVIRONMENT, timeout=LIMIT_S,
        capture_output=True, stdin=subprocess.PIPE, check=False,
    )  # fmt: skip

    assert ended.returncode == 1 and ended.stdout == b""


def test_pytorch_waits_for_the_first_job() -> None:
    check = "import sys, fed_nodes.training.trainer; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, env=ENVIRONMENT, check=False).returncode == 0


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "out of memory; use a smaller batch_size or network"),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory."), "out of memory; use a smaller"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory; use a smaller"),
        (ValueError("two\n lines"), "ValueError: two lines"),
    ],
)
def test_errors_are_explained_in_one_line(error: Exception, text: str) -> None:
    assert _explain(error).startswith(text)
