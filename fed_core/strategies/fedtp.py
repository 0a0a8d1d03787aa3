"""FedTP: the aggregator generates each robot's attention layers by a hypernetwork (Li et al. 2022, arXiv:2211.01572).

A robot's embedding goes through a small MLP, and one linear head makes each attention matrix (queries, keys, values) of
that robot; everything else is FedAvg. After a round the hypernetwork takes a step of SGD along
``sum p_m (dW_m / dH)^T (W_sent - W_trained)`` (feddwa spec 8). The network names the layers by ``attention_modules()``;
their biases are averaged.

Each robot has a model of its own here, key "robot/<id>": the shared tensors with its generated ones. "global" holds the
mean of what robots trained, for whoever the aggregator does not know; newcomers start from it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.strategies.averaging import Floats, Row
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    in_order,
    mean_rows,
    strategies,
)
from fed_core.strategies.hypernetwork import (
    Descent,
    Mlp,
    Sizes,
    feature_gradients,
    first_embedding,
    first_mlp,
    generated,
    head_gradients,
)
from fed_core.strategies.personal import part_of
from fed_core.types import Array, Choice, Descriptor, Memory, ModelSignature

HYPERNETWORK, MOMENTUM = "hypernetwork", "hypernetwork/momentum"


@strategies.register("fedtp")
@dataclass(frozen=True)
class FedTP(Strategy):
    """Keys: "robot/<id>" and "global" are models, "hypernetwork" its weights, "hypernetwork/momentum" its momentum."""

    paper: ClassVar[str] = "Li et al. 2022, arXiv:2211.01572"

    embedding: int = option(128, help="values of a robot's embedding", unit="count", low=1, high=4096)
    hidden: int = option(
        32, help="width of the hypernetwork (the paper's 150 makes heads of 52 M)", unit="count", low=1
    )
    lr: float = option(0.01, help="learning rate of the hypernetwork", low=0.0, high=10.0)
    momentum: float = option(0.9, help="its momentum", low=0.0, high=1.0)
    weight_decay: float = option(1e-3, help="its weight decay", low=0.0, high=1.0)
    seed: int = option(0, help="of the hypernetwork's first weights", low=0)

    def __post_init__(self) -> None:
        check(self)

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model; the hypernetwork's heads hold its attention layers."""
        plans = {robot_id: RobotPlan((GLOBAL,)) for robot_id in state.robots}
        return Aggregate(rows=self._first(state), plans=plans, models=(GLOBAL,), kept=(GLOBAL,))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the mean of the shared tensors, the trained hypernetwork, and each robot's model."""
        keys = {robot_id: f"robot/{robot_id}" for robot_id in sorted(state.robots)}
        return Aggregate(
            rows=_Step(self, [u for u in in_order(updates) if u.robot_id in keys] or in_order(updates), state).rows(),
            plans={robot_id: RobotPlan((key,)) for robot_id, key in keys.items()},
            models=(GLOBAL, *keys.values()),
        )

    def choose(
        self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory, robot_id: str = ""
    ) -> Choice:
        """Return the asking robot's model, or the mean."""
        own = f"robot/{robot_id}"
        return Choice((own if own in models else models[0],))

    def sizes(self) -> Sizes:
        """Return the hypernetwork's widths."""
        return Sizes(self.embedding, self.hidden)

    def _first(self, state: ServerState) -> Iterator[Row]:
        for name, array in first_mlp(self.sizes(), self.seed).items():
            yield name, {HYPERNETWORK: array}
        for name in matrices(state.signature):
            bias = state.blobs[GLOBAL][name]
            yield f"head/{name}.weight", {HYPERNETWORK: np.zeros((bias.size, self.hidden), np.float32)}
            yield f"head/{name}.bias", {HYPERNETWORK: bias.astype(np.float32)}


