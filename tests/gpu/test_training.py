"""Training on a GPU: channels-last agrees with the plain layout, a limit of memory halves the batch."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from fed_core.strategies.base import LocalRule
from fed_core.tasks.depth.task import DepthTask
from fed_core.training.local import TrainOutcome, train
from fed_core.training.options import TrainConfig
from fed_nodes.training.limits import limit_gpu_memory
from tests.core.training.test_local import prepared, state_of
from tests.core.training.tiny import TinyDepth, tiny

pytestmark = pytest.mark.gpu

HALF = TrainConfig(lr=5e-3, batch_size=8, augment=False, precision="bf16", device="cuda", local_epochs=4)


def run(network: TinyDepth, config: TrainConfig, count: int = 16) -> TrainOutcome:
    return train(DepthTask(), prepared(count, network), config, LocalRule(), state_of(network, config.lr), seed=1)


def test_channels_last_learns_as_the_plain_layout_does() -> None:
    turned, plain = tiny().to("cuda"), tiny().to("cuda")

    first = run(turned, HALF)
    second = run(plain, replace(HALF, channels_last=False))

    assert first.loss == pytest.approx(second.loss, rel=0.05)
    assert all(tensor.is_contiguous() for tensor in turned.state_dict().values())


@pytest.fixture
def small_gpu() -> Iterator[None]:
    """About 400 MB of the GPU for this process."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    limit_gpu_memory(400e6 / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.usefixtures("small_gpu")
def test_a_gpu_that_is_too_small_halves_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    network = tiny(height=512, width=512).to("cuda")
    with caplog.at_level(logging.WARNING):
        outcome = run(network, replace(HALF, precision="fp32", batch_size=32, max_steps=1), count=32)

    assert outcome.steps == 1
    assert [r.getMessage() for r in caplog.records if r.getMessage().startswith("out of memory with 32 samples")]
