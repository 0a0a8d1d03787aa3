"""What a federated method is: a server half, a robot half, and a choice at inference.

The server half is NumPy over memory-mapped tensors; PyTorch is imported only inside the robot half. Everything that a
half remembers goes in and out as :class:`~fed_core.types.Memory` or as blobs, so that a restart continues bit-exactly.

A *key* names a model or another set of tensors that the aggregator keeps as one blob: "global", "cluster/0",
"robot/spot1", "control". The nodes move keys; only the strategy knows what they mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fed_core.errors import StrategyError
from fed_core.registry import Registry
from fed_core.types import Array, Choice, Descriptor, Json, Memory, ModelSignature, Tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

GLOBAL = "global"


@dataclass(frozen=True)
class RobotInfo:
    """What the aggregator knows of a registered robot."""

    robot_id: str
    num_samples: int
    descriptor: Descriptor | None = None


@dataclass(frozen=True)
class Update:
    """What a robot sends after local training.

    Attributes:
        robot_id: sender.
        num_samples: training samples it used, the ``|X_c|`` of the papers.
        weights: the tensors that travel, one read from disk at each access.
        extras: further tensors of the strategy (control variates, importance scores).
        scalars: further numbers (loss, divergence).
        mask: (units,) bool or None: which units of the model this robot shares.
    """

    robot_id: str
    num_samples: int
    weights: Tensors
    extras: Tensors = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    mask: Array | None = None


@dataclass(frozen=True)
class RobotPlan:
    """What one robot starts its next round from.

    Attributes:
        load: keys averaged uniformly, tensor by tensor, over those that hold the tensor; a tensor that none
            holds stays the robot's own.
        extras: keys handed to the local rule.
        values: numbers and text for the local rule.
    """

    load: tuple[str, ...]
    extras: tuple[str, ...] = ()
    values: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerState:
    """Everything that a server half may look at.

    Attributes:
        round: number of the round that ends (0 before the first).
        robots: all registered robots by id.
        memory: what the strategy returned last time.
        blobs: tensors of the current keys, one read from disk at each access.
        signature: names, shapes and dtypes of the model.
    """

    round: int
    robots: Mapping[str, RobotInfo]
    memory: Memory
    blobs: Mapping[str, Tensors]
    signature: ModelSignature


@dataclass(frozen=True)
class Aggregate:
    """Outcome of a round.

    Attributes:
        rows: per tensor name, the new arrays by key. Read once, in order; a writer stores each row before it takes
            the next, so memory peaks at robots x largest tensor. Within one key a name appears once.
        plans: what each registered robot does next. Every key they name is in ``rows`` or ``kept``.
        kept: keys that go on unchanged.
        memory: what the strategy wants to see next time.
        serving: what an inference node needs for :meth:`Strategy.choose`.
        models: keys that inference may load, in the order of the clusters. Each holds exactly the travelling
            tensors, in the order of the signature; other keys may hold anything.
        clusters: indices into ``models`` that each robot belongs to; empty without clusters.
        log: figures worth keeping with the round.
    """

    rows: Iterable[tuple[str, Mapping[str, Array]]]
    plans: Mapping[str, RobotPlan]
    models: tuple[str, ...]
    kept: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
    serving: Memory = field(default_factory=Memory)
    clusters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    log: Mapping[str, Json] = field(default_factory=dict)


@dataclass
class LocalState:
    """What a local rule works on. PyTorch lives here, in the robot's trainer.

    Attributes:
        model: the network that is trained, on its device.
        start: detached copy of the weights at the start of the round, by state-dict name.
        memory: what the rule returned last round on this robot.
        extras: tensors of the plan's ``extras``, by key.
        values: numbers of the plan.
        num_samples: local training samples.
    """

    model: "nn.Module"
    start: Mapping[str, "Tensor"]
    memory: Memory
    extras: Mapping[str, Tensors]
    values: Mapping[str, Json]
    num_samples: int


@dataclass(frozen=True)
class LocalResult:
    """What a rule adds to the trained weights."""

    extras: Tensors = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    mask: Array | None = None
    memory: Memory = field(default_factory=Memory)


class LocalRule:
    """Robot half: hooks of the one training loop (``fed_core.training.local``). The default changes nothing."""

    def begin(self, state: LocalState) -> None:
        """Look at the state before the first step (may set ``requires_grad`` or probe the model)."""

    def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: "Tensor") -> "Tensor":
        """Return the loss to minimise, () float32, from the task's own loss."""
        return task_loss

    def correct_gradient(self, state: LocalState) -> None:
        """Change ``p.grad`` of the parameters in place, before clipping and the optimiser step."""

    def finish(self, state: LocalState) -> LocalResult:
        """Return what travels beside the weights and what the robot remembers."""
        return LocalResult()


class Strategy(ABC):
    """A federated method: a frozen dataclass whose fields are its options, registered under its name."""

    #: One line: authors, year, link.
    paper: ClassVar[str] = ""
    #: Kind of descriptor that every robot sends before round 1, or None.
    descriptor: ClassVar[str | None] = None

    def begin(self, state: ServerState) -> Aggregate:
        """Return what the first round starts from; ``state.blobs`` holds the initial model under "global"."""
        plans = {robot_id: RobotPlan((GLOBAL,)) for robot_id in state.robots}
        return Aggregate(rows=(), plans=plans, models=(GLOBAL,), kept=(GLOBAL,))

    @abstractmethod
    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the models after a round. Inputs stay untouched; the order of ``updates`` does not matter."""

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Return the plan of a robot that registers after round 1 began, and the new memory."""
        return RobotPlan((GLOBAL,)), state.memory

    def choose(self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory) -> Choice:
        """Return the models for a sequence. ``descriptor`` is None for strategies that need none."""
        return Choice(keys=(models[0],))

    def travels(self, signature: ModelSignature) -> frozenset[str]:
        """Return the names of the tensors that leave the robot."""
        return frozenset(signature.names)

    def local_rule(self) -> LocalRule:
        """Return a fresh robot half."""
        return LocalRule()


strategies: Registry[type[Strategy]] = Registry("strategy", "fed_core.strategies")


def weighted_mean(name: str, updates: Sequence[Update], shares: Sequence[float]) -> Array:
    """Return the mean of tensor ``name`` over ``updates``, in float64 and back to its dtype.

    Integer tensors (counters) take the maximum (fedepth spec 5.3). ``shares`` sum to 1.
    """
    first = updates[0].weights[name]
    if not np.issubdtype(first.dtype, np.floating):
        return np.maximum.reduce([u.weights[name] for u in updates])
    total = np.zeros(first.shape, np.float64)
    for update, share in zip(updates, shares, strict=True):
        total += update.weights[name].astype(np.float64) * share
    return total.astype(first.dtype)


def in_order(updates: Sequence[Update]) -> list[Update]:
    """Return ``updates`` by robot id, so that sums do not depend on who arrived first; none is an error."""
    if not updates:
        raise StrategyError("no update arrived in this round; nothing to aggregate")
    return sorted(updates, key=lambda update: update.robot_id)


def mean_rows(updates: Sequence[Update], key: str = GLOBAL) -> Iterator[tuple[str, Mapping[str, Array]]]:
    """Yield the sample-weighted mean of every tensor under ``key``."""
    total = sum(update.num_samples for update in updates)
    shares = [update.num_samples / total for update in updates]
    for name in updates[0].weights:
        yield name, {key: weighted_mean(name, updates, shares)}
