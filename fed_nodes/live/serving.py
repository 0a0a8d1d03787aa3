"""The threads of an inference node that hold networks: one predicts, one describes sequences and makes networks ready.

Frames wait in one slot, so that the newest is always next and latency stays bounded. A new network is built, filled and
warmed up beside the one that serves; between two frames it takes its place, so none is lost and none waits for it.
PyTorch is imported by the second thread.
"""

import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fed_core.errors import ConfigError, FedError
from fed_core.roles.messages import RunConfig
from fed_core.strategies.base import make_strategy
from fed_core.training.kept import served_weights
from fed_core.types import Array, Descriptor
from fed_nodes.live.allocator import give_back_memory

#: Frames that latency is told of.
_WINDOW = 256
#: Niceness of the second thread once a network serves: predictions go first.
_NICE = 10
_STOP_S = 5.0


@dataclass(frozen=True)
class LiveModel:
    """What is needed to load a model.

    Attributes:
        run: what it belongs to.
        paths: files that are averaged, by key.
        kept: paths of a robot's own tensors and its memory (:func:`fed_core.requests.kept_files`); empty where no
            robot's model is served.
        no_own: what to do where the method keeps tensors on the robots and there are no own ones.
    """

    run: RunConfig
    paths: Mapping[str, Path]
    kept: Mapping[str, str] = field(default_factory=dict)
    no_own: str = ""


@dataclass(frozen=True)
class Counts:
    """What became of the frames; those that neither failed nor were predicted or dropped are on their way.

    Attributes:
        received: frames that were offered.
        predicted: those whose result was handed on.
        dropped: those that a newer one overtook.
        failed: those that raised an error.
        latency_s: median and 95th percentile from offered to handed on, of the last ones; NaN = there was none.
        age_s: since the last result; inf = there was none.
    """

    received: int
    predicted: int
    dropped: int
    failed: int
    latency_s: tuple[float, float]
    age_s: float


@dataclass(frozen=True)
class LiveNetwork:
    """A network, its task, and what runs it (None = itself)."""

    network: Any
    task: Any
    runner: Any = None

    def predict(self, sample: Any) -> Any:
        """Return the task's prediction."""
        return self.task.predict(self.network if self.runner is None else self.runner, sample)


@dataclass(frozen=True)
class _Ready:
    """What serves next, and whom to tell when it does."""

    live: LiveNetwork
    use: Callable[[LiveNetwork], None]


@dataclass(frozen=True)
class _Frame:
    token: Any
    sample: Any
    offered_s: float


