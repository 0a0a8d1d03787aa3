"""A federation in memory: drives a strategy's server half the way the aggregator does, with NumPy robots."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import safetensors.numpy

from fed_core.strategies.base import GLOBAL, Aggregate, RobotInfo, RobotPlan, ServerState, Strategy, Update
from fed_core.types import Array, Descriptor, Memory, ModelSignature, TensorSpec

Weights = dict[str, Array]

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


@dataclass
class Fleet:
    strategy: Strategy
    robots: dict[str, RobotInfo]
    signature: ModelSignature = SIGNATURE
    start_weights: Weights = field(default_factory=initial)
    trainer: Callable[[str, Weights, int], Weights] = train
    restart: bool = False  # memory goes through JSON and safetensors after every step
    reverse: bool = False  # updates arrive in the opposite order

    def __post_init__(self) -> None:
        self.round = 0
        self.blobs: dict[str, Weights] = {GLOBAL: self.start_weights}
        self.memory = Memory()
        self.plans: dict[str, RobotPlan] = {}
        self.own: dict[str, Weights] = {}  # each robot's weights after its last training
        self.last: Aggregate
        self.log: dict[str, object] = {}

    def begin(self) -> "Fleet":
        self._take(self.strategy.begin(self.state()))
        return self

    def run(self, rounds: int, participants: Sequence[str] | None = None) -> "Fleet":
        for _ in range(rounds):
            self.round += 1
            updates = [self.update(r) for r in participants or sorted(self.robots)]
            self._take(self.strategy.aggregate(updates[::-1] if self.reverse else updates, self.state()))
        return self

    def update(self, robot_id: str) -> Update:
        weights = self.trainer(robot_id, self.start_of(robot_id), self.round)
        self.own[robot_id] = weights
        values, extras = self.plans[robot_id].values, {}
        if values.get("final_layer"):
            extras = {"attention.bias": weights["attention.bias"]}
        elif "counted" in values:  # a control
            specs = [spec for spec in self.signature.tensors if spec.trainable]
            extras = {spec.name: np.asarray(weights[spec.name] * 0.1, np.float32) for spec in specs}
        sent = {name: weights[name] for name in self.signature.names if name in self.strategy.uploads(self.signature)}
        told = {"divergence": 0.1 * ord(robot_id[0]), "rate_sum": 0.5}
        return Update(robot_id, self.robots[robot_id].num_samples, sent, extras, told)

    def start_of(self, robot_id: str) -> Weights:
        models = {key: self.blobs[key] for key in self.plans[robot_id].load}
        loaded = dict(self.strategy.blend(models, self.signature))
        own = self.own.get(robot_id, self.start_weights)
        return {n: self.strategy.merge(n, own[n], loaded.get(n), Memory()) for n in self.signature.names}

    def join(self, robot: RobotInfo) -> RobotPlan:
        self.robots[robot.robot_id] = robot
        plan, self.memory = self.strategy.join(robot, self.state())
        self.plans[robot.robot_id] = plan
        return plan

    def state(self) -> ServerState:
        memory = through_disk(self.memory) if self.restart else self.memory
        order = sorted(self.robots, reverse=self.reverse)
        known = {r: self.robots[r] for r in order}
        return ServerState(self.round, known, memory, self.blobs, self.signature, self.plans)

    def _take(self, outcome: Aggregate) -> None:
        blobs: dict[str, Weights] = {key: self.blobs[key] for key in outcome.kept}
        for name, row in outcome.rows:
            for key, array in row.items():
                assert key not in outcome.kept, f"{key} is kept and rewritten"
                assert name not in blobs.setdefault(key, {}), f"{name} comes twice in {key}"
                blobs[key][name] = array.copy()
        self.blobs, self.memory, self.plans = blobs, outcome.memory, dict(outcome.plans)
        self.last, self.log = outcome, json.loads(json.dumps(outcome.log, allow_nan=False))


def assert_same(left: Mapping[str, Array], right: Mapping[str, Array]) -> None:
    """Bit-equal, dtypes and names included."""
    assert list(left) == list(right)
    for name, array in left.items():
        assert array.dtype == right[name].dtype, name
        np.testing.assert_array_equal(array, right[name], err_msg=name)
