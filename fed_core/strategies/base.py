"""What a federated method is: a server half, a robot half, and a choice at inference.

The server half is NumPy over memory-mapped tensors; PyTorch is imported only inside the robot half. Everything that a
half remembers goes in and out as :class:`~fed_core.types.Memory` or as blobs, so that a restart continues bit-exactly.

A *key* names a model or another set of tensors that the aggregator keeps as one blob: "global", "cluster/0",
"robot/spot1", "control". The nodes move keys; only the strategy knows what they mean. Whatever is as large as a model
(control variates, a hypernetwork, the drift of FedDyn) is a key: written through :attr:`Aggregate.rows`, tensor by
tensor, and read back through :attr:`ServerState.blobs`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fed_core.config import from_tree
from fed_core.errors import StrategyError
from fed_core.registry import Registry
from fed_core.strategies.averaging import Combine, Mixer, Row, linear
from fed_core.types import Array, Choice, Descriptor, Json, Memory, ModelSignature, Tensors

if TYPE_CHECKING:
    import torch
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
        weights: the tensors that travel (:meth:`Strategy.uploads`), one read from disk at each access.
        extras: further tensors of the strategy (control variates, importance scores).
        scalars: further numbers (loss, divergence).
        mask: (units,) bool or None: which units of the model (:meth:`Strategy.units`) this robot shares.
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
        load: keys averaged uniformly (:meth:`Strategy.blend`), tensor by tensor, over those that hold the tensor;
            :meth:`Strategy.merge` then decides what of it the robot takes.
        extras: keys handed to the local rule; they may name keys of ``load``, too.
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
        plans: what each robot started the ending round from.
        combine: how values of several robots become one; robust wrappers replace it.
    """

    round: int
    robots: Mapping[str, RobotInfo]
    memory: Memory
    blobs: Mapping[str, Tensors]
    signature: ModelSignature
    plans: Mapping[str, RobotPlan] = field(default_factory=dict)
    combine: Combine = linear


@dataclass(frozen=True)
class Aggregate:
    """Outcome of a round.

    Attributes:
        rows: per tensor name, the new arrays by key. Read once, in order; a writer stores each row before it takes
            the next, so memory peaks at robots x largest tensor. Within one key a name appears once.
        plans: what each registered robot does next. Every key they name is in ``rows`` or ``kept``.
        kept: keys that go on unchanged; a key in neither is forgotten.
        memory: what the strategy wants to see next time.
        serving: what an inference node needs for :meth:`Strategy.choose`.
        models: keys that inference may load, in the order of the clusters. Each holds exactly the travelling
            tensors, in the order of the signature; other keys may hold anything. Clusters that are still equal
            (before round 1) may share a key.
        clusters: indices into ``models`` that each robot belongs to; empty without clusters.
        log: figures worth keeping with the round; complete only after ``rows`` was read to its end.
    """

    rows: Iterable[tuple[str, Mapping[str, Array]]]
    plans: Mapping[str, RobotPlan]
    models: tuple[str, ...]
    kept: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
    serving: Memory = field(default_factory=Memory)
    clusters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    log: Mapping[str, Json] = field(default_factory=dict)


def _not_offered(*args: Any) -> Any:
    raise StrategyError("this trainer offers no probing of models, but the strategy's robot half needs it")


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
        signature: names, shapes and dtypes of the model.
        optimizer: the round's optimiser; a rule may put in and read out what it remembers.
        lr: learning rate of the current step (of the first parameter group).
        step: optimiser steps done in this round.
        share: share of the step's samples that the running batch holds. Below 1 where memory ran out and the batch was
            cut: the step then asks :meth:`LocalRule.loss` once for each part, and weighs them so.
        sums: what :meth:`LocalRule.loss` adds up over the parts of a step, by a name of the rule's own; empty when a
            step begins, and when it begins again because memory ran out.
        num_steps: optimiser steps of this round.
        epoch: current epoch of this round, from 0.
        num_epochs: epochs of this round.
        shared: what several rules of a round need and one of them computes, by a name of its own.
        of_batch: the same of the running batch; it ends with the batch, also where memory ran out.
        batches: ``batches(n)`` yields about n of the robot's own training samples in batches, without augmentation,
            the same ones for the same run, robot and round; ``batches(n, size)`` in batches of a size of its own.
        forward: ``forward(model, batch)`` returns what ``model`` (the trained one or a copy) makes of a batch.
        task_loss: ``task_loss(batch, outputs)`` returns the task's own loss, () float32.
    """

    model: "nn.Module"
    start: Mapping[str, "Tensor"]
    memory: Memory
    extras: Mapping[str, Tensors]
    values: Mapping[str, Json]
    num_samples: int
    signature: ModelSignature = ModelSignature("", ())
    optimizer: "torch.optim.Optimizer | None" = None
    lr: float = 0.0
    step: int = 0
    share: float = 1.0
    sums: dict[str, "Tensor"] = field(default_factory=dict)
    num_steps: int = 1
    epoch: int = 0
    num_epochs: int = 1
    shared: dict[str, Any] = field(default_factory=dict)
    of_batch: dict[str, Any] = field(default_factory=dict)
    batches: Callable[..., Iterable[Any]] = _not_offered
    forward: Callable[["nn.Module", Any], Any] = _not_offered
    task_loss: Callable[[Any, Any], "Tensor"] = _not_offered

    def add_share(self, name: str, value: "Tensor") -> None:
        """Add the running batch's share of a mean over the samples of the step to :attr:`sums`."""
        part = value.detach() * self.share
        self.sums[name] = self.sums[name] + part if name in self.sums else part


