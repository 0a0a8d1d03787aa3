"""Compares two models layer by layer on a few frames, in one pass, without keeping activations (fedcka spec 3, 11).

Both models see the same frame at the same time, each in a thread of its own, and only one of the two threads ever runs.
The first goes on until a scored module has an output and waits there, inside the hook; the second goes on until it has
the same output; the pair is compared and both outputs are dropped. Turns cost time, so the first takes copies of small
outputs along until they add up to a quarter of the largest one. Beside a bare forward pass the probe holds these,
what the waiting model needs where it stands (input and output of one module), and blocks of 128 KiB in float64.

- A module that is called several times in a forward counts with its last call; one that is not called has no score.
- Outputs belong to one frame: nothing of the frame before is ever compared.
- Frames have to come one by one (batch size 1): rows are the tokens of a frame, scores the mean over frames.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError
from fed_core.similarity.cka import BIASED, SparseRows, check_estimator, cka, mean_over_frames, sparse_cka

Forward = Callable[[nn.Module, Any], Any]

LAYOUTS = ("features", "released")
_CHANNELS_FIRST = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
)
_NUMPY = (torch.float16, torch.float32, torch.float64)
_CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.MultiheadAttention, nn.Embedding)


@dataclass(frozen=True)
class LayerScore:
    """How alike one layer is in both models.

    Attributes:
        mean: of the finite values of the frames; NaN where there is none.
        per_frame: CKA of each frame.
        n: rows of the last frame.
        p: features of both models, the smaller count.
    """

    mean: float
    per_frame: tuple[float, ...]
    n: int = 0
    p: int = 0


def call(model: nn.Module, frame: Any) -> Any:
    """Call a model with a frame."""
    return model(frame)


@dataclass(frozen=True)
class CkaProbe:
    """Both models, the frames and the layers to compare; :meth:`scores` does the work.

    Attributes:
        model_a: the first model, on the device of the frames.
        model_b: another copy of the same network.
        frames: batches of one frame.
        units: paths of the modules whose outputs are compared, in order.
        estimator: "biased" or "debiased".
        forward: ``forward(model, frame)``.
        layout: what is a feature: "features" reads the channels of convolutions and norms and the last axis of linear
            layers, "released" the released code's table, which takes the tokens of a Conv1d for its features.
        eval_mode: put both models into eval mode for the time of the probe; without it the caller chose.
    """

    model_a: nn.Module
    model_b: nn.Module
    frames: Iterable[Any]
    units: Sequence[str]
    estimator: str = BIASED
    forward: Forward = call
    layout: str = "features"
    eval_mode: bool = True

    def __post_init__(self) -> None:
        check_estimator(self.estimator)
        if self.layout not in LAYOUTS:
            raise ConfigError(f"no layout of features is called {self.layout!r}; known: {', '.join(LAYOUTS)}")
        if self.model_a is self.model_b:
            raise ConfigError("the probe compares two models, but both are the same object; give it a copy")

    def scores(self) -> dict[str, LayerScore]:
        """Return the scores by unit; units that no frame reached have a NaN."""
        found: dict[str, list[_Pair]] = {unit: [] for unit in self.units}
        both = _Frame(self, None, 0)

        def on_first(unit: str, module: nn.Module, output: Any) -> None:
            both.on_first(unit, module, output)

        def on_second(unit: str, module: nn.Module, output: Any) -> None:
            both.on_second(unit, module, output)

        with (
            _settled((self.model_a, self.model_b), self.eval_mode),
            _hooks(self.model_a, self.units, on_first),
            _hooks(self.model_b, self.units, on_second),
        ):
            for frame in self.frames:
                both = _Frame(self, frame, both.largest_bytes)
                for unit, pair in both.compare().items():
                    found[unit].append(pair)
        return {unit: _score(pairs) for unit, pairs in found.items()}


@dataclass(frozen=True)
class _Pair:
    value: float
    n: int
    p: int


def _score(pairs: Sequence[_Pair]) -> LayerScore:
    values = tuple(pair.value for pair in pairs)
    last = pairs[-1] if pairs else _Pair(float("nan"), 0, 0)
    return LayerScore(mean_over_frames(values), values, last.n, last.p)


#: A unit and how often its module was called before in this frame.
_Event = tuple[str, int]


@dataclass
class _Side:
    """One model in one frame.

    Attributes:
        outputs: what waits to be compared.
        held_bytes: of those.
        loose: the output that the waiting model may yet overwrite in place; the others are copies.
        sparse: the newest sparse output; a dense one of as many rows (a norm inside a sparse block) has its cells.
    """

    calls: Counter[str] = field(default_factory=Counter)
    outputs: dict[_Event, Any] = field(default_factory=dict)
    held_bytes: int = 0
    loose: _Event | None = None
    sparse: Any = None

    def take(self, unit: str, module: nn.Module, output: Any, layout: str) -> _Event:
        """Keep an output until the other side has it, too; returns its name."""
        event = unit, self.calls[unit]
        self.calls[unit] += 1
        found = _first(output)
        if _is_sparse(found):
            self.sparse = found
        self.outputs[event] = self._rows(found, module, layout)
        self.held_bytes += _bytes(self.outputs[event])
        self.loose = event
        return event

    def drop(self, event: _Event) -> Any:
        """Return an output and forget it."""
        value = self.outputs.pop(event)
        self.held_bytes -= _bytes(value)
        return value

    def copy_loose(self) -> None:
        """Copy what the model may overwrite when it goes on."""
        if self.loose is not None and self.loose in self.outputs:
            self.outputs[self.loose] = _copied(self.outputs[self.loose])
        self.loose = None

    def _rows(self, found: Any, module: nn.Module, layout: str) -> Any:
        if found is None:
            return None
        if _is_sparse(found):
            return sparse_rows(found)
        found = _plain(found)
        if self.sparse is not None and found.ndim == 2 and len(found) == len(self.sparse.features):
            return sparse_rows(self.sparse, found)
        return rows(found, module if layout == "features" else None)


class _Frame:
    """One frame in both models, in lock-step."""

    def __init__(self, probe: CkaProbe, frame: Any, largest_bytes: int) -> None:
        self._probe, self._frame, self.largest_bytes = probe, frame, largest_bytes
        self._a, self._b = _Side(), _Side()
        self._found: dict[str, _Pair] = {}
        self._turn_a, self._turn_b = threading.Lock(), threading.Lock()  # released by the other thread
        self._turn_a.acquire()
        self._turn_b.acquire()
        self._over = self._draining = False
        self._error: BaseException | None = None

    def compare(self) -> dict[str, _Pair]:
        """Return what was compared in this frame."""
        thread = threading.Thread(target=self._run_first, daemon=True)
        thread.start()
        try:
            self._forward(self._probe.model_b)
        finally:
            self._draining = True
            self._advance()
            thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def _run_first(self) -> None:
        self._turn_a.acquire()
        try:
            self._forward(self._probe.model_a)
        except _Stopped:
            pass
        except BaseException as err:  # raised again by the other thread
            self._error = err
        finally:
            self._over = True
            self._turn_b.release()

    def _forward(self, model: nn.Module) -> None:
        with torch.no_grad():
            self._probe.forward(model, self._frame)

    def _advance(self) -> None:
        """Let the first model go on to its next output."""
        if not self._over:
            self._turn_a.release()
            self._turn_b.acquire()
        if self._error is not None:
            raise self._error

    def on_first(self, unit: str, module: nn.Module, output: Any) -> None:
        """Keep an output of the first model, and wait for the second one where that is due."""
        if self._draining:
            raise _Stopped
        event = self._a.take(unit, module, output, self._probe.layout)
        self.largest_bytes = max(self.largest_bytes, _bytes(self._a.outputs[event]))
        if self._a.held_bytes > self.largest_bytes // 4:
            self._turn_b.release()
            self._turn_a.acquire()
        self._a.copy_loose()

    def on_second(self, unit: str, module: nn.Module, output: Any) -> None:
        """Compare an output of the second model with the first one's, which goes on until it has that."""
        event = self._b.take(unit, module, output, self._probe.layout)
        mine = self._b.drop(event)
        while event not in self._a.outputs and not self._over:
            self._advance()
        if event in self._a.outputs:
            self._found[unit] = _compared(self._a.drop(event), mine, self._probe.estimator)


