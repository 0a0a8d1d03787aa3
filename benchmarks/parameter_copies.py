"""Counts what a robot half holds beside the model, in copies of its parameters (feddwa spec 2.9).

The network is next to nothing but parameters, so that the peak of a round's memory is that of what is kept of them.
"""

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fed_core.strategies.base import LocalState, make_strategy
from fed_core.tasks.base import Dataset, Task
from fed_core.training.local import train
from fed_core.training.options import TrainConfig
from fed_core.types import Array, Memory

TENSORS, SHAPE = 6, (512, 2048)
COPY_BYTES = TENSORS * SHAPE[0] * SHAPE[1] * 4
#: glibc's parameter: blocks from this size on go back to the system as soon as they are free.
M_MMAP_THRESHOLD, LARGE_BYTES = -3, 2**20
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Output(NamedTuple):
    """Class logits (1, 2, 1, N) float32."""

    logits: Tensor


class Wide(nn.Module):
    """A few large tensors of which the forward looks at a corner."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ParameterList(nn.Parameter(torch.full(SHAPE, 0.01 * k)) for k in range(TENSORS))

    def forward(self) -> Output:
        """Return logits that follow every parameter."""
        return Output(torch.stack([layer[0, :4].sum() for layer in self.layers]).view(1, 2, 1, -1))


class OneSample(Dataset):
    """A sample without content."""

    size_bytes = 0

    def __len__(self) -> int:
        """Return 1."""
        return 1


class Corners(Task):
    """Pulls the corners of the tensors to 1."""

    def prepare(self, samples: Any, network: nn.Module) -> Dataset:
        """Return the one sample."""
        return OneSample()

    def batch(self, dataset: Any, indexes: Sequence[int], rng: Any = None) -> Tensor:
        """Return nothing."""
        return torch.zeros(1)

    def move(self, batch: Tensor, device: Any) -> Tensor:
        """Return the batch."""
        return batch

    def forward(self, network: nn.Module, batch: Tensor) -> Any:
        """Return the logits."""
        return network()

    def loss(self, network: nn.Module, batch: Tensor, outputs: Any) -> Tensor:
        """Return the mean squared distance."""
        distance: Tensor = (outputs.logits - 1.0).square().mean()
        return distance

    def predict(self, network: nn.Module, inputs: Any) -> Array:
        """There is nothing to predict."""
        raise NotImplementedError

    def metrics(self, prediction: Any, sample: Any, **options: Any) -> None:
        """There is nothing to score."""


def make_countable() -> None:
    """Let the system's count of this process follow its live tensors; OSError or AttributeError where it cannot."""
    CLEAR.write_text("5")
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def peak_copies(work: Callable[[], Any]) -> float:
    """Return the most memory that ``work`` takes on top of what is there, in copies of the parameters."""
    gc.collect()
    CLEAR.write_text("5")  # forgets the peak so far
    before = _status_bytes("VmRSS")
    work()
    return (_status_bytes("VmHWM") - before) / COPY_BYTES


def copies_of_round(name: str, options: Mapping[str, Any]) -> float:
    """Return the peak of a second round, with what it starts from already there.

    That is the model, the global model (which is what training starts from), and both controls and the last ones of the
    robot, which lie in files as a rule.
    """
    network, task = Wide(), Corners()
    state = LocalState(
        model=network,
        start={name: tensor.detach().clone() for name, tensor in network.state_dict().items()},
        memory=Memory(dict(_controls(network, "before/")) | dict(_controls(network, "after/")), {"round": 1}),
        extras={"control": dict(_controls(network))},
        values={"round": 2, "counted": 1},
        num_samples=1,
        lr=1e-3,
        forward=task.forward,
        batches=lambda count: iter([torch.zeros(1)]),
    )
    config = TrainConfig(lr=1e-3, batch_size=1, local_epochs=3, augment=False, device="cpu")
    rule = make_strategy(name, options).local_rule()
    return peak_copies(lambda: train(task, OneSample(), config, rule, state, seed=1))


def extra_copies(options: Mapping[str, Any]) -> float:
    """Return the copies that a round of FedDWA with DALoss holds beside those of FedAvg, the global model included.

    Args:
        options: of FedDWA.
    """
    copies_of_round("fedavg", {})  # whatever is allocated once
    plain = copies_of_round("fedavg", {})
    if plain < 2.9:
        raise RuntimeError(f"gradients and both moments are 3 copies, but {plain:.2f} were counted")
    return 1.0 + copies_of_round("daloss", {"inner": "feddwa", "inner_options": options}) - plain


def _controls(network: nn.Module, prefix: str = "") -> Iterator[tuple[str, Array]]:
    return ((prefix + name, np.full(SHAPE, 1e-3, np.float32)) for name, _ in network.named_parameters())


def _status_bytes(entry: str) -> int:
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(entry + ":"))
    return int(line.split()[1]) * 1024
