"""The robot halves of FedSelect and FedMC: what is kept, what travels, what is damped."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fed_core.errors import TrainingError
from fed_core.strategies.base import LocalResult, LocalState
from fed_core.strategies.element_masks import ElementMasked, unpack
from fed_core.strategies.fedmc import FedMC
from fed_core.strategies.fedselect import FedSelect
from fed_core.types import Array, Memory
from tests.core.strategies.first_steps import differ
from tests.core.strategies.harness import through_disk
from tests.core.training.tiny import signature as tiny_signature
from tests.core.training.tiny import state_arrays


class Line(nn.Module):
    """980 weights, 4 x 5 entries of batch normalisation: P = 1000."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(49, 5, bias=False)
        self.norm = nn.BatchNorm1d(5)
        self.second = nn.Linear(5, 147, bias=False)

    def final_layer(self) -> tuple[str, ...]:
        return ("second.weight",)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.second(self.norm(self.first(x))))


def batches(count: int, size: int = 4) -> Iterator[torch.Tensor]:
    rng = np.random.default_rng(5)
    for _ in range(0, count, size):
        yield torch.tensor(rng.normal(size=(size, 49)), dtype=torch.float32)


def state_of(model: nn.Module, number: int, memory: Memory | None = None) -> LocalState:
    return LocalState(
        model=model,
        start={name: tensor.detach().clone() for name, tensor in model.state_dict().items()},
        memory=memory or Memory(),
        extras={},
        values={"round": number},
        num_samples=8,
        signature=tiny_signature(model, "line"),
        batches=batches,
        forward=lambda network, batch: network(batch),
        task_loss=lambda batch, outputs: (outputs**2).mean(),
    )


