"""Reading side of blobs over ROS 2: many pulls, one thread for disk, hashes and decisions.

Executor callbacks only put messages into a queue, so they never wait for a disk; results come back through a guard
condition and are delivered inside the executor.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fed_msgs.srv import ReadBlob
from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from fed_core.errors import FedError, Refusal, WireError
from fed_core.store.blobs import BlobStore
from fed_core.store.partial import Partial
from fed_core.types import BlobRef
from fed_core.wire.chunks import Answer, Pull, PullConfig, Request
from fed_core.wire.files import store_error
from fed_nodes import qos

PROGRESS_EVERY_S = 0.25
_LOOK_FOR_SERVICE_EVERY_S = 0.25  # rclpy tells nobody when a service appears


@dataclass
class _Job:
    """One fetch: who asked, and once it runs, its state."""

    ref: BlobRef
    service: str
    on_done: list[Callable[[BlobRef], None]]
    on_error: list[Callable[[BlobRef, FedError], None]]
    on_progress: list[Callable[[BlobRef, int], None]]
    pull: Pull | None = None
    part: Partial | None = None
    futures: dict[int, Future] = field(default_factory=dict)
    told_s: float = 0.0


class BlobClient:
    """Pulls blobs into a store.

    Args:
        node: owner of the service clients.
        store: where the blobs go.
        config: sizes and times of a pull.
        max_parallel: pulls that run at once, each from another service; the others wait in order. A pull whose sender
            is away holds nobody up.
        group: callback group; an own one by default.
    """

    def __init__(
        self,
        node: Node,
        store: BlobStore,
        config: PullConfig | None = None,
        *,
        max_parallel: int = 2,
        group: CallbackGroup | None = None,
    ) -> None:
        self.received_bytes = 0
        self._node = node
        self._store = store
        self._config = config or PullConfig()
        self._max_parallel = max_parallel
        self._group = group or MutuallyExclusiveCallbackGroup()
        self._clients: dict[str, Client] = {}
        self._jobs: dict[str, _Job] = {}  # touched by the thread only
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._outbox: deque[Callable[[], None]] = deque()
        self._guard = node.create_guard_condition(self._deliver, self._group)
        self._thread = threading.Thread(target=self._run, name="blobs", daemon=True)
        self._thread.start()

    def fetch(
        self,
        ref: BlobRef,
        service: str,
        *,
        on_done: Callable[[BlobRef], None],
        on_error: Callable[[BlobRef, FedError], None],
        on_progress: Callable[[BlobRef, int], None] | None = None,
    ) -> None:
        """Start (or join) the fetch of a blob; see :meth:`fed_nodes.blobs.BlobChannel.fetch`."""
        if service not in self._clients:
            self._clients[service] = self._node.create_client(
                ReadBlob, service, qos_profile=qos.blobs(self._config.window), callback_group=self._group
            )
        job = _Job(ref, service, [on_done], [on_error], [on_progress] if on_progress else [])
        self._inbox.put(partial(self._add, job))

    def cancel(self, digest: str) -> None:
        """Stop a fetch without calling back; what came stays on disk for the next try."""
        self._inbox.put(partial(self._drop, digest))

    def close(self) -> None:
        """Stop the thread and destroy the clients; nothing is called back any more."""
        self._inbox.put(None)
        self._thread.join(5.0)
        self._outbox.clear()
        for client in self._clients.values():
            self._node.destroy_client(client)
        self._clients.clear()
        self._node.destroy_guard_condition(self._guard)

    # ---- executor ----

    def _deliver(self) -> None:
        while self._outbox:
            self._outbox.popleft()()

    def _tell(self, callback: Callable[..., None], *args: Any) -> None:
        self._outbox.append(partial(callback, *args))
        self._guard.trigger()

    # ---- thread ----

    def _run(self) -> None:
        while True:
            try:
                action = self._inbox.get(timeout=self._patience_s())
            except queue.Empty:
                action = self._pump
            if action is None:
                break
            try:
                action()
            except (InvalidHandle, RCLError):  # ROS shuts down under us
                break
        for job in self._jobs.values():
            if job.part is not None:
                job.part.close()

    def _patience_s(self) -> float | None:
        now_s = time.monotonic()
        waits = []
        for job in self._jobs.values():
            if job.pull is None or job.pull.wake_s is None:
                continue
            # A due pull that could not send waits for its service.
            wait_s = job.pull.wake_s - now_s
            waits.append(wait_s if wait_s > 0 else _LOOK_FOR_SERVICE_EVERY_S)
        return min(waits, default=None)

    def _add(self, job: _Job) -> None:
        known = self._jobs.get(job.ref.digest)
        if known is not None:
            known.on_done += job.on_done
            known.on_error += job.on_error
            known.on_progress += job.on_progress
            return
        self._jobs[job.ref.digest] = job
        self._start_waiting()

    def _drop(self, digest: str) -> None:
        job = self._jobs.pop(digest, None)
        if job is not None:
            self._forget(job, tuple(job.futures))
            if job.part is not None:
                job.part.close()
            self._start_waiting()

    def _start_waiting(self) -> None:
        for job in list(self._jobs.values()):
            busy = [other.service for other in self._jobs.values() if other.pull is not None]
            moving = [service for service in busy if self._clients[service].service_is_ready()]
            if job.pull is None and len(moving) < self._max_parallel and job.service not in busy:
                self._guarded(job, self._begin)

    def _begin(self, job: _Job) -> None:
        if self._store.has(job.ref.digest):
            self._finish(job, None)
            return
        if job.ref.size_bytes > self._config.max_size_bytes:
            sizes = f"has {job.ref.size_bytes} bytes, allowed are {self._config.max_size_bytes}"
            raise WireError(f"blob {job.ref.digest[:12]} {sizes}", Refusal.TOO_LARGE)
        job.part = self._store.partial(job.ref, self._config.chunk_bytes)
        job.pull = Pull(job.ref, job.part.missing, self._config, time.monotonic())
        self._step(job)

    def _pump(self) -> None:
        for job in list(self._jobs.values()):
            if job.pull is not None:
                self._guarded(job, self._step)
        self._start_waiting()  # a sender may have gone away

    def _guarded(self, job: _Job, act: Callable[..., None], *args: Any) -> None:
        try:
            act(job, *args)
        except FedError as err:
            self._finish(job, err)
        except OSError as err:
            self._finish(job, store_error(err, self._store.root))

    def _step(self, job: _Job) -> None:
        if job.pull is None or job.part is None:
            return
        client = self._clients[job.service]
        # After a slow disk the answers lie in the inbox; they are not late.
        behind = not self._inbox.empty()
        step = job.pull.poll(time.monotonic(), ready=client.service_is_ready(), behind=behind)
        self._forget(job, step.forget)
        if job.pull.failed is not None:
            raise job.pull.failed
        if job.pull.done:
            job.part.finish()
            self._finish(job, None)
            return
        for request in step.send:
            message = ReadBlob.Request(digest=job.ref.digest, offset=request.offset, length=request.length)
            future = client.call_async(message)
            job.futures[request.token] = future
            future.add_done_callback(partial(self._on_future, job, request))

    def _on_future(self, job: _Job, request: Request, future: Future) -> None:
        # Runs in the executor: hand over, do nothing else.
        if not future.cancelled():
            self._inbox.put(partial(self._guarded, job, self._on_response, request, future.result()))

    def _on_response(self, job: _Job, request: Request, message: ReadBlob.Response) -> None:
        job.futures.pop(request.token, None)
        if job.pull is None or job.part is None or self._jobs.get(job.ref.digest) is not job:
            return
        answer = Answer(message.code, message.offset, message.size_bytes, len(message.data))
        if job.pull.on_answer(request, answer, time.monotonic()):
            if job.part.write(request.index, memoryview(message.data), message.crc32):
                self.received_bytes += answer.length
                job.pull.on_stored(request.index, time.monotonic())
            else:
                job.pull.on_damaged(request.index)
        now_s = time.monotonic()
        if job.on_progress and now_s - job.told_s >= PROGRESS_EVERY_S:
            job.told_s = now_s
            for callback in job.on_progress:
                self._tell(callback, job.ref, job.pull.stored_bytes)
        self._step(job)

    def _forget(self, job: _Job, tokens: tuple[int, ...]) -> None:
        for token in tokens:
            future = job.futures.pop(token, None)
            if future is not None:
                self._clients[job.service].remove_pending_request(future)  # else it stays in the client for ever

    def _finish(self, job: _Job, error: FedError | None) -> None:
        if self._jobs.get(job.ref.digest) is not job:
            return
        del self._jobs[job.ref.digest]
        self._forget(job, tuple(job.futures))
        if job.part is not None:
            job.part.close()
        if error is None:
            for done in job.on_done:
                self._tell(done, job.ref)
        else:
            for failed in job.on_error:
                self._tell(failed, job.ref, error)
        self._start_waiting()
