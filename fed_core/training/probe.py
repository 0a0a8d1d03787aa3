"""Compares two models layer by layer on a few frames, in one pass, without keeping activations (fedcka spec 3, 11).

Both models see the same frame at the same time, each in a coroutine (greenlet) of its own; they take turns.
The first goes on until a scored module has an output and waits there, inside the hook; the second goes on until it has
the same output; the pair is compared and both outputs are dropped. Turns cost time, so the first takes copies of small
outputs along until they add up to a quarter of the largest one. Beside a bare forward pass the probe holds these,
what the waiting model needs where it stands (input and output of one module), and blocks in float64 of 128 KiB, on a
GPU of 32 MiB.

- A module that is called several times in a forward counts with its last call; one that is not called has no score.
  Which call is the last is known from the frame before; a frame with fewer calls is run again.
- Outputs belong to one frame: nothing of the frame before is ever compared.
- Frames have to come one by one (batch size 1): rows are the tokens of a frame, scores the mean over frames.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from greenlet import greenlet
from torch import nn

from fed_core.errors import ConfigError
from fed_core.similarity.cka import BIASED, SparseRows, check_estimator, cka, mean_over_frames, num_rows, sparse_cka
from fed_core.training.outputs import copied, first_output, is_sparse, plain, rows, size_bytes, sparse_rows

Forward = Callable[[nn.Module, Any], Any]

LAYOUTS = ("features", "released")
_DEVICES = ("cpu", "cuda")


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
        tell_bytes: gets the most bytes of outputs that waited or were compared at one time; what the forward pass of
            the waiting model holds itself is not in it.
    """

    model_a: nn.Module
    model_b: nn.Module
    frames: Iterable[Any]
    units: Sequence[str]
    estimator: str = BIASED
    forward: Forward = call
    layout: str = "features"
    eval_mode: bool = True
    tell_bytes: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        check_estimator(self.estimator)
        if self.layout not in LAYOUTS:
            raise ConfigError(f"no layout of features is called {self.layout!r}; known: {', '.join(LAYOUTS)}")
        if self.model_a is self.model_b:
            raise ConfigError("the probe compares two models, but both are the same object; give it a copy")

    def scores(self) -> dict[str, LayerScore]:
        """Return the scores by unit; units that no frame reached have a NaN."""
        found: dict[str, list[_Pair]] = {unit: [] for unit in self.units}
        both = _Frame(self, None, _Known())

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
                known = both.known
                both = _Frame(self, frame, known)
                pairs = both.compare()
                if both.missed:
                    both = _Frame(self, frame, replace(known, calls={}))
                    pairs = both.compare()
                both.known.calls = both.calls()
                for unit, pair in pairs.items():
                    found[unit].append(pair)
        if self.tell_bytes is not None:
            self.tell_bytes(both.known.peak_bytes)
        return {unit: _score(pairs) for unit, pairs in found.items()}


class ProbeMemory:
    """Counts what comparing takes beside the robot's own model.

    On a GPU it is the peak of what PyTorch's allocator gave out, forward passes of both models included. On a CPU there
    is no such figure: there it is the second model, counted whole though most of it may stay in a mapped file, and the
    outputs that waited or were compared at one time.

    Args:
        model: the robot's model.
    """

    def __init__(self, model: nn.Module) -> None:
        devices = {parameter.device for parameter in model.parameters() if parameter.is_cuda}
        self._device = next(iter(devices), None)
        self._held = self._told = self._before = 0
        if self._device is not None:
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)

    def hold(self, model: nn.Module) -> None:
        """Count a second model."""
        self._held += sum(tensor.nbytes for tensor in model.state_dict().values())

    def tell(self, count: int) -> None:
        """Count outputs."""
        self._told = max(self._told, count)

    def extra_bytes(self) -> int:
        """Return the most that was held at one time."""
        if self._device is None:
            return self._held + self._told
        return int(torch.cuda.max_memory_allocated(self._device)) - self._before


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
class _Known:
    """What the frames before tell the next one.

    Attributes:
        calls: of each module that both models made.
        largest_bytes: of an output.
        peak_bytes: of the outputs of both models at one time.
    """

    calls: Mapping[str, int] = field(default_factory=dict)
    largest_bytes: int = 0
    peak_bytes: int = 0


