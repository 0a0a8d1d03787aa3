"""What every network has: a name, options, and a state that travels as NumPy arrays."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from fed_core.config import from_tree
from fed_core.errors import Refusal, WireError
from fed_core.registry import Registry
from fed_core.types import Array, ModelSignature, Tensors, TensorSpec


class NetworkConfig(ABC):
    """Base of the frozen dataclasses that hold a network's options; their fields are made with ``option``."""

    @abstractmethod
    def build(self) -> nn.Module:
        """Return a new network; its random weights come from PyTorch's global generator."""


#: Parts that a network may name, each by a method ``<part>_modules()`` that returns the paths of its modules.
PARTS = ("head", "camera", "bev", "attention", "image_backbone", "image_neck")

networks: Registry[type[NetworkConfig]] = Registry("network", "fed_models")


def build(name: str, options: Mapping[str, Any]) -> nn.Module:
    """Return a new network.

    Weights are drawn from PyTorch's global generator; to repeat them, call this under ``torch.random.fork_rng()``
    after ``torch.manual_seed(seed)``.

    Args:
        name: registered name ("adabins_s").
        options: its options; an unknown one raises ConfigError.
    """
    return from_tree(networks.get(name), dict(options), f"network {name}").build()


def signature(network: nn.Module, name: str) -> ModelSignature:
    """Return what an update of this network must look like, in state-dict order.

    Args:
        network: a built network.
        name: its registered name.
    """
    modules = dict(network.named_modules())
    trainable = {key for key, _ in network.named_parameters(remove_duplicate=False)}
    specs = []
    for key, tensor in network.state_dict().items():
        owner = key.rpartition(".")[0]
        kind = type(modules[owner]).__name__
        specs.append(TensorSpec(key, tuple(tensor.shape), _dtype(tensor), key in trainable, owner, kind))
    kinds = {path: type(module).__name__ for path, module in modules.items() if path}
    return ModelSignature(name, tuple(specs), _parts(network, [spec.name for spec in specs]), kinds)


def _parts(network: nn.Module, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tensors below the modules of every part that the network names."""
    parts = {}
    for part in PARTS:
        if hasattr(network, f"{part}_modules"):
            stems = tuple(f"{path}." for path in getattr(network, f"{part}_modules")())
            parts[part] = tuple(name for name in names if name.startswith(stems))
    return parts


def state_arrays(network: nn.Module) -> dict[str, Array]:
    """Return a copy of all parameters and buffers, in state-dict order."""
    return {key: tensor.detach().cpu().numpy().copy() for key, tensor in network.state_dict().items()}


def load_arrays(network: nn.Module, tensors: Tensors) -> None:
    """Overwrite all parameters and buffers; on an error the network keeps what it had.

    Args:
        network: a built network.
        tensors: exactly its tensors, by name.

    Raises:
        WireError: WRONG_TENSORS, a tensor is missing, unknown, or of another shape or dtype.
    """
    state = network.state_dict()
    _check_names(state, tensors)
    fresh = {key: _fitting(key, np.asarray(tensors[key]), target) for key, target in state.items()}
    with torch.no_grad():
        for key, target in state.items():
            target.copy_(fresh[key])


def _check_names(state: Mapping[str, torch.Tensor], tensors: Tensors) -> None:
    missing, unknown = [k for k in state if k not in tensors], [k for k in tensors if k not in state]
    for word, names in (("lack", missing), ("hold unknown", unknown)):
        if names:
            text = f"the weights {word} {len(names)} tensor(s), first {names[0]!r}; give weights of this network"
            raise WireError(text, Refusal.WRONG_TENSORS)


def _fitting(key: str, array: Array, target: torch.Tensor) -> torch.Tensor:
    if array.shape != tuple(target.shape) or array.dtype.name != _dtype(target):
        got, wanted = f"{array.dtype.name} {array.shape}", f"{_dtype(target)} {tuple(target.shape)}"
        raise WireError(f"tensor {key!r} is {got}; this network needs {wanted}", Refusal.WRONG_TENSORS)
    return torch.tensor(array)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
