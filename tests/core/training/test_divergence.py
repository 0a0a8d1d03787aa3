"""KL divergence of two networks' predictions (feddwa spec 2.2)."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.errors import TrainingError
from fed_core.strategies.base import LocalState
from fed_core.training.divergence import (
    Divergence,
    Measure,
    class_logits,
    frozen_copy,
    kl_divergence,
    shared_divergence,
)
from fed_core.types import Memory


def pixels(*odds: float) -> Tensor:
    """Logits (1, 2, 1, N) whose second class has these probabilities."""
    p = torch.tensor(odds)
    return torch.stack([torch.log(1 - p), torch.log(p)])[None, :, None, :]


def noisy(scale: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    base = 1.5 * torch.randn(1, 2, 128, 128, generator=rng)
    return base, base + scale * torch.randn(1, 2, 128, 128, generator=rng)


def test_two_pixels_by_hand_with_the_global_model_first() -> None:
    reference, local = pixels(0.5, 0.9), pixels(0.25, 0.9)
    by_hand = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)  # first pixel; the second agrees
    assert kl_divergence(reference, local).item() == pytest.approx(by_hand / 2, rel=1e-6)
    assert kl_divergence(reference, local, reduction="sum").item() == pytest.approx(by_hand, rel=1e-6)
    other_way = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert kl_divergence(local, reference).item() == pytest.approx(other_way / 2, rel=1e-6)


def test_over_all_pixels_by_hand() -> None:
    reference = torch.log(torch.tensor([[[[0.5, 0.5]], [[0.2, 0.8]]]]))
    local = torch.log(torch.tensor([[[[0.25, 0.75]], [[0.2, 0.8]]]]))
    by_hand = 0.5 * math.log(2.0) + 0.5 * math.log(0.5 / 0.75)
    assert kl_divergence(reference, local, softmax="spatial").item() == pytest.approx(by_hand / 2, rel=1e-6)
    assert kl_divergence(reference, local, softmax="spatial", reduction="sum").item() == pytest.approx(by_hand)


@pytest.mark.parametrize(("scale", "mean"), [(0.1, 1.5e-3), (0.5, 3.6e-2), (1.0, 1.4e-1)])
def test_its_size_is_that_of_the_paper_scale(scale: float, mean: float) -> None:
    """Two-class logits of s.d. 1.5 with noise; the sum is the mean times the pixels."""
    pair = noisy(scale)
    assert kl_divergence(*pair).item() == pytest.approx(mean, rel=0.06)
    assert kl_divergence(*pair, reduction="sum").item() == pytest.approx(kl_divergence(*pair).item() * 128**2, rel=1e-4)
    assert kl_divergence(*pair, softmax="spatial").item() == pytest.approx(scale**2 / 2, rel=0.1)


@pytest.mark.parametrize("softmax", ["class", "spatial"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_never_negative_zero_for_equal_logits_and_always_finite(softmax: str, reduction: str) -> None:
    how: dict[str, Any] = {"softmax": softmax, "reduction": reduction}
    a, b = noisy(0.3, seed=1)
    assert kl_divergence(a, b, **how).item() > 0
    assert kl_divergence(a, a, **how).item() == 0.0
    far = torch.tensor([1e4, -1e4]).view(1, 2, 1, 1).expand(1, 2, 3, 3)
    assert torch.isfinite(kl_divergence(far, -far, **how)).all()
    assert kl_divergence(far, -far).item() == pytest.approx(2e4)


def test_each_sample_has_its_own() -> None:
    reference = torch.cat([pixels(0.5), pixels(0.5)])
    each = kl_divergence(reference, torch.cat([pixels(0.5), pixels(0.25)]))
    assert each.shape == (2,) and each[0] == 0.0 and each[1] > 0.1


class Output(NamedTuple):
    logits: Tensor


class Net(nn.Module):
    """A convolution, batch normalisation and dropout; two of its names are one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 1)
        self.tied = self.conv
        self.norm = nn.BatchNorm2d(2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Output:
        return Output(self.drop(self.norm(self.conv(x))))


@dataclass
class Counter:
    calls: int = 0

    def __call__(self, model: nn.Module, batch: Tensor) -> Any:
        self.calls += 1
        return model(batch)


def state_of(model: nn.Module, **changes: Any) -> LocalState:
    rng = torch.Generator().manual_seed(5)
    samples = torch.randn(7, 1, 4, 4, generator=rng)
    start = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    return LocalState(
        model, start, Memory(), changes.pop("extras", {}), {}, 7, forward=changes.pop("forward", Counter()),
        batches=lambda count: samples[:count].split(3), **changes,
    )  # fmt: skip


def moved(model: Net) -> Net:
    with torch.no_grad():
        model.conv.weight[1] += 0.5
        model.norm.running_mean += 0.2
    return model


def test_the_reference_shares_the_start_and_no_gradient_reaches_it() -> None:
    model = Net()
    state = state_of(model)
    twin = frozen_copy(model, state.start)
    assert twin.norm.weight.data_ptr() == state.start["norm.weight"].data_ptr()
    assert twin.tied is twin.conv and not twin.training and model.training
    moved(model)
    assert not torch.equal(twin.conv.weight, model.conv.weight)
    assert all(not p.requires_grad for p in twin.parameters())
    outputs = model(torch.randn(2, 1, 4, 4))
    measured = Divergence(state, Measure(with_grad=True)).of_step(state, torch.randn(2, 1, 4, 4), outputs)
    measured.backward()
    assert model.conv.weight.grad is not None
    assert all(p.grad is None for p in twin.parameters())


def test_a_step_is_measured_once() -> None:
    state = state_of(Net())
    batch = torch.randn(3, 1, 4, 4)
    outputs = state.model(batch)
    first = shared_divergence(state, Measure()).of_step(state, batch, outputs)
    assert shared_divergence(state, Measure()).of_step(state, batch, outputs) is first
    assert state.forward.calls == 1 and not first.requires_grad
    state.step += 1
    shared_divergence(state, Measure()).of_step(state, batch, outputs)
    assert state.forward.calls == 2
    assert shared_divergence(state, Measure(reduction="sum")) is not shared_divergence(state, Measure())


def test_train_mode_has_a_floor_that_eval_mode_does_not() -> None:
    """Dropout and batch statistics make a divergence even for equal weights (feddwa spec 3)."""
    torch.manual_seed(0)
    state = state_of(Net())
    batch = torch.randn(3, 1, 4, 4)
    outputs = state.model(batch)
    assert Divergence(state, Measure()).of_step(state, batch, outputs) > 1e-3
    state = state_of(Net())
    state.model.norm.eval()  # frozen by another rule
    assert Divergence(state, Measure(eval_mode=True)).of_step(state, batch, outputs) == 0.0
    assert state.model.training and state.model.drop.training and not state.model.norm.training


def test_after_training_it_is_the_mean_over_samples_in_eval_mode() -> None:
    model = Net()
    state = state_of(model)
    moved(model)
    model.train()
    measured = Divergence(state, Measure())
    value = measured.after_training(state)
    reference = frozen_copy(model, state.start)
    model.eval()
    samples = torch.cat(list(state.batches(7)))
    with torch.no_grad():
        each = kl_divergence(reference(samples).logits, model(samples).logits)
    assert value == pytest.approx(each.mean().item(), rel=1e-6) and value > 0
    calls = state.forward.calls
    assert measured.after_training(state) == value and state.forward.calls == calls


def test_a_global_model_that_training_did_not_start_from_is_the_reference() -> None:
    model = Net()
    change = np.array([0.0, 0.5], np.float32)
    received = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    del received["norm.weight"]  # stays on the robot
    received["norm.bias"] = change
    state = state_of(model, extras={"global": received})
    wanted = {**state.start, "norm.bias": torch.tensor(change)}
    samples = torch.cat(list(state.batches(7)))
    with torch.no_grad():
        each = kl_divergence(frozen_copy(model, wanted)(samples).logits, model.eval()(samples).logits)
    assert Divergence(state, Measure()).after_training(state) == pytest.approx(each.mean().item(), rel=1e-5)


def test_a_network_without_classes_is_told() -> None:
    class Depth(NamedTuple):
        depth: Tensor

    text = r"the KL divergence needs class logits \(B, K, H, W\), but Depth has no such 'logits'; take a network that"
    with pytest.raises(TrainingError, match=text):
        class_logits(Depth(torch.zeros(1)))
    with pytest.raises(TrainingError, match="but Output has no such 'logits'"):
        class_logits(Output(torch.zeros(2, 3)))
    assert np.float32 == class_logits(Output(torch.zeros(1, 2, 1, 1, dtype=torch.float16))).numpy().dtype
