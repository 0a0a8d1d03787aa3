"""Read a published checkpoint; write weights of ours, and the account beside them."""

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fed_core.errors import DataError
from fed_core.wire.codec import open_tensors, write_tensors
from fed_core.wire.files import write_text
from fed_models.base import build
from fed_models.checkpoints import published_names
from fed_models.checkpoints.convert import Conversion, convert

#: Where training scripts put the state inside a checkpoint.
_NESTED = ("model", "state_dict", "net")


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a ``.safetensors`` file or a PyTorch checkpoint, by their published names.

    PyTorch files are read without running code from them; what needs code is refused.

    Raises:
        DataError: the file cannot be read, or holds no tensors.
    """
    if path.suffix == ".safetensors":
        return {name: torch.from_numpy(array.copy()) for name, array in open_tensors(path).items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's remarks on the pickle inside; what it refuses is told below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as err:
        raise DataError(f"there is no checkpoint {path}") from err
    except pickle.UnpicklingError as err:
        text = f"{path} holds more than tensors, which is not read for safety; save its state dict alone"
        raise DataError(text) from err
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as err:
        raise DataError(f"{path} is no PyTorch checkpoint: {' '.join(str(err).split())[:200]}") from err
    state = _state(content)
    if not state:
        raise DataError(f"{path} holds no tensors by name; expected a state dict, alone or under {', '.join(_NESTED)}")
    return state


def import_checkpoint(network: str, options: Mapping[str, Any], checkpoint: Path, out: Path) -> Conversion:
    """Convert a published checkpoint to a safetensors file of ours; the account goes to ``<out>.txt``.

    Args:
        network: registered name of the network.
        options: its options.
        checkpoint: published file.
        out: file to write.

    Raises:
        DataError: tensors of the network are missing; then only the account is written.
    """
    names = published_names(network)
    # Only names and shapes are needed: nothing is allocated.
    with torch.device("meta"):
        wanted = build(network, {**options, "weights": ""}).state_dict()
    result = convert(read_checkpoint(checkpoint), names, wanted)
    account = report_path(out)
    account.parent.mkdir(parents=True, exist_ok=True)
    write_text(account, "\n".join(map(str, result.keys)) + "\n")
    if result.missing:
        text = f"{checkpoint} lacks {len(result.missing)} of {len(wanted)} tensors of {network}"
        raise DataError(f"{text}, first {result.missing[0]!r}; no weights were written, see {account}")
    arrays = {name: tensor.contiguous().numpy() for name, tensor in result.tensors.items()}
    write_tensors(out, arrays, {"network": network})
    return result


def report_path(out: Path) -> Path:
    """Return where the account of a conversion to ``out`` lies."""
    return out.with_name(out.name + ".txt")


def _state(content: Any) -> dict[str, Tensor]:
    if not isinstance(content, Mapping):
        return {}
    for key in _NESTED:
        if isinstance(content.get(key), Mapping):
            return _state(content[key])
    return {str(name): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}
