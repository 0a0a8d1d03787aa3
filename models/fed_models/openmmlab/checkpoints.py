"""Checkpoints of mmdet3d, read without running code from them."""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import nn

from fed_core.errors import ConfigError
from fed_models.openmmlab.libraries import reason, silent

#: Old files lack the counters of batch normalisation; they matter to nothing here.
_COUNTER = "num_batches_tracked"
_STATISTICS = ("min", "max", "current", "mean")
_ADVICE = re.compile(r"\.?\s+(?:Please|Check)\s")


def load_checkpoint(detector: nn.Module, path: str) -> None:
    """Overwrite the weights of a detector with those of a file, whose tensors must be exactly its own.

    Args:
        detector: a detector of mmdet3d.
        path: file of ``torch.save``: a state dict, or a dict that holds one as ``state_dict``.
    """
    given = _read(path)
    wanted = detector.state_dict()
    for name, tensor in wanted.items():
        if name not in given and not name.endswith(_COUNTER):
            raise ConfigError(f"checkpoint {path} lacks tensor {name!r} of the config; give weights of the same config")
        if name in given and given[name].shape != tensor.shape:
            got, shape = tuple(given[name].shape), tuple(tensor.shape)
            raise ConfigError(
                f"checkpoint {path}: tensor {name!r} is {got}, the config makes it {shape}; "
                "give weights of the same config"
            )
    unknown = [name for name in given if name not in wanted]
    if unknown:
        text = f"checkpoint {path} holds {len(unknown)} tensor(s) that the config does not make, first {unknown[0]!r}"
        raise ConfigError(f"{text}; give weights of the same config")
    detector.load_state_dict(dict(given), strict=False)


def _read(path: str) -> Mapping[str, torch.Tensor]:
    if not Path(path).is_file():
        raise ConfigError(f"checkpoint {path} does not exist; give the path of a checkpoint of mmdet3d")
    try:
        with silent(), torch.serialization.safe_globals(_harmless()):
            tree = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, UnpicklingError, EOFError, OSError, ValueError, KeyError) as err:
        # PyTorch wraps what it says in advice to read the file unsafely.
        said = _ADVICE.split(str(err).rpartition("WeightsUnpickler error: ")[2])[0]
        raise ConfigError(f"checkpoint {path} cannot be read safely: {reason(type(err)(said))}") from err
    tree = tree.get("state_dict", tree) if isinstance(tree, dict) else tree
    tensors = isinstance(tree, dict) and all(isinstance(value, torch.Tensor) for value in tree.values())
    if not tensors or not tree:
        raise ConfigError(f"checkpoint {path} holds no weights; give a file with a 'state_dict'")
    return {str(name): tensor for name, tensor in tree.items()}


def _harmless() -> list[Any]:
    """Return what mmengine's runner saves besides tensors: its records of losses and their arrays."""
    history = import_module("mmengine.logging.history_buffer").HistoryBuffer
    core = import_module("numpy.core.multiarray")
    kinds = [type(np.dtype(name)) for name in ("float64", "float32", "int64", "int32", "bool")]

    def statistic(owner: Any, name: Any) -> Any:
        """Stand for ``getattr``, by which a record names how it is summed up."""
        if owner is not history or name not in _STATISTICS:
            raise UnpicklingError(f"it asks for {name!r} of {owner!r}")
        return getattr(owner, name)

    return [history, core._reconstruct, core.scalar, np.ndarray, np.dtype, *kinds, (statistic, "builtins.getattr")]