@dataclass
class _Side:
    """One model in one frame.

    Attributes:
        expected: calls of each module; what comes before the last of them is left out.
        outputs: what waits to be compared.
        held_bytes: of those.
        loose: the output that the waiting model may yet overwrite in place; the others are copies.
        sparse: the newest sparse output; a dense one of as many rows (a norm inside a sparse block) has its cells.
    """

    expected: Mapping[str, int]
    calls: Counter[str] = field(default_factory=Counter)
    outputs: dict[_Event, Any] = field(default_factory=dict)
    held_bytes: int = 0
    loose: _Event | None = None
    sparse: Any = None

    def take(self, unit: str, module: nn.Module, output: Any, layout: str) -> _Event | None:
        """Keep an output until the other side has it, too; returns its name, None where a later call counts."""
        event = unit, self.calls[unit]
        self.calls[unit] += 1
        found = first_output(output)
        if is_sparse(found):
            self.sparse = found
        if self.calls[unit] < self.expected.get(unit, 0):
            return None
        self.outputs[event] = self._rows(found, module, layout)
        self.held_bytes += size_bytes(self.outputs[event])
        self.loose = event
        return event

    def drop(self, event: _Event) -> Any:
        """Return an output and forget it."""
        value = self.outputs.pop(event)
        self.held_bytes -= size_bytes(value)
        return value

    def copy_loose(self) -> None:
        """Copy what the model may overwrite when it goes on."""
        if self.loose is not None and self.loose in self.outputs:
            self.outputs[self.loose] = copied(self.outputs[self.loose])
        self.loose = None

    def _rows(self, found: Any, module: nn.Module, layout: str) -> Any:
        if found is None:
            return None
        if is_sparse(found):
            return sparse_rows(found)
        found = plain(found)
        if self.sparse is not None and found.ndim == 2 and len(found) == len(self.sparse.features):
            return sparse_rows(self.sparse, found)
        return rows(found, module if layout == "features" else None)


class _Frame:
    """One frame in both models, in lock-step."""

    def __init__(self, probe: CkaProbe, frame: Any, known: _Known) -> None:
        self._probe, self._frame, self.known = probe, frame, known
        self._a, self._b = _Side(known.calls), _Side(known.calls)
        self._found: dict[str, _Pair] = {}
        self._first = greenlet(self._run_first)
        self._draining = False

    def compare(self) -> dict[str, _Pair]:
        """Return what was compared in this frame."""
        with torch.no_grad():
            try:
                self._probe.forward(self._probe.model_b, self._frame)
            finally:
                self._draining = True
                self._advance()
        return self._found

    def calls(self) -> dict[str, int]:
        """Return how often both models called each module."""
        return dict(self._a.calls & self._b.calls)

    @property
    def missed(self) -> bool:
        """Whether the call that was to count did not come."""
        made = self.calls()
        return any(made.get(unit, 0) < count for unit, count in self.known.calls.items() if count > 1)

    def _run_first(self) -> None:
        with suppress(_Stopped):
            self._probe.forward(self._probe.model_a, self._frame)

    def _advance(self) -> None:
        """Let the first model go on to its next output; what it raises comes out here."""
        if not self._first.dead:
            _go_on(self._first)

    def on_first(self, unit: str, module: nn.Module, output: Any) -> None:
        """Keep an output of the first model, and wait for the second one where that is due."""
        if self._draining:
            raise _Stopped
        event = self._a.take(unit, module, output, self._probe.layout)
        if event is None:
            return
        self.known.largest_bytes = max(self.known.largest_bytes, size_bytes(self._a.outputs[event]))
        if self._a.held_bytes > self.known.largest_bytes // 4:
            _go_on(self._first.parent)
        self._a.copy_loose()

    def on_second(self, unit: str, module: nn.Module, output: Any) -> None:
        """Compare an output of the second model with the first one's, which goes on until it has that."""
        event = self._b.take(unit, module, output, self._probe.layout)
        if event is None:
            return
        mine = self._b.drop(event)
        while event not in self._a.outputs and not self._first.dead:
            self._advance()
        self.known.peak_bytes = max(self.known.peak_bytes, self._a.held_bytes + size_bytes(mine))
        if event in self._a.outputs:
            self._found[unit] = _compared(self._a.drop(event), mine, self._probe.estimator)


def _go_on(other: greenlet) -> None:
    """Let the other model run; modes that PyTorch keeps by thread are this model's own again afterwards."""
    grad, casts = torch.is_grad_enabled(), [(kind, torch.is_autocast_enabled(kind)) for kind in _DEVICES]
    try:
        other.switch()
    finally:
        torch.set_grad_enabled(grad)
        for kind, on in casts:
            torch.set_autocast_enabled(kind, on)


class _Stopped(Exception):  # noqa: N818 - no error: the second model is done, nobody waits for the rest of the first
    pass


def _compared(a: Any, b: Any, estimator: str) -> _Pair:
    if a is None or b is None or isinstance(a, SparseRows) is not isinstance(b, SparseRows):
        return _Pair(float("nan"), 0, 0)
    if isinstance(a, SparseRows):
        width = min(a.features.shape[1], b.features.shape[1])
        return _Pair(sparse_cka(a, b, estimator), min(a.volume, b.volume), width)
    return _Pair(cka(a, b, estimator), min(num_rows(a), num_rows(b)), min(a.shape[-1], b.shape[-1]))


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
