"""Networks as files for other programs: written, opened again, and compared with PyTorch before anyone gets them."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fed_core.errors import ConfigError, FedError, StoreError
from fed_core.types import Array
from fed_core.wire.codec import open_tensors, write_tensors
from fed_core.wire.files import hash_file, store_error
from fed_models.base import load_arrays, state_arrays
from fed_models.ports import Deployed, Port, Tensors
from fed_models.runtimes import import_onnx, line_of, open_onnx, quiet, to_onnx

TORCHSCRIPT, ONNX, SAFETENSORS = FORMATS = ("torchscript", "onnx", "safetensors")
#: Name of each format's file.
FILES = {TORCHSCRIPT: "model.pt", ONNX: "model.onnx", SAFETENSORS: "model.safetensors"}
#: Most that an output may differ by, as a share of its largest value: float32 summed in another order.
TOLERANCE = 1e-4
#: Outputs of zeros alone are divided by this.
_SMALLEST = float(np.finfo(np.float32).tiny)


class ExportError(FedError):
    """A network cannot be written in a format, or what was written gives something else."""


@dataclass(frozen=True)
class Exported:
    """One written file.

    Attributes:
        format: of the file.
        file: its name.
        size_bytes: its size.
        digest: SHA-256 (hex) of its bytes.
        inputs: what goes in; none of safetensors, which hold weights alone.
        outputs: what comes out.
        difference: largest difference from PyTorch's outputs, in their unit.
        relative: largest difference as a share of the output's largest value.
        opset: of ONNX; 0 elsewhere.
    """

    format: str
    file: str
    size_bytes: int
    digest: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    difference: float
    relative: float
    opset: int = 0


def check_format(name: str) -> None:
    """Refuse a format that is unknown, or whose packages are not installed."""
    if name not in FORMATS:
        raise ConfigError(f"no format is called {name!r}; known: {', '.join(FORMATS)}")
    if name == ONNX:
        import_onnx("format onnx")


def write_weights(network: nn.Module, fresh: nn.Module, folder: Path) -> Exported:
    """Write the tensors of a network as a safetensors file, and compare them bit by bit.

    Args:
        network: whose tensors they are.
        fresh: another of the same kind, which the file is read into.
        folder: where the file goes.
    """
    path = folder / FILES[SAFETENSORS]
    arrays = state_arrays(network)
    write_tensors(path, arrays)
    load_arrays(fresh, open_tensors(path))
    changed = [name for name, array in state_arrays(fresh).items() if array.tobytes() != arrays[name].tobytes()]
    if changed:
        raise ExportError(f"{path.name} holds another {changed[0]!r} than the network; nothing was exported")
    return _exported(SAFETENSORS, path, (), (), (0.0, 0.0))


def write_graph(deployed: Deployed, name: str, inputs: Tensors, folder: Path) -> Exported:
    """Write a network with its computation, open the file and compare it with PyTorch.

    Sizes that may change are tried with other sizes; where that fails, the file is for one size alone.

    Args:
        deployed: the network.
        name: of the format, "torchscript" or "onnx".
        inputs: what it is looked at with, and compared on.
        folder: where the file goes.

    Raises:
        ExportError: it cannot be written, or gives something else; one line that says so.
    """
    path, network = folder / FILES[name], type(deployed.network).__name__
    hint = f"--format {SAFETENSORS} keeps its weights for PyTorch"
    try:
        try:
            return _written(deployed, name, (inputs, deployed.smaller(inputs)), path)
        except Exception:  # exporters and runtimes have errors of many kinds; the next try tells its own
            return _written(deployed, name, (deployed.at_fixed_size(inputs),), path)
    except (ExportError, StoreError) as err:
        raise type(err)(f"{network}: {err}; {hint}") from err
    except Exception as err:
        text = f"{network} cannot be written as {name} ({type(err).__name__}: {line_of(err)})"
        raise ExportError(f"{text}; {hint}") from err


def _written(deployed: Deployed, name: str, samples: tuple[Tensors, ...], path: Path) -> Exported:
    """Write for the first of the samples, and compare on all; with one alone all sizes are fixed."""
    first, fixed = samples[0], len(samples) == 1
    with torch.inference_mode():
        wanted = [deployed(*sample) for sample in samples]
    data = _script(deployed, first) if name == TORCHSCRIPT else _onnx(deployed, first, fixed=fixed)
    try:
        path.write_bytes(data)
    except OSError as err:
        raise store_error(err, path) from err
    run = _open_script(path) if name == TORCHSCRIPT else _open_onnx(path)
    found = [compare(deployed.outputs, truth, run(sample)) for truth, sample in zip(wanted, samples, strict=True)]
    parity = (max(pair[0] for pair in found), max(pair[1] for pair in found))
    inputs, outputs = deployed.inputs, deployed.outputs
    if fixed:
        inputs = tuple(port.fixed(tensor) for port, tensor in zip(inputs, first, strict=True))
        outputs = tuple(port.fixed(tensor) for port, tensor in zip(outputs, wanted[0], strict=True))
    return _exported(name, path, inputs, outputs, parity, opset=_opset(data) if name == ONNX else 0)


def compare(outputs: tuple[Port, ...], wanted: Tensors, found: list[Array]) -> tuple[float, float]:
    """Return the largest difference of outputs, and the largest as a share of an output's largest value.

    Raises:
        ExportError: that share is above :data:`TOLERANCE`, or shapes differ.
    """
    largest = largest_share = 0.0
    for port, tensor, array in zip(outputs, wanted, found, strict=True):
        truth = tensor.numpy()
        if truth.shape != array.shape:
            raise ExportError(f"the written model gives {port.name} {array.shape} where PyTorch gives {truth.shape}")
        difference = float(np.abs(truth.astype(np.float64) - array).max(initial=0.0))
        share = difference / max(float(np.abs(truth).max(initial=0.0)), _SMALLEST)
        if not share <= TOLERANCE:  # NaN, too
            told = f"the written model gives another {port.name} than PyTorch: {share:.2g} of its largest value away"
            raise ExportError(f"{told}, at most {TOLERANCE:g} is allowed")
        largest, largest_share = max(largest, difference), max(largest_share, share)
    return largest, largest_share


def _script(deployed: Deployed, inputs: Tensors) -> bytes:
    target = io.BytesIO()
    with torch.no_grad(), quiet():
        torch.jit.save(torch.jit.trace(deployed, inputs, check_trace=False), target)  # type: ignore[no-untyped-call]
    return target.getvalue()


def _open_script(path: Path) -> Callable[[Tensors], list[Array]]:
    with quiet():
        module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]

    def run(inputs: Tensors) -> list[Array]:
        with torch.no_grad():
            return [tensor.numpy() for tensor in module(*inputs)]

    return run


def _onnx(deployed: Deployed, inputs: Tensors, *, fixed: bool) -> bytes:
    options: dict[str, Any] = {
        "input_names": [port.name for port in deployed.inputs],
        "output_names": [port.name for port in deployed.outputs],
    }
    if not fixed:
        options["dynamic_shapes"] = (tuple(map(_changing, deployed.inputs)),)
    return to_onnx(deployed, inputs, **options)


def _changing(port: Port) -> Mapping[int, Any]:
    """Return the sizes of an input that may change, by axis."""
    return {axis: torch.export.Dim(size) for axis, size in enumerate(port.shape) if isinstance(size, str)}


def _open_onnx(path: Path) -> Callable[[Tensors], list[Array]]:
    return partial(_run_onnx, open_onnx(path.read_bytes(), threads=torch.get_num_threads()))


def _run_onnx(session: Any, inputs: Tensors) -> list[Array]:
    names = [entry.name for entry in session.get_inputs()]
    fed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    return [np.asarray(array) for array in session.run(None, fed)]


def _opset(data: bytes) -> int:
    import onnx

    model = onnx.load_from_string(data)
    return next(int(entry.version) for entry in model.opset_import if not entry.domain)


def _exported(
    name: str,
    path: Path,
    inputs: tuple[Port, ...],
    outputs: tuple[Port, ...],
    parity: tuple[float, float],
    *,
    opset: int = 0,
) -> Exported:
    blob = hash_file(path)
    return Exported(name, path.name, blob.size_bytes, blob.digest, inputs, outputs, *parity, opset)