def matrices(signature: ModelSignature) -> tuple[str, ...]:
    """Return the attention weights; biases and buffers of these layers are averaged."""
    part = set(part_of(signature, "attention", "fedtp"))
    return tuple(s.name for s in signature.tensors if s.name in part and s.trainable and len(s.shape) > 1)


class _Step:
    """One step of the hypernetwork, with the rows of all keys."""

    def __init__(self, strategy: FedTP, updates: Sequence[Update], state: ServerState) -> None:
        self._strategy, self._updates, self._state = strategy, updates, state
        self._robots = sorted(state.robots)
        self._old = state.blobs[HYPERNETWORK]
        self._velocity: Mapping[str, Array] = state.blobs.get(MOMENTUM, {})
        self._descent = Descent(strategy.lr, strategy.momentum, strategy.weight_decay)
        self._matrices = matrices(state.signature)
        counts = {u.robot_id: u.num_samples for u in updates}
        samples = np.array([counts.get(robot_id, 0) for robot_id in self._robots], np.float64)
        self._shares: Floats = samples / max(samples.sum(), 1.0)

    def rows(self) -> Iterator[Row]:
        """Yield the hypernetwork without its heads, then every tensor of the models, with its head where it has one."""
        embeddings = np.stack([self._embedding(robot_id) for robot_id in self._robots])
        before = Mlp(self._old, embeddings)
        upstream = np.zeros_like(before.features)
        for name in self._matrices:
            upstream += feature_gradients(self._old[f"head/{name}.weight"], self._changes(name), self._shares)
        gradients, of_embeddings = before.gradients(upstream)
        fresh: dict[str, Array] = {}
        for name, gradient in gradients.items():
            fresh[name], velocity = self._descent.step(self._old[name], self._velocity.get(name), gradient)
            yield name, {HYPERNETWORK: fresh[name], MOMENTUM: velocity}
        moved = []
        for row, robot_id in enumerate(self._robots):
            name = f"embedding/{robot_id}"
            value, velocity = self._descent.step(embeddings[row], self._velocity.get(name), of_embeddings[row])
            moved.append(value)
            yield name, {HYPERNETWORK: value, MOMENTUM: velocity}
        yield from self._models(before.features, Mlp(fresh, np.stack(moved)).features)

    def _models(self, before: Floats, after: Floats) -> Iterator[Row]:
        """Yield every tensor of the models: generated from the trained heads, or the mean of the robots'."""
        keys = [f"robot/{robot_id}" for robot_id in self._robots]
        for name, row in mean_rows(self._updates, self._state):
            mean = row[GLOBAL]
            if name not in self._matrices:
                yield name, {GLOBAL: mean, **dict.fromkeys(keys, mean)}
                continue
            weight, bias = (self._old[f"head/{name}.{kind}"] for kind in ("weight", "bias"))
            slopes = head_gradients(self._changes(name), self._shares, before)
            fresh = []
            for kind, value, slope in zip(("weight", "bias"), (weight, bias), slopes, strict=True):
                place = f"head/{name}.{kind}"
                new, velocity = self._descent.step(value, self._velocity.get(place), slope)
                fresh.append(new)
                yield place, {HYPERNETWORK: new, MOMENTUM: velocity}
            made = generated(fresh[0], fresh[1], after).astype(mean.dtype)
            yield name, {GLOBAL: mean, **dict(zip(keys, made, strict=True))}

    def _embedding(self, robot_id: str) -> Array:
        name = f"embedding/{robot_id}"
        return self._old[name] if name in self._old else first_embedding(robot_id, self._strategy.sizes())

    def _changes(self, name: str) -> dict[int, Floats]:
        """Return ``W_sent - W_trained`` of every robot that trained, by its row."""
        found: dict[int, Any] = {}
        for update in self._updates:
            plan = self._state.plans.get(update.robot_id)
            if plan is not None and update.robot_id in self._robots:
                sent = self._state.blobs[plan.load[0]][name].astype(np.float64)
                found[self._robots.index(update.robot_id)] = sent - update.weights[name]
        return found
