"""Trains the tiny depth network for one round by the job that robots run, for comparisons bit by bit."""

from dataclasses import replace
from typing import Any

import numpy as np

from fed_core.strategies.base import LocalState, RobotPlan, ServerState, Strategy
from fed_core.tasks.depth.task import DepthTask
from fed_core.training.local import train
from fed_core.training.options import TrainConfig
from fed_core.types import Memory
from tests.core.strategies.harness import robots
from tests.core.training.tiny import frames, signature, state_arrays, tiny

ADAMW = TrainConfig(lr=5e-3, batch_size=4, local_epochs=2, device="cpu")


def first_plan(strategy: Strategy) -> RobotPlan:
    """Return what a robot of two starts round 1 from."""
    network = tiny()
    state = ServerState(
        0, robots({"ana": 0.0, "bob": 1.0}, {"ana": 3, "bob": 5}), Memory(), {"global": state_arrays(network)},
        signature(network, "tiny"),
    )  # fmt: skip
    return strategy.begin(state).plans["ana"]


def first_round(strategy: Strategy, *, steps: int = 0, optimizer: str = "adamw", **changes: Any) -> dict[str, Any]:
    """Return the weights after the first round (or its first ``steps``) of one robot."""
    network = tiny()
    task = DepthTask()
    dataset = task.prepare(frames(8), network)
    config = replace(ADAMW, max_steps=steps, optimizer=optimizer, **changes)
    state = LocalState(
        model=network,
        start={name: tensor.detach().clone() for name, tensor in network.state_dict().items()},
        memory=Memory(),
        extras={},
        values=first_plan(strategy).values,
        num_samples=8,
        signature=signature(network, "tiny"),
        lr=config.lr,
        batches=lambda count: (task.batch(dataset, range(i, min(i + 4, count))) for i in range(0, count, 4)),
        forward=task.forward,
    )
    train(task, dataset, config, strategy.local_rule(), state, seed=3)
    return state_arrays(network)


def differ(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """Return the names of tensors that are not equal bit by bit."""
    return [name for name, array in left.items() if not np.array_equal(array, right[name])]
