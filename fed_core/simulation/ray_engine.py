"""Robots' work on Ray: processes on one machine or many, shares of GPUs, models once per node.

The driver keeps roles, journal and blobs. A job goes to a worker with references to the fleet's models in Ray's object
store; what it wrote comes back as bytes and goes into the run's folder as if it had been made there.
"""

import json
import secrets
import shutil
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from fed_core import errors
from fed_core.errors import FedError
from fed_core.simulation.engines import Answer, Engine, Job
from fed_core.simulation.ray_cluster import RayOptions, cluster, fitting, one_line, our_variables, start_workers
from fed_core.simulation.ray_worker import RobotWorker, folder_of
from fed_core.simulation.shipping import brought_home, freight_of, read_bytes

#: Jobs that a worker has at a time: the next one is there when one ends.
_DEPTH = 2
#: What workers may take to delete their files [s].
_CLEAN_S = 10.0
#: Answers that wait for an older one, for each worker: so much the object store holds.
_AHEAD = 4


class RayEngine(Engine):
    """Workers that Ray runs; leave it as a context manager.

    Args:
        options: how Ray is used.
        make_toolbox: "module:function" that makes the networks' toolbox in each worker.
        threads: CPU threads of a job; as many CPUs of Ray go to each worker.
    """

    def __init__(self, options: RayOptions, make_toolbox: str, *, threads: int = 1) -> None:
        self._options, self._make, self._threads = options, make_toolbox, threads
        self._stack = ExitStack()
        self._workers: list[Any] = []
        self._load: list[int] = []
        self._homes: dict[str, int] = {}  # which worker has a robot's samples
        self._waiting: deque[tuple[int, Job]] = deque()
        self._running: dict[Any, tuple[int, int, Job]] = {}
        self._done: dict[int, tuple[Job, Any]] = {}
        self._taken = self._given = 0
        self._blobs: dict[Path, Any] = {}
        self._round = -1
        self._token = secrets.token_hex(6)  # names the run on every node

    def __enter__(self) -> "RayEngine":
        """Start the workers."""
        try:
            self._ray = self._stack.enter_context(cluster(self._options, self._threads))
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        """Stop the workers, and Ray where it was started for them."""
        if not self._running:  # else they would finish their jobs first
            with suppress(self._ray.exceptions.RayError):
                self._ray.get([worker.clean.remote() for worker in self._workers], timeout=_CLEAN_S)
        for worker in self._workers:
            self._ray.kill(worker)
        self._workers.clear()
        self._stack.close()
        shutil.rmtree(folder_of(self._token), ignore_errors=True)  # of this machine, whatever the workers did

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self._workers)

    def submit(self, job: Job) -> None:
        """Take a job; it begins when a worker is free."""
        self._waiting.append((self._taken, job))
        self._taken += 1
        self._launch()

    def next(self) -> Answer | None:
        """Wait for the oldest job."""
        if self._given == self._taken:
            return None
        while self._given not in self._done:
            self._collect()
            self._launch()
        job, answer = self._done.pop(self._given)
        self._given += 1
        self._launch()
        text, files = answer
        told = json.loads(text)
        if "error" in told:
            kind = getattr(errors, told["error"], FedError)
            return Answer(job, error=kind(told["text"]))
        return Answer(job, brought_home(told["result"], files, Path(job.request.arguments.get("out_dir", ""))))

    def _start(self) -> None:
        count, gpus = fitting(self._ray, self._options, self._threads)
        arguments = (self._make, our_variables(), str(Path.cwd()), self._token, self._threads)
        sizes: dict[str, Any] = {"count": count, "cpus": self._threads, "gpus": gpus}
        self._workers, _ = start_workers(self._ray, RobotWorker, arguments, **sizes)
        self._load = [0] * count

    def _launch(self) -> None:
        """Give jobs to workers that have room, as far ahead of the oldest as answers may wait."""
        last = self._given + _AHEAD * len(self._workers)
        while self._waiting and self._waiting[0][0] < last and min(self._load) < _DEPTH:
            number, job = self._waiting.popleft()
            worker = self._worker_of(job.robot_id)
            self._load[worker] += 1
            with one_line("a job cannot be handed to Ray", job.robot_id):
                self._running[self._send(worker, job)] = (number, worker, job)

    def _worker_of(self, robot_id: str) -> int:
        """Return the worker that has the robot's samples already, if it has room, else the least busy one."""
        home = self._homes.get(robot_id)
        if home is None or self._load[home] >= _DEPTH:
            home = self._load.index(min(self._load))
        self._homes[robot_id] = home
        return home

    def _send(self, worker: int, job: Job) -> Any:
        request = job.request
        freight, number = freight_of(request.arguments), int(request.arguments.get("round", 0))
        if number != self._round:  # models of rounds that are over leave the object store
            self._blobs.clear()
            self._round = number
        for path in freight.shared.values():
            if path not in self._blobs:
                self._blobs[path] = self._ray.put(read_bytes(path))
        names = {place: path.name for place, path in freight.shared.items()}
        told = {"kind": request.kind, "arguments": request.arguments, "round": number, "shared": names}
        shared = {path.name: self._blobs[path] for path in freight.shared.values()}
        own = {name: read_bytes(path) for name, path in freight.own.items()}
        return self._workers[worker].work.remote(json.dumps(told), shared, own)

    def _collect(self) -> None:
        """Wait until a job is over, and take the answers of all that are."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1)
        more, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        for reference in dict.fromkeys([*ready, *more]):
            number, worker, job = self._running.pop(reference)
            self._load[worker] -= 1
            with one_line(f"{job.request.name} of robot {job.robot_id} failed"):
                self._done[number] = (job, self._ray.get(reference))
