"""Learning rates by part, moments over rounds, the cyclic course: the optimiser as the rounds see it."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.strategies.base import LocalRule, LocalState
from fed_core.strategies.element_masks import PERSONAL, pack
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedmc import FedMC
from fed_core.strategies.fedrep import FedRep
from fed_core.tasks.depth.task import DepthTask
from fed_core.training.local import TrainOutcome, train
from fed_core.training.optimizer import make_optimizer, own_moments
from fed_core.training.options import PartOptions, TrainConfig
from fed_core.types import Array, Memory
from tests.core.training.tiny import frames, signature, state_arrays, tiny

PLAIN = TrainConfig(lr=5e-3, batch_size=4, augment=False, device="cpu")
TINY = signature(tiny(), "tiny")


def run(network: nn.Module, config: TrainConfig, *, rule: LocalRule | None = None, **how: Any) -> TrainOutcome:
    start = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    state = LocalState(network, start, Memory(), {}, {}, 8, TINY, lr=config.lr)
    dataset = DepthTask().prepare(frames(8), network)
    return train(DepthTask(), dataset, config, rule or LocalRule(), state, **{"seed": 1, **how})


def rates(optimizer: torch.optim.Optimizer, network: nn.Module) -> dict[str, tuple[float, float]]:
    rows = {id(p): (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    return {name: rows[id(p)] for name, p in network.named_parameters()}


def test_parts_have_their_own_rate_and_decay() -> None:
    """The parts of the tiny network: encoder.0.weight is "attention", encoder.0.bias "camera", its head "head"."""
    tree = {
        "weight_decay": 0.01, "encoder_lr_scale": 0.5,
        "parts": {"attention": {"lr": 0.01, "weight_decay": 5.0}, "head": {"lr": 0.1}},
    }  # fmt: skip
    network, config = tiny(), from_tree(TrainConfig, tree, "train")
    found = rates(make_optimizer(network, config, 1.0, TINY), network)
    assert {name: pytest.approx(row) for name, row in found.items()} == {
        "encoder.0.weight": (0.005, 0.05), "encoder.0.bias": (0.5, 0.01), "encoder.1.weight": (0.5, 0.01),
        "encoder.1.bias": (0.5, 0.01), "head.weight": (0.1, 0.01), "head.bias": (0.1, 0.01),
    }  # fmt: skip


def test_a_part_that_the_network_does_not_name_is_an_error() -> None:
    config = replace(PLAIN, parts={"image_neck": PartOptions(lr=0.1)})
    with pytest.raises(ConfigError) as caught:
        run(tiny(), config)
    assert str(caught.value) == (
        "train.parts: the network 'tiny' names no part 'image_neck'; its parts: head, camera, bev, attention"
    )


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"parts": {"head": {"rate": 1.0}}}, "train.parts.head: unknown key 'rate'; known: lr, weight_decay"),
        ({"parts": {"head": {"lr": -1.0}}}, "PartOptions.lr is -1.0; it must lie between 0.0 and 1000.0"),
        ({"parts": {"head": 3}}, "train.parts.head: expected keys and values, got 3"),
        ({"optimizer_state": "drop"}, "TrainConfig.optimizer_state is 'drop'; choose one of reset, keep, reset_shared"),
    ],
)
def test_wrong_options_are_named(tree: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_tree(TrainConfig, tree, "train")
    assert str(caught.value) == text


def test_the_cyclic_course_by_hand() -> None:
    """From 1 to 6 over the first 40 %, from 6 to 1e-4 over the rest, both by half a cosine."""
    config = TrainConfig(lr=2.0, schedule="cyclic")
    places = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)
    expected = [1.0, 6 - 2.5 * (1 + 0.5**0.5), 3.5, 6.0, (6 + 1e-4) / 2, 1e-4]
    assert [config.lr_at(place) for place in places] == pytest.approx([2.0 * value for value in expected])
    assert [config.lr_of(number, 10) for number in (1, 3, 5)] == pytest.approx([2.0, 7.0, 12.0])
    assert TrainConfig(schedule="cosine").course_of(1, 10) is None


def test_the_cyclic_rate_changes_with_every_step_and_by_part() -> None:
    seen: list[tuple[float, dict[str, tuple[float, float]]]] = []

    class Watching(LocalRule):
        def correct_gradient(self, state: LocalState) -> None:
            assert state.optimizer is not None
            seen.append((state.lr, rates(state.optimizer, state.model)))

    config = replace(PLAIN, lr=1.0e-4, schedule="cyclic", local_epochs=2, parts={"head": PartOptions(lr=0.1)})
    run(tiny(), config, rule=Watching(), course=config.course_of(2, 10))
    expected = [config.lr_at((1 + step / 4) / 10) for step in range(4)]
    assert [lr for lr, _ in seen] == pytest.approx(expected) and len(set(expected)) == 4
    assert [row["encoder.0.weight"][0] for _, row in seen] == pytest.approx(expected)
    assert [row["head.weight"][0] for _, row in seen] == pytest.approx([0.1 * lr for lr in expected])


@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
def test_a_kept_optimiser_goes_on_where_it_was(optimizer: str) -> None:
    """Two rounds are one optimiser: as if the state had been carried over by hand."""
    config = replace(PLAIN, optimizer=optimizer, optimizer_state="keep")
    network = tiny()
    first = run(network, config)
    assert set(first.optimizer) == {
        f"{kind}/{name}" for kind in ("step", "exp_avg", "exp_avg_sq") for name, _ in network.named_parameters()
    }
    assert float(first.optimizer["step/head.weight"]) == first.steps == 2
    kept = {entry: array.copy() for entry, array in first.optimizer.items()}
    twin, fresh = copy.deepcopy(network), copy.deepcopy(network)
    second = run(network, config, kept=kept, seed=2)
    again = run(twin, config, kept=kept, seed=2)
    run(fresh, config, seed=2)
    assert float(second.optimizer["step/head.weight"]) == 4
    for left, right in zip(state_arrays(network).values(), state_arrays(twin).values(), strict=True):
        np.testing.assert_array_equal(left, right)
    assert all(np.array_equal(second.optimizer[entry], again.optimizer[entry]) for entry in second.optimizer)
    assert not np.array_equal(state_arrays(network)["head.weight"], state_arrays(fresh)["head.weight"])


def test_by_default_nothing_is_kept() -> None:
    assert run(tiny(), PLAIN).optimizer == {}
    assert run(tiny(), replace(PLAIN, optimizer="sgd", optimizer_state="keep")).optimizer == {}  # it has no moments


def moments() -> dict[str, Array]:
    names = [spec.name for spec in TINY.tensors if spec.trainable]
    shapes = {spec.name: spec.shape for spec in TINY.tensors}
    kept = {f"exp_avg/{name}": np.ones(shapes[name], np.float32) for name in names}
    return {**kept, **{f"step/{name}": np.array(7.0, np.float32) for name in names}, "scaler/scale": np.array(2.0)}


def sums(kept: Mapping[str, Array]) -> dict[str, float]:
    return {entry: float(array.sum()) for entry, array in kept.items() if "encoder.1" not in entry}


def test_moments_of_what_is_shared_start_anew() -> None:
    everything = frozenset(TINY.names)
    assert sums(own_moments(moments(), FedAvg(), TINY, everything, Memory())) == {"scaler/scale": 2.0}
    head = own_moments(moments(), FedRep(), TINY, everything - set(TINY.parts["head"]), Memory())
    assert sums(head) == {
        "exp_avg/head.weight": 72.0, "exp_avg/head.bias": 1.0, "step/head.weight": 7.0, "step/head.bias": 7.0,
        "scaler/scale": 2.0,
    }  # fmt: skip


def test_moments_of_single_elements_are_kept() -> None:
    mask = np.zeros(TINY.tensors[0].shape, bool)
    mask[1, 2] = True
    memory = Memory({PERSONAL + "encoder.0.weight": pack(mask), PERSONAL + "head.bias": pack(np.array([True]))})
    left = own_moments(moments(), FedMC(), TINY, frozenset(TINY.names), memory)
    np.testing.assert_array_equal(left["exp_avg/encoder.0.weight"], mask.astype(np.float32))
    assert sums(left) == {
        "exp_avg/encoder.0.weight": 9.0, "step/encoder.0.weight": 7.0, "exp_avg/head.bias": 1.0, "step/head.bias": 7.0,
        "scaler/scale": 2.0,
    }  # fmt: skip
