"""What runs a network that serves: PyTorch as it is, PyTorch's compiler, or ONNX Runtime.

The compiler and the export look at one prediction; after that, a call stands in for ``network(...)`` with the same
arguments and results. Whatever cannot be made raises :class:`RuntimeUnavailableError`, and the network itself goes on.
"""

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError, FedError
from fed_core.extras import needs

#: Names of the runtimes.
TORCH, COMPILE, ONNX = RUNTIMES = ("torch", "compile", "onnx")
#: What exports a network warns through these.
_LOGGERS = ("torch", "torch.onnx", "torch.fx", "torch.export", "torch._dynamo", "onnxscript", "onnx_ir")


class RuntimeUnavailableError(FedError):
    """A network cannot run this way here; the message says why."""


class Runner:
    """Stands in for a network: another thing runs it, all else is the network's own.

    Args:
        network: the network, in eval mode.
        call: takes the arguments of ``forward`` and returns its results.
    """

    def __init__(self, network: nn.Module, call: Callable[..., Any]) -> None:
        self._network, self._call = network, call

    def __call__(self, *args: Any) -> Any:
        """Run the network."""
        return self._call(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def make_runner(network: nn.Module, runtime: str, predict: Callable[[Any], Any]) -> Any:
    """Return what runs a network in a task's prediction.

    Args:
        network: the network, on the CPU, in eval mode.
        runtime: one of :data:`RUNTIMES`.
        predict: makes one typical prediction with what it is given in place of the network.

    Raises:
        RuntimeUnavailableError: the network cannot run so; one line that says why.
        ConfigError: no runtime is called so.
    """
    if runtime == TORCH:
        return network
    if runtime not in RUNTIMES:
        raise ConfigError(f"no runtime is called {runtime!r}; known: {', '.join(RUNTIMES)}")
    name = type(network).__name__
    try:
        runner = _compiled(network) if runtime == COMPILE else _exported(network, _arguments(network, predict))
        predict(runner)  # the compiler works here, and what was exported is tried
    except FedError:
        raise
    except Exception as err:  # compiler, exporter and runtime have errors of many kinds
        text = f"{name} cannot run with runtime {runtime}; torch runs it instead"
        raise RuntimeUnavailableError(f"{text} ({type(err).__name__}: {line_of(err)})") from err
    return runner


def line_of(err: Exception) -> str:
    """Return the start of an error's text as one line without colours; exporters write pages."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(err)).split())[:200]


def _compiled(network: nn.Module) -> Runner:
    return Runner(network, torch.compile(network))


def _arguments(network: nn.Module, predict: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the arguments that a prediction calls the network with."""
    seen: list[tuple[Any, ...]] = []

    def look(*args: Any) -> Any:
        seen.append(args)
        return network(*args)

    predict(Runner(network, look))
    return seen[-1]


class _Flat(nn.Module):
    """A network from tensors to tensors: what else its arguments and results hold stays as it was."""

    def __init__(self, network: nn.Module, args: tuple[Any, ...]) -> None:
        super().__init__()
        self.network = network
        self._args = args
        self.results: Any = None

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        self.results = self.network(*_filled(self._args, list(tensors)))
        return tuple(_tensors(self.results))


def _exported(network: nn.Module, args: tuple[Any, ...]) -> Runner:
    """Return a network that ONNX Runtime runs; the sizes of all tensors are those of the arguments."""
    flat, inputs = _Flat(network, args).eval(), tuple(_tensors(args))
    inputs = tuple(tensor.detach().clone() for tensor in inputs)
    with torch.no_grad():
        flat(*inputs)
    results = flat.results  # of what kind they are
    session = open_onnx(to_onnx(flat, inputs), threads=torch.get_num_threads())
    names, shapes = [entry.name for entry in session.get_inputs()], [tensor.shape for tensor in inputs]
    if len(names) != len(inputs):
        raise RuntimeUnavailableError(f"the exported network has {len(names)} of {len(inputs)} inputs")

    def call(*given: Any) -> Any:
        tensors = list(_tensors(given))
        if [tensor.shape for tensor in tensors] != shapes:
            return network(*given)
        fed = {name: tensor.detach().cpu().numpy() for name, tensor in zip(names, tensors, strict=True)}
        return _filled(results, [torch.from_numpy(np.asarray(array)) for array in session.run(None, fed)])

    return Runner(network, call)


def to_onnx(module: nn.Module, inputs: tuple[Tensor, ...], **options: Any) -> bytes:
    """Return a module from tensors to tensors as an ONNX model.

    Args:
        module: in eval mode.
        inputs: what it is looked at with.
        **options: of ``torch.onnx.export``: names of inputs and outputs, and which sizes may change.

    Raises:
        RuntimeUnavailableError: the packages for it are not installed; what the exporter raises goes through.
    """
    import_onnx()
    with torch.no_grad(), quiet():
        exported: Any = torch.onnx.export(module, inputs, dynamo=True, verbose=False, **options)
    found: bytes = exported.model_proto.SerializeToString()
    return found


def open_onnx(model: bytes, threads: int = 1) -> Any:
    """Return a session of ONNX Runtime on the CPU."""
    onnxruntime = import_onnx()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def import_onnx(what: str = "runtime onnx") -> Any:
    """Return the module ``onnxruntime``; a package that is not installed is an error that tells ``what`` needs it."""
    with needs("onnx", f"{what} needs the packages onnx, onnxscript and onnxruntime", RuntimeUnavailableError):
        import_module("onnxscript")  # the exporter needs it
        return import_module("onnxruntime")


def _tensors(tree: Any) -> list[Tensor]:
    """Return the tensors of nested tuples, lists and dictionaries, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [tensor for part in tree for tensor in _tensors(part)] if isinstance(tree, (tuple, list)) else []


def _filled(tree: Any, tensors: list[Tensor]) -> Any:
    """Return ``tree`` with other tensors, which are taken from the front of a list."""
    if isinstance(tree, Tensor):
        return tensors.pop(0)
    if isinstance(tree, dict):
        return {key: _filled(part, tensors) for key, part in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_filled(part, tensors) for part in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(_filled(part, tensors) for part in tree)
    return tree


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings of an exporter out of the node's output, which other nodes of the process may write to.

    So standard output and standard error stay as they are: the graph that the exporter prints where it fails is seen.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
