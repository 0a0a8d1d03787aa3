"""A hypernetwork in NumPy: an embedding per robot, a small MLP, and one linear head per generated tensor.

``W = A h(z) + b`` with ``h`` an MLP of ``depth`` layers and ReLU between them. Everything is computed in float64 and
kept in float32. The heads begin with ``A = 0`` and ``b`` the network's own initial tensor, so that every robot starts
from the common initial model, at the scale that its layers were made for.

Training follows the generated tensors' change: with ``D = W_sent - W_trained`` of each robot the gradient of the
hypernetwork is ``sum p (dW / dH)^T D`` (feddwa spec 8), and a step of SGD with momentum follows. The heads are handled
one after the other, since together they are larger than the model.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fed_core.errors import StrategyError
from fed_core.strategies.averaging import Floats
from fed_core.types import Array, Tensors


@dataclass(frozen=True)
class Sizes:
    """Widths of the hypernetwork.

    Attributes:
        embedding: values of a robot's embedding.
        hidden: width of every layer.
        depth: linear layers of the MLP.
    """

    embedding: int = 128
    hidden: int = 32
    depth: int = 4


@dataclass(frozen=True)
class Descent:
    """SGD with momentum and weight decay.

    Attributes:
        lr: learning rate.
        momentum: share of the last step that goes on.
        weight_decay: pull towards zero.
    """

    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-3

    def step(self, value: Array, velocity: Array | None, gradient: Floats) -> tuple[Array, Array]:
        """Return the new value and velocity, float32."""
        wide = value.astype(np.float64)
        moving = gradient + self.weight_decay * wide
        if velocity is not None:
            moving = moving + self.momentum * velocity.astype(np.float64)
        return (wide - self.lr * moving).astype(np.float32), moving.astype(np.float32)


def first_embedding(robot_id: str, sizes: Sizes) -> Array:
    """Return a robot's first embedding, (embedding,) float32 standard normal; it follows from the name alone."""
    seed = int.from_bytes(hashlib.sha256(robot_id.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(sizes.embedding).astype(np.float32)


def first_mlp(sizes: Sizes, seed: int) -> dict[str, Array]:
    """Return the first weights of the MLP by name; their scale keeps the variance through the ReLUs."""
    rng = np.random.default_rng(seed)
    made = {}
    for layer in range(sizes.depth):
        inputs = sizes.hidden if layer else sizes.embedding
        scale = np.sqrt((2.0 if layer else 1.0) / inputs)
        made[f"mlp/{layer}.weight"] = (scale * rng.standard_normal((sizes.hidden, inputs))).astype(np.float32)
        made[f"mlp/{layer}.bias"] = np.zeros(sizes.hidden, np.float32)
    return made


class Mlp:
    """The MLP on the embeddings of all robots, forwards and backwards.

    Args:
        weights: by the names of :func:`first_mlp`.
        embeddings: (R, embedding).
    """

    def __init__(self, weights: Tensors, embeddings: Array) -> None:
        self._weights = {name: np.asarray(weights[name], np.float64) for name in weights if name.startswith("mlp/")}
        self._inputs = [np.asarray(embeddings, np.float64)]
        depth = len(self._weights) // 2
        for layer in range(depth):
            out = self._inputs[-1] @ self._weights[f"mlp/{layer}.weight"].T + self._weights[f"mlp/{layer}.bias"]
            self._inputs.append(np.maximum(out, 0.0) if layer < depth - 1 else out)

    @property
    def features(self) -> Floats:
        """Return h(z) of every robot, (R, hidden) float64."""
        return self._inputs[-1]

    def gradients(self, upstream: Floats) -> tuple[dict[str, Floats], Floats]:
        """Return the gradients of the weights by name and of the embeddings (R, embedding).

        Args:
            upstream: (R, hidden) float64, gradient of the features.
        """
        found: dict[str, Floats] = {}
        depth = len(self._weights) // 2
        for layer in reversed(range(depth)):
            if layer < depth - 1:
                upstream = upstream * (self._inputs[layer + 1] > 0)
            found[f"mlp/{layer}.weight"] = upstream.T @ self._inputs[layer]
            found[f"mlp/{layer}.bias"] = upstream.sum(axis=0)
            upstream = upstream @ self._weights[f"mlp/{layer}.weight"]
        return found, upstream


def generated(weight: Array, bias: Array, features: Floats) -> Floats:
    """Return a tensor of every robot, (R, *shape) float64, from its head.

    Args:
        weight: (size, hidden).
        bias: of the tensor's shape.
        features: (R, hidden).
    """
    made = features @ np.asarray(weight, np.float64).T
    return np.asarray(made.reshape(len(features), *bias.shape) + bias)


def head_gradients(changes: Mapping[int, Floats], shares: Floats, features: Floats) -> tuple[Floats, Floats]:
    """Return the gradients of a head's weight (size, hidden) and bias.

    Args:
        changes: ``W_sent - W_trained`` by the row of the robot in ``features``.
        shares: (R,) p of every robot.
        features: (R, hidden).
    """
    if not changes:
        raise StrategyError("no robot's change of its generated layers is known; nothing to train the hypernetwork by")
    rows = list(changes)
    scaled = np.stack([shares[row] * changes[row] for row in rows])
    return scaled.reshape(len(rows), -1).T @ features[rows], np.asarray(scaled.sum(axis=0))


def feature_gradients(weight: Array, changes: Mapping[int, Floats], shares: Floats) -> Floats:
    """Return what a head adds to the gradient of the features, (R, hidden)."""
    out = np.zeros((len(shares), weight.shape[1]))
    for row, change in changes.items():
        out[row] = shares[row] * (change.reshape(-1) @ np.asarray(weight, np.float64))
    return out