@dataclass(frozen=True)
class LocalResult:
    """What a rule adds to the trained weights.

    Attributes:
        extras: tensors that travel beside the weights.
        scalars: numbers that travel.
        mask: (units,) bool or None: which units are shared in this round.
        memory: what the rule wants to see next round; stays on this robot and may be as large as a model.
        weights: tensors that travel *instead of* the model's of the same name (clipped, noisy, or zero where the
            robot keeps an element for itself).
    """

    extras: Tensors = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    mask: Array | None = None
    memory: Memory = field(default_factory=Memory)
    weights: Tensors = field(default_factory=dict)


class LocalRule:
    """Robot half: hooks of the one training loop (``fed_core.training.local``). The default changes nothing."""

    def begin(self, state: LocalState) -> None:
        """Look at the state before the first step (may set ``requires_grad`` or probe the model)."""

    def begin_epoch(self, state: LocalState) -> None:
        """Choose what this epoch trains; called after the model was put into train mode."""

    def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: "Tensor") -> "Tensor":
        """Return the loss to minimise, () float32, from the task's own loss."""
        return task_loss

    def correct_gradient(self, state: LocalState) -> None:
        """Change ``p.grad`` of the parameters in place, before clipping and the optimiser step.

        Not called where gradients overflowed in float16: the optimiser then makes no step.
        """

    def after_step(self, state: LocalState) -> None:
        """Change the parameters in place, after the optimiser step of rate ``state.lr``."""

    def finish(self, state: LocalState) -> LocalResult:
        """Return what travels beside the weights and what the robot remembers."""
        return LocalResult()


class Strategy(ABC):
    """A federated method: a frozen dataclass whose fields are its options, registered under its name."""

    #: One line: authors, year, link.
    paper: ClassVar[str] = ""
    #: Kind of descriptor that every robot sends before round 1, or None.
    descriptor: ClassVar[str | None] = None
    #: Whether what a robot sends reaches other robots' models through :attr:`ServerState.combine` alone, so that a
    #: robust rule in its place guards them.
    combines: ClassVar[bool] = False

    def check_training(self, train: Mapping[str, Json]) -> None:  # noqa: B027 - most methods take everything
        """Refuse options of local training (as the fleet file gives them) that the method cannot work with.

        Raises:
            ConfigError: names both options.
        """

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

    def choose(
        self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory, robot_id: str = ""
    ) -> Choice:
        """Return the models for a sequence.

        Args:
            descriptor: of the sequence; None for strategies that need none.
            models: :attr:`Aggregate.models`.
            serving: :attr:`Aggregate.serving`.
            robot_id: robot that asks, for strategies with a model per robot; empty = none in particular.
        """
        return Choice(keys=(models[0],))

    def travels(self, signature: ModelSignature) -> frozenset[str]:
        """Return the names of the tensors that may leave the robot."""
        return frozenset(signature.names)

    def units(self, signature: ModelSignature) -> tuple[tuple[str, ...], ...]:
        """Return the groups of tensors that a mask switches, one bit each: by default the tensors of one module."""
        owners: dict[str, list[str]] = {}
        for spec in signature.tensors:
            owners.setdefault(spec.owner or spec.name, []).append(spec.name)
        return tuple(tuple(names) for names in owners.values())

    def uploads(self, signature: ModelSignature, mask: Array | None = None) -> frozenset[str]:
        """Return the tensors that an update with this mask holds: no more and no fewer."""
        names = self.travels(signature)
        if mask is None:
            return names
        units = self.units(signature)
        if mask.shape != (len(units),) or mask.dtype != np.bool_:
            raise StrategyError(f"mask is {mask.dtype} {mask.shape}; expected bool ({len(units)},), one bit per unit")
        return names & {name for unit, shared in zip(units, mask, strict=True) if shared for name in unit}

    def blend(self, models: Mapping[str, Tensors], signature: ModelSignature) -> Iterator[tuple[str, Array]]:
        """Yield the uniform mean of the models by key, tensor by tensor; robots and inference nodes average by this."""
        return Mixer(signature).blend(models)

    def merge(self, name: str, own: Array | None, loaded: Array | None, memory: Memory) -> Array:
        """Return the tensor that a robot goes on with, in training and in inference.

        Args:
            name: of the tensor.
            own: the robot's after its last training; before that, its freshly built network's.
            loaded: the plan's, None where no key of the plan holds it.
            memory: what the local rule remembered (a mask of its own).
        """
        value = own if loaded is None else loaded
        if value is None:
            raise StrategyError(f"tensor {name!r} is neither in the plan's models nor on the robot")
        return value

    def local_rule(self) -> LocalRule:
        """Return a fresh robot half."""
        return LocalRule()


strategies: Registry[type[Strategy]] = Registry("strategy", "fed_core.strategies")


def make_strategy(name: str, options: Mapping[str, Any]) -> Strategy:
    """Build a registered strategy; an unknown name or option raises :class:`~fed_core.errors.ConfigError`."""
    return from_tree(strategies.get(name), dict(options), where=f"strategy {name}")


def in_order(updates: Sequence[Update]) -> list[Update]:
    """Return ``updates`` by robot id, so that sums do not depend on who arrived first; none is an error."""
    if not updates:
        raise StrategyError("no update arrived in this round; nothing to aggregate")
    return sorted(updates, key=lambda update: update.robot_id)


def mean_rows(updates: Sequence[Update], state: ServerState, key: str = GLOBAL) -> Iterator[Row]:
    """Yield the sample-weighted mean of every tensor under ``key``.

    Each tensor is averaged over the robots that share it; one that nobody shares goes on as it was.
    """
    ordered = in_order(updates)
    counts = np.array([update.num_samples for update in ordered], np.float64)
    sources = {update.robot_id: update.weights for update in ordered}
    return Mixer(state.signature, state.combine).rows(sources, {key: counts / counts.sum()}, state.blobs)
