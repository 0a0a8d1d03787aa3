"""The thread that owns the networks of an inference node: describes sequences, loads models, predicts.

Frames wait in one slot, so that the newest is always next and latency stays bounded; orders wait in a queue and go
first. PyTorch is imported here, when the thread is made.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fed_core.errors import FedError, StrategyError
from fed_core.roles.messages import RunConfig
from fed_core.strategies.base import make_strategy
from fed_core.types import Array, Descriptor, ModelSignature
from fed_core.wire.codec import open_tensors


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


class ServingThread:
    """Runs networks off the executor.

    Args:
        threads: CPU threads of PyTorch.
        on_result: receives the pair (token, prediction) of each frame, in this thread.
        on_error: receives the text of an error, in this thread.
    """

    def __init__(
        self, threads: int, on_result: Callable[[tuple[Any, Array]], None], on_error: Callable[[str], None]
    ) -> None:
        import torch

        from fed_models.features import default_encoder

        torch.set_num_threads(threads)
        self._encoder = default_encoder()
        self._on_result, self._on_error = on_result, on_error
        self._orders: deque[Callable[[], None]] = deque()
        self._frame: tuple[Any, Any] | None = None
        self._wake = threading.Condition()
        self._closed = False
        self._network: Any = None
        self._task: Any = None
        self.dropped = 0
        self.predicted = 0
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)
        self._thread.start()

    def offer(self, token: Any, sample: Any) -> None:
        """Predict a sample of the task, unless a newer one comes first (then it counts as dropped)."""
        with self._wake:
            if self._frame is not None:
                self.dropped += 1
            self._frame = (token, sample)
            self._wake.notify()

    def describe(self, images: Sequence[Array], kind: str, use: Callable[[Descriptor], None]) -> None:
        """Describe (H, W, 3) uint8 images by ``kind``; ``use`` is called in this thread."""
        self._order(lambda: use(self._encoder.describe(images, kind)))

    def load(self, model: LiveModel, use: Callable[[Any], None]) -> None:
        """Average the files into the network and serve it from the next frame on; then call ``use`` with it."""

        def work() -> None:
            self._load(model)
            use(self._network)

        self._order(work)

    def close(self) -> None:
        """Stop the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(10.0)

    def _order(self, work: Callable[[], None]) -> None:
        with self._wake:
            self._orders.append(work)
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or self._orders or self._frame)
                if self._closed:
                    return
                order = self._orders.popleft() if self._orders else None
                frame = None
                if order is None:
                    frame, self._frame = self._frame, None
            try:
                if order is not None:
                    order()
                elif frame is not None and self._network is not None:
                    self._on_result((frame[0], self._task.predict(self._network, frame[1])))
                    self.predicted += 1
            except FedError as err:
                self._on_error(str(err))
            except Exception as err:  # one bad frame must not end the thread, and all live output with it
                self._on_error(f"{type(err).__name__}: {' '.join(str(err).split())}")

    def _load(self, model: LiveModel) -> None:
        from fed_core.tasks.base import tasks
        from fed_models import build, load_arrays, signature

        run = model.run
        network = build(run.network, run.network_options)
        load_arrays(network, _weights(model, signature(network, run.network)))
        network.eval()
        self._task = tasks.get(run.task)()
        self._network = network


def _weights(model: LiveModel, signature: ModelSignature) -> dict[str, Array]:
    """Return the mean of the files, merged with what the robot keeps to itself, as its training does."""
    from fed_core.training.jobs import start_weights

    strategy = make_strategy(model.run.strategy, model.run.strategy_options)
    start = {"own": "", "memory": "", **model.kept, "load": {key: str(path) for key, path in model.paths.items()}}
    if not start["own"]:
        sent = {name for path in model.paths.values() for name in open_tensors(path)}
        missing = [name for name in signature.names if name not in sent]
        if missing:
            keeps = f"{model.run.strategy} keeps {len(missing)} tensors ({missing[0]}, ...) on each robot"
            raise StrategyError(f"{keeps}; {model.no_own}")
    return start_weights(start, strategy, signature, {})
