"""A federation in memory: drives a strategy's server half the way the aggregator does, with NumPy robots.

The robots' training is made up (:func:`train`), so a round takes a millisecond and needs no PyTorch.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import safetensors.numpy

from fed_core.strategies.base import GLOBAL, Aggregate, LocalResult, RobotInfo, RobotPlan, ServerState, Strategy, Update
from fed_core.types import Array, Descriptor, Memory, ModelSignature, TensorSpec

Weights: TypeAlias = dict[str, Array]

#: A network in small: convolution, BatchNorm with its counter, an index table, a constant of floats.
SIGNATURE = ModelSignature(
    "toy",
    (
        TensorSpec("conv.weight", (3, 2), "float32", True, "conv", "Conv2d"),
        TensorSpec("conv.bias", (3,), "float16", True, "conv", "Conv2d"),
        TensorSpec("bn.weight", (3,), "float32", True, "bn", "BatchNorm2d"),
        TensorSpec("bn.running_mean", (3,), "float32", False, "bn", "BatchNorm2d"),
        TensorSpec("bn.running_var", (3,), "float32", False, "bn", "BatchNorm2d"),
        TensorSpec("bn.num_batches_tracked", (), "int64", False, "bn", "BatchNorm2d"),
        TensorSpec("attention.index", (4,), "int64", False, "attention", "WindowAttention"),
        TensorSpec("attention.bias", (4,), "float64", True, "attention", "WindowAttention"),
        TensorSpec("dct.basis", (2, 2), "float64", False, "dct", "Dct"),
    ),
    {
        "head": (
            "conv.weight",
            "conv.bias",
            "bn.weight",
            "bn.running_mean",
            "bn.running_var",
            "bn.num_batches_tracked",
        ),
        "camera": ("conv.bias",),
        "bev": ("bn.weight",),
        "attention": ("conv.weight", "attention.bias"),
    },
)


def initial(seed: int = 0) -> Weights:
    """Return the model of the start."""
    rng = np.random.default_rng(seed)
    weights = {s.name: rng.normal(size=s.shape).astype(s.dtype) for s in SIGNATURE.tensors if "float" in s.dtype}
    weights["bn.running_var"] = np.abs(weights["bn.running_var"]) + np.float32(0.5)
    weights["bn.num_batches_tracked"] = np.array(0, np.int64)
    weights["attention.index"] = np.arange(4, dtype=np.int64)
    return {name: weights[name] for name in SIGNATURE.names}


def descriptor(position: float, num_frames: int = 100, variance: float = 1.0, encoder: str = "enc") -> Descriptor:
    """One feature, so that the affinity of unit variances is the squared distance of the positions."""
    tensors = {"mean": np.array([position], np.float32), "variance": np.array([variance], np.float32)}
    return Descriptor("gaussian", tensors, num_frames, encoder)


def line(position: float, num_frames: int = 100, encoder: str = "enc") -> Descriptor:
    """One direction in the plane, at ``position`` degrees: angles between robots are differences of positions."""
    angle = np.radians(position)
    tensors = {"direction0": np.array([np.cos(angle), np.sin(angle)], np.float32)}
    return Descriptor("subspace", tensors, num_frames, encoder)


def robots(
    positions: Mapping[str, float], samples: Mapping[str, int] | None = None, kind: str | None = "gaussian"
) -> dict[str, RobotInfo]:
    """Return registered robots whose data lie at ``positions`` on a line.

    Args:
        positions: by robot id.
        samples: training samples by robot id; 10 where it says nothing.
        kind: of their descriptors ("gaussian", "subspace"); other kinds and None look like "gaussian".
    """
    counts, describe = samples or {}, line if kind == "subspace" else descriptor
    return {r: RobotInfo(r, counts.get(r, 10), describe(x)) for r, x in positions.items()}


def train(robot_id: str, weights: Weights, num_round: int) -> Weights:
    """Pull a copy of the weights towards the robot's own target, a little more every round."""
    rng = np.random.default_rng([ord(c) for c in robot_id] + [num_round])
    out = {}
    for spec in SIGNATURE.tensors:
        value = weights[spec.name]
        if spec.trainable or spec.name == "bn.running_mean":
            value = (value + 0.3 * (rng.normal(size=spec.shape) - value)).astype(spec.dtype)
        elif spec.name == "bn.running_var":
            value = (0.9 * value + 0.1 * rng.uniform(0.5, 2.0, spec.shape)).astype(spec.dtype)
        elif spec.name == "bn.num_batches_tracked":
            value = value + np.int64(len(robot_id))
        out[spec.name] = value
    return out


def through_disk(memory: Memory) -> Memory:
    """Return the memory after JSON and safetensors."""
    tensors = safetensors.numpy.load(
        safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in memory.tensors.items()})
    )
    return Memory(tensors, json.loads(json.dumps(memory.values, allow_nan=False)))


def expect(condition: bool, text: str) -> None:
    """Fail the running test with ``text`` where ``condition`` does not hold.

    Raises:
        AssertionError: with the text.
    """
    if not condition:
        raise AssertionError(text)