class _Stopped(Exception):  # noqa: N818 - no error: the second model is done, nobody waits for the rest of the first
    pass


def _compared(a: Any, b: Any, estimator: str) -> _Pair:
    if a is None or b is None or isinstance(a, SparseRows) is not isinstance(b, SparseRows):
        return _Pair(float("nan"), 0, 0)
    if isinstance(a, SparseRows):
        width = min(a.features.shape[1], b.features.shape[1])
        return _Pair(sparse_cka(a, b, estimator), min(a.volume, b.volume), width)
    return _Pair(cka(a, b, estimator), min(len(a), len(b)), min(a.shape[1], b.shape[1]))


def _bytes(value: Any) -> int:
    if value is None:
        return 0
    return int((value.features if isinstance(value, SparseRows) else value).nbytes)


def _copied(value: Any) -> Any:
    if isinstance(value, SparseRows):
        return replace(value, features=_copied(value.features))
    return value.clone() if isinstance(value, Tensor) else None if value is None else value.copy()


def _plain(output: Tensor) -> Any:
    """Return a view as a NumPy array where that is possible: its calls cost half of PyTorch's."""
    return output.numpy() if output.device.type == "cpu" and output.dtype in _NUMPY else output


def rows(output: Any, module: nn.Module | None = None) -> Any:
    """Return an output as (n, p) rows of samples; a view where that is possible.

    Args:
        output: tensor or array (B, C, H, W), (a, b, d) with features last, (n, p), (n,), or more axes, of which the
            first are rows.
        module: what made it, if its kind shall tell where the features are; None = by the number of axes only.
    """
    if output.ndim == 2:
        return output
    if output.ndim < 2:
        return output.reshape(-1, 1)
    last = output.ndim == 3
    if isinstance(module, _CHANNELS_LAST):
        last = True
    elif isinstance(module, _CHANNELS_FIRST):
        last = False
    elif output.ndim > 4:
        return output.reshape(len(output), -1)
    if last:
        return output.reshape(-1, output.shape[-1])
    maps = output.reshape(output.shape[0], output.shape[1], -1)
    return maps[0].T if len(maps) == 1 else maps.swapaxes(1, 2).reshape(-1, maps.shape[1])


