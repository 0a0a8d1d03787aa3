"""What the robot halves allocate beside the model: counted in copies of its parameters (feddwa spec 2.9)."""

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.strategies.base import LocalState, make_strategy
from fed_core.training.local import TrainConfig, train
from fed_core.types import Array, Memory
from tests.core.strategies.quadratics import OneSample, Quadratic

TENSORS, SHAPE = 6, (512, 2048)
COPY_BYTES = TENSORS * SHAPE[0] * SHAPE[1] * 4
CONFIG = TrainConfig(lr=1e-3, batch_size=1, local_epochs=3, augment=False, device="cpu")
#: glibc's parameter: blocks from this size on are given back to the system as soon as they are free.
M_MMAP_THRESHOLD, LARGE_BYTES = -3, 2**20
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Output(NamedTuple):
    logits: Tensor


class Wide(nn.Module):
    """Next to nothing but parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ParameterList(nn.Parameter(torch.full(SHAPE, 0.01 * k)) for k in range(TENSORS))

    def forward(self) -> Output:
        row = torch.stack([layer[0, :4].sum() for layer in self.layers])
        return Output(row.view(1, 2, 1, -1))


class Rows(Quadratic):
    def forward(self, network: Any, batch: Any) -> Any:
        return network()

    def loss(self, network: Any, batch: Any, outputs: Any) -> Tensor:
        return (outputs.logits - 1.0).square().mean()


def resident_bytes(entry: str) -> int:
    """Return VmRSS (memory now) or VmHWM (most since it was cleared)."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(entry + ":"))
    return int(line.split()[1]) * 1024


def peak_copies(work: Callable[[], Any]) -> float:
    """Return the most memory that ``work`` takes on top of what is there, in copies of the parameters."""
    gc.collect()
    CLEAR.write_text("5")  # forgets the peak so far
    before = resident_bytes("VmRSS")
    work()
    return (resident_bytes("VmHWM") - before) / COPY_BYTES


def copies_of_round(name: str, options: Mapping[str, Any]) -> float:
    """Return the peak of a second round, whose controls and memories are there (from files, as a rule)."""
    network, task = Wide(), Rows(1.0, (0.0, 0.0))
    names = [name for name, _ in network.named_parameters()]

    def zeros(prefix: str = "") -> dict[str, Array]:
        return {prefix + name: np.full(SHAPE, 1e-3, np.float32) for name in names}

    state = LocalState(
        model=network,
        start={name: tensor.detach().clone() for name, tensor in network.state_dict().items()},
        memory=Memory({**zeros("before/"), **zeros("after/")}, {"round": 1}),
        extras={"control": zeros()},
        values={"round": 2, "counted": 1},
        num_samples=1,
        lr=1e-3,
        forward=task.forward,
        batches=lambda count: iter([torch.zeros(1)]),
    )
    rule = make_strategy(name, options).local_rule()
    return peak_copies(lambda: train(task, OneSample(), CONFIG, rule, state, seed=1))


@pytest.fixture
def countable() -> Iterator[None]:
    """Make the system's count of this process that of its live tensors; skip where that cannot be."""
    try:
        CLEAR.write_text("5")
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
    except (OSError, AttributeError) as err:
        pytest.skip(f"the memory of this process cannot be counted here: {err}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("countable")
@pytest.mark.parametrize("options", [{"kld_source": "running"}, {"cv_space": "update", "opt_state": "reset"}])
def test_feddwa_with_daloss_takes_four_copies_of_the_parameters_at_most(options: dict[str, Any]) -> None:
    """One is the global model, which FedAvg's round starts from, too; both controls come from files.

    What is left are the correction and the sum of gradients, and a tensor at a time for the norm of the walk.
    """
    copies_of_round("fedavg", {})  # whatever is allocated once
    plain = copies_of_round("fedavg", {})
    extra = copies_of_round("daloss", {"inner": "feddwa", "inner_options": options}) - plain

    assert plain > 2.9  # gradients and both moments: the count counts
    assert 1.9 < extra < 2.6
    assert 1 + extra <= 4
