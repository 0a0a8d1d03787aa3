"""Arithmetic of a step: mixed precision learns, and a step that overflows does not count."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fed_core.errors import TrainingError
from fed_core.strategies.base import LocalRule, LocalState
from fed_core.training.options import TrainConfig
from fed_core.training.precision import Precision, channels_last, make_precision
from tests.core.training.test_optimizer import PLAIN, run
from tests.core.training.tiny import state_arrays, tiny

CPU = torch.device("cpu")


def test_bfloat16_runs_the_network_in_halves_and_keeps_the_weights_whole() -> None:
    seen: list[tuple[torch.dtype, torch.dtype]] = []

    class Watching(LocalRule):
        def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
            seen.append((state.model.head(torch.zeros(1, 8, 2, 2)).dtype, next(state.model.parameters()).dtype))
            return task_loss

    network, exact = tiny(), tiny()
    config = replace(PLAIN, precision="bf16", local_epochs=30)
    first = run(tiny(), replace(config, local_epochs=1))
    last = run(network, config, rule=Watching())
    run(exact, replace(config, precision="fp32"))
    assert set(seen) == {(torch.bfloat16, torch.float32)}
    assert last.loss < 0.6 * first.loss
    assert not np.array_equal(state_arrays(network)["head.weight"], state_arrays(exact)["head.weight"])


def test_float16_needs_a_gpu() -> None:
    with pytest.raises(TrainingError) as caught:
        run(tiny(), replace(PLAIN, precision="fp16"))
    assert str(caught.value) == (
        "train.precision is fp16, but training runs on the CPU, which is no GPU; set precision to bf16 or fp32"
    )
    assert make_precision("fp32", CPU, {}).state() == {}


def test_gradients_are_unscaled_before_anybody_sees_them() -> None:
    weight = nn.Parameter(torch.tensor([2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    precision = Precision("fp16", CPU, {})
    precision.backward((weight**2).sum())
    assert precision.unscale(optimizer)
    assert weight.grad is not None and weight.grad.item() == 4.0
    precision.step(optimizer)
    assert weight.item() == 0.0


def test_a_step_that_overflows_leaves_the_weights_and_halves_the_scale() -> None:
    weight = nn.Parameter(torch.tensor([2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    precision = Precision("fp16", CPU, {"scaler/scale": np.array(2.0**127), "scaler/good_steps": np.array(5)})
    precision.backward((100.0 * weight).sum())
    assert not precision.unscale(optimizer)
    precision.step(optimizer)
    assert weight.item() == 2.0
    after = precision.state()
    assert float(after["scaler/scale"]) == 2.0**126 and int(after["scaler/good_steps"]) == 0
    again = Precision("fp16", CPU, after)
    assert again.state() == after


@pytest.mark.gpu
def test_float16_learns_on_a_gpu() -> None:
    network = tiny().to("cuda")
    config = TrainConfig(lr=5e-3, batch_size=4, augment=False, precision="fp16", optimizer_state="keep")
    first = run(tiny().to("cuda"), config)
    last = run(network, replace(config, local_epochs=30))
    assert last.loss < 0.6 * first.loss
    assert float(last.optimizer["scaler/scale"]) > 0


def test_channels_last_changes_the_layout_for_a_while_and_nothing_else() -> None:
    network, plain = tiny().eval(), tiny().eval()
    weight, pictures = network.head.weight, torch.rand(2, 3, 16, 24)
    with channels_last(network, wanted=True):
        assert network.head.weight is weight and weight.shape == (1, 8, 3, 3)
        assert network.encoder[0].weight.is_contiguous(memory_format=torch.channels_last)
        inner = network.encoder(pictures)
        assert inner.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(network(pictures).depth, plain(pictures).depth)
        network(pictures).depth.sum().backward()
        plain(pictures).depth.sum().backward()
        torch.testing.assert_close(network.head.weight.grad, plain.head.weight.grad)
    for name, tensor in network.state_dict().items():
        assert tensor.is_contiguous() and torch.equal(tensor, plain.state_dict()[name])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_the_cpu_the_layout_option_changes_no_bit(precision: str) -> None:
    on, off = tiny(), tiny()
    run(on, replace(PLAIN, precision=precision, channels_last=True))
    run(off, replace(PLAIN, precision=precision, channels_last=False))
    assert all(torch.equal(tensor, off.state_dict()[name]) for name, tensor in on.state_dict().items())


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [("bf16", "cuda", True), ("bf16", "cpu", False), ("fp32", "cuda", False), ("fp32", "cpu", False)],
)
def test_tensor_cores_work_in_half_precision_on_a_gpu(name: str, device: str, expected: bool) -> None:
    assert Precision(name, torch.device(device), {}).on_tensor_cores is expected
