"""Robots with quadratic losses, trained by the real loop: their common optimum is known in closed form.

Robot r minimises ``curvature_r / 2 * |w - target_r|^2``. Where curvatures differ, the mean of robots that each walk far
towards their own target is not the optimum of the weighted sum; that is what drift correction is for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fed_core.strategies.base import LocalRule, LocalState, RobotInfo, Update
from fed_core.tasks.base import Dataset, Task
from fed_core.training.local import TrainOutcome, train
from fed_core.training.options import TrainConfig
from fed_core.types import Array, Memory, ModelSignature, TensorSpec
from tests.core.strategies.harness import Fleet, through_disk

SIGNATURE = ModelSignature(
    "point",
    (
        TensorSpec("w", (2,), "float64"),
        TensorSpec("seen", (1,), "float64", False),
        TensorSpec("steps", (), "int64", False),
    ),
)
#: Plain gradient descent: nothing between the gradient and the step.
SGD = TrainConfig(
    optimizer="sgd", weight_decay=0.0, grad_clip=0.0, batch_size=1, local_epochs=10, augment=False, device="cpu"
)


class Point(nn.Module):
    """One parameter, one buffer that moves in training, one counter."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(1, dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))


class OneSample(Dataset):
    size_bytes = 0

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True)
class Quadratic(Task):
    curvature: float
    target: tuple[float, float]
    scale: float = 1.0  # of the loss
    noise: float = 0.0  # of the gradient
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def prepare(self, samples: Any, network: nn.Module) -> Dataset:
        return OneSample()

    def batch(self, dataset: Any, indexes: Sequence[int], rng: Any = None) -> Tensor:
        return torch.tensor(self.rng.normal(0.0, self.noise, 2) if self.noise else np.zeros(2))

    def move(self, batch: Tensor, device: Any) -> Tensor:
        return batch

    def forward(self, network: nn.Module, batch: Tensor) -> Tensor:
        if network.training:
            network.seen += self.target[0]
            network.steps += 1
        return network.w

    def loss(self, network: nn.Module, batch: Tensor, outputs: Tensor) -> Tensor:
        gap = outputs - torch.tensor(self.target, dtype=torch.float64)
        return self.scale * (0.5 * self.curvature * (gap * gap).sum() + (batch * outputs).sum())

    def predict(self, network: nn.Module, rgb: Array) -> Array:
        raise NotImplementedError

    def metrics(self, prediction: Any, sample: Any, **options: Any) -> None:
        raise NotImplementedError


def start(w: Sequence[float] = (0.0, 0.0)) -> dict[str, Array]:
    return {"w": np.array(w, np.float64), "seen": np.zeros(1), "steps": np.array(0)}


def infos(samples: Mapping[str, int]) -> dict[str, RobotInfo]:
    return {robot_id: RobotInfo(robot_id, count) for robot_id, count in samples.items()}


@dataclass
class Walkers(Fleet):
    """A fleet whose robots train; what their rules remember goes through the disk after every round."""

    signature: ModelSignature = SIGNATURE
    start_weights: dict[str, Array] = field(default_factory=start)
    tasks: Mapping[str, Quadratic] = field(default_factory=dict)
    config: TrainConfig = SGD
    lr: float = 0.05
    decay: float = 1.0  # of the learning rate, per round

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memories: dict[str, Memory] = {}
        self.outcomes: dict[str, TrainOutcome] = {}

    def update(self, robot_id: str) -> Update:
        network, plan = Point(), self.plans[robot_id]
        network.load_state_dict({name: torch.tensor(array) for name, array in self.start_of(robot_id).items()})
        state = LocalState(
            model=network,
            start={name: tensor.detach().clone() for name, tensor in network.state_dict().items()},
            memory=self.memories.get(robot_id, Memory()),
            extras={key: self.blobs[key] for key in plan.extras},
            values=plan.values,
            num_samples=self.robots[robot_id].num_samples,
            lr=self.lr * self.decay ** (self.round - 1),
            forward=self.tasks[robot_id].forward,
        )
        rule: LocalRule = self.strategy.local_rule()
        outcome = train(self.tasks[robot_id], OneSample(), self.config, rule, state, seed=self.round)
        self.outcomes[robot_id], self.memories[robot_id] = outcome, through_disk(outcome.result.memory)
        weights = {name: tensor.detach().numpy().copy() for name, tensor in network.state_dict().items()}
        return Update(
            robot_id, state.num_samples, weights, extras=outcome.result.extras, scalars=outcome.result.scalars
        )

    @property
    def w(self) -> Array:
        return self.blobs["global"]["w"]

    def optimum(self) -> Array:
        """Return the minimum of the sum of the losses, weighted by samples."""
        pull = {r: self.robots[r].num_samples * task.curvature for r, task in self.tasks.items()}
        total = sum(pull[r] * np.array(task.target) for r, task in self.tasks.items())
        return np.asarray(total / sum(pull.values()))


def walkers(strategy: Any, **options: Any) -> Walkers:
    """Three robots that disagree in target, curvature and number of samples."""
    tasks = {"ana": Quadratic(4.0, (0.0, 1.0)), "bob": Quadratic(1.0, (6.0, -2.0)), "cho": Quadratic(0.3, (9.0, 5.0))}
    return Walkers(strategy, infos({"ana": 10, "bob": 30, "cho": 20}), tasks=tasks, **options).begin()  # type: ignore[return-value]
