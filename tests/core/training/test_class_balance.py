"""Epochs whose samples the data set draws by class."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.errors import ConfigError, TrainingError
from fed_core.strategies.base import LocalRule, LocalState
from fed_core.tasks.depth.task import DepthDataset, DepthTask
from fed_core.training.local import train
from fed_core.training.options import TrainConfig
from fed_core.types import Memory
from tests.core.training.tiny import frames, tiny

BALANCED = TrainConfig(lr=1e-3, batch_size=4, augment=False, device="cpu", class_balanced=True, local_epochs=2)


class Rare(DepthDataset):
    """Ten draws an epoch, of samples 0 to 2 only."""

    def class_balanced(self, rng: np.random.Generator) -> list[int]:
        return sorted(int(index) for index in rng.integers(0, 3, 10))


class Common(DepthDataset):
    def class_balanced(self, rng: np.random.Generator) -> list[int]:
        return []


def drawn(kind: type[DepthDataset], config: TrainConfig = BALANCED, seed: int = 1) -> list[list[int]]:
    seen: list[list[int]] = []

    class Watching(DepthTask):
        def batch(self, dataset: Any, indexes: Any, rng: Any = None) -> Any:
            seen.append(list(indexes))
            return super().batch(dataset, indexes, rng)

    network = tiny()
    dataset = DepthTask().prepare(frames(8), network)
    dataset.__class__ = kind
    start = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    state = LocalState(network, start, Memory(), {}, {}, 8, lr=config.lr)
    outcome = train(Watching(), dataset, config, LocalRule(), state, seed=seed)
    assert outcome.steps == state.num_steps == len(seen)
    return seen


def test_steps_follow_from_what_is_drawn() -> None:
    seen = drawn(Rare)
    assert [len(indexes) for indexes in seen] == [4, 4, 2, 4, 4, 2]
    assert {index for indexes in seen for index in indexes} == {0, 1, 2}
    first, second = sum(seen[:3], []), sum(seen[3:], [])
    assert first != sorted(first) and sorted(first) != sorted(second)  # shuffled, and drawn anew in each epoch


def test_draws_follow_from_the_seed_alone() -> None:
    assert drawn(Rare) == drawn(Rare)
    assert drawn(Rare) != drawn(Rare, seed=2)
    torch.manual_seed(5)
    assert drawn(Rare, replace(BALANCED, max_steps=2)) == drawn(Rare)[:2]


def test_a_task_without_classes_says_so() -> None:
    with pytest.raises(ConfigError, match="this task has no classes to balance; switch class balance off"):
        drawn(DepthDataset)
    with pytest.raises(TrainingError, match="train.class_balanced: no sample shows any class"):
        drawn(Common)