def move(model: nn.Module, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                step = rng.normal(size=tensor.shape)
                tensor += torch.tensor(np.abs(step) if name == "norm.running_var" else step, dtype=tensor.dtype)


def rounds(strategy: ElementMasked, count: int) -> list[LocalResult]:
    """Train for some rounds by throwing dice."""
    torch.manual_seed(0)
    model, memory, results = Line(), Memory(), []
    for number in range(1, count + 1):
        rule, state = strategy.local_rule(), state_of(model, number, memory)
        rule.begin(state)
        move(model, number)
        results.append(rule.finish(state))
        memory = through_disk(results[-1].memory)
    return results


def masks(result: LocalResult) -> dict[str, Array]:
    shapes = {spec.name: spec.shape for spec in tiny_signature(Line(), "line").tensors}
    found = {name.removeprefix("shared/"): bits for name, bits in result.extras.items()}
    return {name: unpack(bits, shapes[name]) for name, bits in found.items()}


@pytest.mark.parametrize("strategy", [FedSelect(), FedMC(batches=2)])
def test_realised_ratios_are_two_per_cent_more_each_round_up_to_forty(strategy: ElementMasked) -> None:
    results = rounds(strategy, 32)
    found = [result.scalars["personal_ratio"] for result in results]
    assert found == pytest.approx([0.0] * 10 + [0.02 * n for n in range(1, 21)] + [0.4] * 2)
    for result, ratio in zip(results[10:], found[10:], strict=True):
        assert sum((~mask).sum() for mask in masks(result).values()) == round(ratio * 1000)
    for earlier, later in zip(results[10:], results[11:], strict=False):
        assert all((~old <= ~masks(later)[name]).all() for name, old in masks(earlier).items())  # for ever


@pytest.mark.parametrize("strategy", [FedSelect(), FedMC(batches=2)])
def test_bytes_are_those_of_shared_entries_and_of_one_bit_per_entry(strategy: ElementMasked) -> None:
    results = rounds(strategy, 12)
    assert [result.scalars["upload_bytes"] for result in results[9:]] == [4000.0, 4 * 980 + 125.0, 4 * 960 + 125.0]
    assert not results[9].extras and not results[9].weights and not results[9].memory.tensors
    assert sum(bits.size for bits in results[10].extras.values()) < 125 + 8


def test_personal_elements_travel_as_zeros() -> None:
    torch.manual_seed(0)
    model = Line()
    rule, state = FedSelect(warmup=0).local_rule(), state_of(model, 1)
    rule.begin(state)
    move(model, 1)
    result, own = rule.finish(state), state_arrays(model)
    assert result.weights and all((own[name] != 0).all() for name in result.weights)
    for name, sent in result.weights.items():
        shared = masks(result)[name]
        assert (sent[~shared] == 0).all() and (~shared).any()
        np.testing.assert_array_equal(sent[shared], own[name][shared])
        assert sent.dtype == own[name].dtype


def test_fedselect_takes_what_moved_most_statistics_included_or_not() -> None:
    for entries, names in (("all", {"norm.running_var"}), ("params", {"first.weight"})):
        torch.manual_seed(0)
        model = Line()
        nn.init.zeros_(model.first.weight)
        rule, state = FedSelect(warmup=0, step=0.005, entries=entries).local_rule(), state_of(model, 1)
        rule.begin(state)
        with torch.no_grad():
            model.norm.running_var += 50.0
            model.first.weight[2, 3:8] -= 3.0
            model.second.weight += 0.1
        result = rule.finish(state)
        assert set(result.weights) == names, entries
        assert result.scalars["personal_ratio"] == pytest.approx(5 / (1000 if entries == "all" else 990))
        if entries == "params":  # room for floor(0.005 * 990) = 4, and five that tie
            assert (~masks(result)["first.weight"][2, 3:8]).all()


def test_only_shared_elements_are_damped_and_only_after_the_warm_up() -> None:
    def one_step(number: int, strategy: FedSelect) -> tuple[dict[str, Array], dict[str, Array]]:
        torch.manual_seed(0)
        model = Line()
        own = np.zeros((5, 49), bool)
        own[0] = True
        memory = Memory({"personal/first.weight": np.packbits(own)}) if number > 10 else Memory()
        rule, state = strategy.local_rule(), state_of(model, number, memory)
        before = state_arrays(model)
        rule.begin(state)
        rule.correct_gradient(state)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 1.0
        rule.after_step(state)
        after = state_arrays(model)
        return {n: after[n] - before[n] for n, _ in model.named_parameters()}, after

    early, _ = one_step(10, FedSelect())
    assert all((moved > 0.99).all() for moved in early.values())
    late, _ = one_step(11, FedSelect())
    np.testing.assert_allclose(late["first.weight"][0], 1.0, atol=1e-6)
    np.testing.assert_allclose(late["first.weight"][1:], 0.01, atol=1e-6)
    np.testing.assert_allclose(late["second.weight"], 0.01, atol=1e-6)
    whole, _ = one_step(11, FedSelect(damping=1.0))
    assert all((moved > 0.99).all() for moved in whole.values())


def test_a_step_that_did_not_happen_is_not_damped() -> None:
    """After an overflow in float16 nobody corrected a gradient; the weights stay where they are."""
    torch.manual_seed(0)
    model = Line()
    rule, state = FedSelect(warmup=0).local_rule(), state_of(model, 1)
    rule.begin(state)
    rule.after_step(state)
    rule.correct_gradient(state)
    move(model, 1)
    rule.after_step(state)
    before = state_arrays(model)
    rule.after_step(state)
    assert not differ(before, state_arrays(model))


def test_fisher_information_is_the_mean_of_squared_gradients() -> None:
    torch.manual_seed(0)
    model = Line()
    rule, state = FedMC(batches=3, batch_size=2).local_rule(), state_of(model, 11)
    model.eval()
    expected = {name: np.zeros(p.shape) for name, p in model.named_parameters()}
    for batch in batches(6, 2):
        model.zero_grad()
        (model(batch) ** 2).mean().backward()
        for name, p in model.named_parameters():
            expected[name] += np.square(p.grad.numpy(), dtype=np.float64) / 3
    model.zero_grad()
    before = state_arrays(model)
    rule.begin(state)
    found = rule.importance(state)  # type: ignore[attr-defined]
    assert set(found) == set(expected)  # no statistics
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-12)
    assert not differ(before, state_arrays(model)) and not model.training
    assert all(p.grad is None for p in model.parameters())


def test_fisher_information_is_computed_only_where_masks_grow() -> None:
    asked: list[int] = []

    def watched(count: int, size: int) -> Iterator[torch.Tensor]:
        asked.append(count)
        return batches(count, size)

    full = {"personal/first.weight": np.packbits(np.ones(245, bool)), "personal/second.weight": np.zeros(92, np.uint8)}
    full["personal/second.weight"][:20] = 255  # 245 + 160 of 1000
    for number, memory in ((10, Memory()), (11, Memory(full)), (11, Memory())):
        rule, state = FedMC(batches=7).local_rule(), state_of(Line(), number, memory)
        state.batches = watched
        rule.begin(state)
        rule.finish(state)
    assert asked == [7]


def test_fedmc_without_a_finite_gradient_is_one_line() -> None:
    rule, state = FedMC(warmup=0, batches=2).local_rule(), state_of(Line(), 1)
    state.task_loss = lambda batch, outputs: (outputs * float("nan")).mean()
    rule.begin(state)
    with pytest.raises(TrainingError, match="fedmc: no batch has a finite loss and gradient"):
        rule.finish(state)
    constant: Any = lambda batch, outputs: torch.zeros(())  # noqa: E731
    state.task_loss = constant
    with pytest.raises(TrainingError, match="fedmc: no batch has a finite loss and gradient"):
        rule.finish(state)