@dataclass
class Fleet:
    """A run in memory.

    Attributes:
        strategy: what is tried.
        robots: registered robots by id.
        signature: of the model.
        start_weights: the model of the start.
        trainer: ``trainer(robot_id, weights, round)`` stands for local training.
        adds: ``adds(robot_id, weights, plan)`` returns what the robot half sends beside the weights.
        restart: memory goes through JSON and safetensors after every step.
        reverse: updates arrive in the opposite order.
        round: that ended last.
        blobs: tensors of the current keys.
        memory: what the strategy returned last.
        plans: what each robot does next.
        own: each robot's weights after its last training.
        last: outcome of the last round.
        log: its figures.
    """

    strategy: Strategy
    robots: dict[str, RobotInfo]
    signature: ModelSignature = SIGNATURE
    start_weights: Weights = field(default_factory=initial)
    trainer: Callable[[str, Weights, int], Weights] = train
    adds: Callable[[str, Weights, RobotPlan], LocalResult] = lambda robot_id, weights, plan: LocalResult()
    restart: bool = False
    reverse: bool = False

    def __post_init__(self) -> None:
        self.round = 0
        self.blobs: dict[str, Weights] = {GLOBAL: self.start_weights}
        self.memory = Memory()
        self.plans: dict[str, RobotPlan] = {}
        self.own: dict[str, Weights] = {}
        self.last: Aggregate
        self.log: dict[str, object] = {}

    def begin(self) -> "Fleet":
        """Let the strategy start."""
        self._take(self.strategy.begin(self.state()))
        return self

    def run(self, rounds: int, participants: Sequence[str] | None = None) -> "Fleet":
        """Run rounds in which ``participants`` (default: all robots) report."""
        for _ in range(rounds):
            self.round += 1
            updates = [self.update(r) for r in participants or sorted(self.robots)]
            self._take(self.strategy.aggregate(updates[::-1] if self.reverse else updates, self.state()))
        return self

    def update(self, robot_id: str) -> Update:
        """Train a robot and return what it sends."""
        weights = self.trainer(robot_id, self.start_of(robot_id), self.round)
        self.own[robot_id] = weights
        values, extras = self.plans[robot_id].values, {}
        if values.get("final_layer"):
            extras = {"attention.bias": weights["attention.bias"]}
        elif "counted" in values:  # a control
            specs = [spec for spec in self.signature.tensors if spec.trainable]
            extras = {spec.name: np.asarray(weights[spec.name] * 0.1, np.float32) for spec in specs}
        added = self.adds(robot_id, weights, self.plans[robot_id])
        uploads = self.strategy.uploads(self.signature, added.mask)
        sent = {name: added.weights.get(name, weights[name]) for name in self.signature.names if name in uploads}
        told = {"divergence": 0.1 * ord(robot_id[0]), "rate_sum": 0.5}
        count, scalars = self.robots[robot_id].num_samples, {**told, **added.scalars}
        return Update(robot_id, count, sent, {**extras, **added.extras}, scalars, added.mask)

    def start_of(self, robot_id: str) -> Weights:
        """Return the weights that a robot starts its next round from."""
        models = {key: self.blobs[key] for key in self.plans[robot_id].load}
        loaded = dict(self.strategy.blend(models, self.signature))
        own = self.own.get(robot_id, self.start_weights)
        return {n: self.strategy.merge(n, own[n], loaded.get(n), Memory()) for n in self.signature.names}

    def join(self, robot: RobotInfo) -> RobotPlan:
        """Register a newcomer and return its plan."""
        self.robots[robot.robot_id] = robot
        plan, self.memory = self.strategy.join(robot, self.state())
        self.plans[robot.robot_id] = plan
        return plan

    def state(self) -> ServerState:
        """Return what the strategy may look at now."""
        memory = through_disk(self.memory) if self.restart else self.memory
        order = sorted(self.robots, reverse=self.reverse)
        known = {r: self.robots[r] for r in order}
        return ServerState(self.round, known, memory, self.blobs, self.signature, self.plans)

    def _take(self, outcome: Aggregate) -> None:
        blobs: dict[str, Weights] = {key: self.blobs[key] for key in outcome.kept}
        for name, row in outcome.rows:
            for key, array in row.items():
                expect(key not in outcome.kept, f"key {key!r} is in Aggregate.kept and in its rows; name it once")
                expect(name not in blobs.setdefault(key, {}), f"tensor {name!r} comes twice in the rows of key {key!r}")
                blobs[key][name] = array.copy()
        self.blobs, self.memory, self.plans = blobs, outcome.memory, dict(outcome.plans)
        self.last, self.log = outcome, json.loads(json.dumps(outcome.log, allow_nan=False))


def assert_same(left: Mapping[str, Array], right: Mapping[str, Array]) -> None:
    """Fail where two models differ in a bit, a dtype, a name or the order of names."""
    expect(list(left) == list(right), f"tensors are {list(left)} and {list(right)}")
    for name, array in left.items():
        expect(array.dtype == right[name].dtype, f"{name} is {array.dtype} and {right[name].dtype}")
        np.testing.assert_array_equal(array, right[name], err_msg=name)
