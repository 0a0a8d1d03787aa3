"""A second network without memory of its own: its weights are read where they lie, in a mapped file."""

import copy
import warnings
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from fed_core.types import Array, Tensors
from fed_core.wire.codec import TensorFile

#: Bytes of weights that may stay in memory behind the module that runs.
KEPT = 256 * 1024


def mapped_copy(model: nn.Module, tensors: Tensors) -> nn.Module:
    """Return a copy of a network with other floating tensors, for forward passes in eval mode.

    Nothing is copied where type and device agree. What ``tensors`` of a file were read is given back as the forward
    pass goes on, so of the file at most one module's weights and :data:`KEPT` bytes lie in memory at a time. Integers
    and what no state dict holds are the model's own. Nobody may write to the copy.

    Args:
        model: the network.
        tensors: its floating tensors by state-dict name.

    Raises:
        KeyError: one of them is missing.
    """
    named = set(model.state_dict())
    twin = copy.deepcopy(model, {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())})
    release = _Release(tensors) if isinstance(tensors, TensorFile) else None
    for path, module in twin.named_modules():
        read = 0
        for held in (module._parameters, module._buffers):
            for key, old in held.items():
                name = f"{path}.{key}" if path else key
                if old is not None and old.is_floating_point() and name in named:
                    new = _as_tensor(tensors[name], old)
                    held[key] = nn.Parameter(new, requires_grad=False) if isinstance(old, nn.Parameter) else new
                    read += new.nbytes
        if release is not None and read:
            module.register_forward_hook(partial(release.add, read))
    return twin.eval()


class _Release:
    """Counts what was read of a file, and gives its pages back."""

    def __init__(self, file: TensorFile) -> None:
        self._file, self._read = file, 0

    def add(self, count: int, *_: object) -> None:
        """Count the weights of a module that ran, in bytes."""
        self._read += count
        if self._read >= KEPT:
            self._file.release()
            self._read = 0

    def __deepcopy__(self, memo: object) -> "_Release":
        return self  # a mapped file has no copy


def _as_tensor(array: Array, like: Tensor) -> Tensor:
    with warnings.catch_warnings():  # PyTorch warns of memory that nobody may write to
        warnings.simplefilter("ignore", UserWarning)
        found = torch.from_numpy(np.asarray(array))
    return found.to(like.device, like.dtype)