def sparse_rows(tensor: Any, features: Tensor | None = None) -> SparseRows:
    """Return the active cells of a sparse tensor as spconv has it.

    Args:
        tensor: with ``features`` (N, C), ``indices`` (N, 1 + axes), the first of which is the place in the batch,
            ``spatial_shape`` and ``batch_size``.
        features: other values of the same cells.
    """
    shape = [int(tensor.batch_size), *(int(size) for size in tensor.spatial_shape)]
    cells = torch.zeros(len(tensor.indices), dtype=torch.int64, device=tensor.indices.device)
    for axis, size in enumerate(shape):
        cells = cells * size + tensor.indices[:, axis].long()
    volume = 1
    for size in shape:
        volume *= size
    return SparseRows(tensor.features if features is None else features, cells, volume)


def _is_sparse(value: Any) -> bool:
    names = ("features", "indices", "spatial_shape", "batch_size")
    return not isinstance(value, Tensor) and all(hasattr(value, name) for name in names)


def _first(output: Any) -> Any:
    """Return the first floating tensor or sparse tensor of an output, None where there is none."""
    if isinstance(output, Tensor):
        return output if output.is_floating_point() else None
    if _is_sparse(output):
        return output
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, (tuple, list)) else ()
    return next((found for found in map(_first, parts) if found is not None), None)


@contextmanager
def _hooks(model: nn.Module, units: Sequence[str], hook: Callable[[str, nn.Module, Any], None]) -> Iterator[None]:
    def on(unit: str) -> Callable[[nn.Module, Any, Any], None]:
        return lambda module, _, output: hook(unit, module, output)

    handles = [model.get_submodule(unit).register_forward_hook(on(unit)) for unit in units]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _settled(models: Sequence[nn.Module], eval_mode: bool) -> Iterator[None]:
    """Put the models into eval mode, and every module back into its own mode afterwards."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    if eval_mode:
        for model in models:
            model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