class ServingThread:
    """Runs networks off the executor.

    Args:
        threads: CPU threads of PyTorch.
        on_result: receives the pair (token, prediction) of each frame, in the thread that predicts.
        on_error: receives the text of an error, in either thread.
        runtime: what runs the networks (:data:`fed_models.runtimes.RUNTIMES`).
        device: where they run: "cpu", "cuda", or "auto" for the GPU where there is one.
    """

    def __init__(
        self,
        threads: int,
        on_result: Callable[[tuple[Any, Any]], None],
        on_error: Callable[[str], None],
        runtime: str = "torch",
        *,
        device: str = "cpu",
    ) -> None:
        self._on_result, self._on_error = on_result, on_error
        self._threads, self._runtime, self._device = threads, runtime, device
        self._wake = threading.Condition()
        self._frame: _Frame | None = None
        self._latest: Any = None  # the last sample that came: what a new network is warmed up on
        self._ready: _Ready | None = None
        self._serving: _Ready | None = None
        self._closed = False
        self._received = self._dropped = self._predicted = self._failed = 0
        self._not_made = self._not_predicted = ""
        self._latencies_s: deque[float] = deque(maxlen=_WINDOW)
        self._last_s = -math.inf
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._orders.put(self._prepare)
        self._running = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (("serving", self._serve), ("loading", self._make))
        ]
        for thread in self._running:
            thread.start()

    def offer(self, token: Any, sample: Any) -> None:
        """Predict a sample of the task, unless a newer one comes first (then it counts as dropped)."""
        frame = _Frame(token, sample, time.monotonic())
        with self._wake:
            self._received += 1
            self._dropped += self._frame is not None
            self._frame, self._latest = frame, sample
            self._wake.notify()

    @property
    def problem(self) -> str:
        """Why nothing new serves, or the last frame was not predicted, for people; "" = all is well."""
        return self._not_made or self._not_predicted

    @property
    def is_behind(self) -> bool:
        """Whether the second thread has not begun yet with all that it was told."""
        return not self._orders.empty()

    def describe(self, images: Sequence[Array], kind: str, use: Callable[[Descriptor], None]) -> None:
        """Describe (H, W, 3) uint8 images by ``kind``; ``use`` is called in the second thread."""

        def work() -> None:
            from fed_models.features import default_encoder

            use(default_encoder().describe(images, kind))

        self._orders.put(work)

    def load(
        self, model: LiveModel, use: Callable[[LiveNetwork], None], failed: Callable[[], None] = lambda: None
    ) -> None:
        """Average the files into a new network and serve it as soon as it is warm.

        Args:
            model: what to load.
            use: called with what serves in the thread that predicts, after the last result of the network before.
            failed: called in the second thread where no network could be made.
        """

        def work() -> None:
            try:
                self._load(model, use)
            except Exception:
                failed()
                raise

        self._orders.put(work)

    def later(self, work: Callable[[], None]) -> None:
        """Do something slow in the second thread, after what it was told before."""
        self._orders.put(work)

    def counts(self) -> Counts:
        """Return what became of the frames so far."""
        with self._wake:
            latencies = sorted(self._latencies_s)
            counts = (self._received, self._predicted, self._dropped, self._failed)
            age_s = time.monotonic() - self._last_s
        shares = (0.5, 0.95)
        found = [latencies[min(len(latencies) - 1, int(s * len(latencies)))] if latencies else math.nan for s in shares]
        return Counts(*counts, (found[0], found[1]), age_s)

    def close(self) -> None:
        """Stop the threads; again is no error."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._orders.put(None)
        for thread in self._running:
            thread.join(_STOP_S)
        # A thread that still imports or builds must not keep the node, and its shared memory, beyond the end.
        self._on_result, self._on_error = _nobody, _nobody
        self._ready = self._serving = None

    # ---- the thread that predicts --------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or self._ready or (self._frame and self._serving))
                if self._closed:
                    return
                ready, self._ready = self._ready, None
                frame = None
                if ready is None:
                    frame, self._frame = self._frame, None
            if ready is not None:
                self._serving = ready
                self._guarded(partial(ready.use, ready.live))
                self._orders.put(give_back_memory)
            elif frame is not None and (serving := self._serving) is not None:
                self._not_predicted = self._guarded(partial(self._predict, frame, serving.live))
                self._count(frame, not self._not_predicted)

    def _predict(self, frame: _Frame, live: LiveNetwork) -> None:
        self._on_result((frame.token, live.predict(frame.sample)))

    def _count(self, frame: _Frame, done: bool) -> None:
        now_s = time.monotonic()
        with self._wake:
            self._predicted += done
            self._failed += not done
            if done:
                self._latencies_s.append(now_s - frame.offered_s)
                self._last_s = now_s

    def _guarded(self, work: Callable[[], None]) -> str:
        """Do it and return what hindered it: one bad frame must not end the thread, and all live output with it."""
        try:
            work()
        except FedError as err:
            text = str(err)
        except Exception as err:
            text = f"{type(err).__name__}: {' '.join(str(err).split())}"
        else:
            return ""
        self._on_error(text)
        return text

    # ---- the thread that makes networks ready --------------------------------------------------------------------

    def _make(self) -> None:
        nice = False
        while True:
            order = self._orders.get()
            if order is None or self._closed:
                return
            if self._serving is not None and not nice:
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)  # Linux: of this thread alone
                nice = True
            self._not_made = self._guarded(order) or self._not_made

    def _prepare(self) -> None:
        """Import what takes long while the node still looks for the fleet."""
        import torch

        from fed_core.tasks.base import tasks
        from fed_models.base import networks

        torch.set_num_threads(self._threads)
        tasks.names()  # imports all of them
        networks.names()

    def _load(self, model: LiveModel, use: Callable[[LiveNetwork], None]) -> None:
        network = self._build(model)
        sample = self._latest
        # A frame that cannot be predicted must not keep a network from those that can.
        if sample is not None and not self._guarded(lambda: network.predict(sample)):
            network = self._with_runner(network, sample)
        self._not_made = ""
        with self._wake:
            self._ready = _Ready(network, use)
            self._wake.notify()

    def _with_runner(self, live: LiveNetwork, sample: Any) -> LiveNetwork:
        """Return what runs the network as the runtime says; where that cannot, PyTorch does."""
        if self._runtime == "torch":
            return live
        from fed_models.runtimes import make_runner

        try:
            runner = make_runner(live.network, self._runtime, lambda found: live.task.predict(found, sample))
        except FedError as err:
            self._on_error(str(err))
            return live
        return replace(live, runner=runner)

    def _build(self, model: LiveModel) -> LiveNetwork:
        from fed_core.tasks.base import tasks
        from fed_models import build, load_arrays, signature

        run = model.run
        network: Any = build(run.network, run.network_options)
        strategy, of_network = make_strategy(run.strategy, run.strategy_options), signature(network, run.network)
        weights = served_weights(model.paths, model.kept, strategy, of_network, no_own=model.no_own)
        load_arrays(network, weights)
        return LiveNetwork(network.eval().to(self._torch_device()), tasks.get(run.task)())

    def _torch_device(self) -> Any:
        """Return where networks run; ONNX Runtime has the CPU alone."""
        import torch

        has_gpu = torch.cuda.is_available()
        if self._device == "cuda" and not has_gpu:
            raise ConfigError("device is cuda, but PyTorch sees no GPU; set device to auto or cpu")
        return torch.device("cuda" if has_gpu and self._device != "cpu" and self._runtime != "onnx" else "cpu")


def _nobody(_: Any) -> None:
    """Take what comes after the end."""
