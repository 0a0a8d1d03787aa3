"""Methods in which every robot keeps single elements of the weights for itself (FedSelect, FedMC; fedcka spec 6).

The first ``warmup`` rounds are FedAvg. After each later round a robot keeps the most important elements that it still
shares, ``step`` of the model at a time until ``cap`` of it is its own; what is its own stays so for ever. Elements as
important as the last one that fits enter, too; those of no importance at all never do.

An element is averaged, by samples, over the robots that share it, and goes on as it was where none does. The tensors
that travel are zero where the robot keeps an element, and "shared/<name>" tells which those are, one bit per element,
set where it is shared. The robot remembers its own elements the same way and puts them back into what it receives.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fed_core.config import check, option
from fed_core.errors import StrategyError
from fed_core.masks import exact_share
from fed_core.strategies.averaging import Floats, Mixer, Row, Rule, rule_of
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    LocalResult,
    LocalRule,
    LocalState,
    RobotInfo,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    in_order,
)
from fed_core.strategies.ledger import to_array
from fed_core.types import Array, Json, Memory, ModelSignature, TensorSpec

if TYPE_CHECKING:
    from torch import Tensor

SHARED, PERSONAL, ROUND = "shared/", "personal/", "round"
#: Values of all robots that are converted to float64 at once (16 MB).
_BLOCK = 2**21


@dataclass(frozen=True)
class ElementMasked(Strategy):
    """Key "global" is the model, whole in every round."""

    warmup: int = option(10, help="first rounds, which are FedAvg's", unit="count", low=0)
    step: float = option(0.02, help="share of the model that becomes a robot's own after a round", low=0.0, high=1.0)
    cap: float = option(0.40, help="share of the model that may be a robot's own", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        check(self)

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model, all of it shared."""
        return replace(super().begin(state), plans=_plans(state))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the mean over the robots that share an element; robots whose masks do not fit are left out."""
        ordered = in_order(updates)
        wrong = {update.robot_id: text for update in ordered if (text := misfit(update, state.signature))}
        fitting = [update for update in ordered if update.robot_id not in wrong]
        if not fitting:
            raise StrategyError(f"no update of this round has a mask that fits: {next(iter(wrong.values()))}")
        ratios = {u.robot_id: u.scalars.get("personal_ratio", 0.0) for u in fitting}
        log: dict[str, Json] = {
            "personal_ratio": {robot_id: value for robot_id, value in ratios.items() if math.isfinite(value)},
            "warnings": [f"robot {robot_id!r} is left out: {text}" for robot_id, text in wrong.items()],
        }
        return Aggregate(rows=mean_of_shared(fitting, state), plans=_plans(state), models=(GLOBAL,), log=log)

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Start a newcomer from the model, with no element of its own."""
        return _plan(state), state.memory

    def merge(self, name: str, own: Array | None, loaded: Array | None, memory: Memory) -> Array:
        """Return what was loaded, with the robot's own elements put back."""
        value = super().merge(name, own, loaded, memory)
        bits = memory.tensors.get(PERSONAL + name)
        if bits is None or own is None or loaded is None:
            return value
        if bits.shape != (-(-loaded.size // 8),):
            raise StrategyError(f"the mask of tensor {name!r} has {bits.size} byte(s), not {-(-loaded.size // 8)}")
        return np.where(unpack(bits, loaded.shape), own, loaded)

    def counted(self, signature: ModelSignature) -> tuple[TensorSpec, ...]:
        """Return the tensors whose elements make up the size P of the model."""
        return tuple(spec for spec in signature.tensors if rule_of(spec) is Rule.MEAN)

    def room(self, total: int, personal: int) -> int:
        """Return how many of ``total`` elements become personal in a round that begins with ``personal`` of them."""
        step, cap = (math.floor(exact_share(share, total)) for share in (self.step, self.cap))
        return max(min(step, cap - personal), 0)


def _plan(state: ServerState) -> RobotPlan:
    return RobotPlan((GLOBAL,), values={ROUND: state.round + 1})


def _plans(state: ServerState) -> dict[str, RobotPlan]:
    return {robot_id: _plan(state) for robot_id in state.robots}


def pack(mask: Array) -> Array:
    """Return a bool mask of any shape as (ceil(N / 8),) uint8."""
    return np.packbits(mask.reshape(-1))


def unpack(bits: Array, shape: tuple[int, ...]) -> Array:
    """Return what :func:`pack` packed, a bool mask of ``shape``."""
    return np.unpackbits(bits, count=math.prod(shape)).view(np.bool_).reshape(shape)


def misfit(update: Update, signature: ModelSignature) -> str:
    """Return what is wrong with a robot's masks, "" where they fit the model."""
    sizes = {SHARED + s.name: -(-math.prod(s.shape) // 8) for s in signature.tensors if rule_of(s) is Rule.MEAN}
    for name, bits in update.extras.items():
        if name not in sizes:
            return f"{name!r} is no mask of a tensor of this model"
        if bits.dtype != np.uint8 or bits.shape != (sizes[name],):
            return f"mask {name!r} is {bits.dtype} {bits.shape}; expected uint8 ({sizes[name]},), one bit per element"
    return ""


def mean_of_shared(updates: Sequence[Update], state: ServerState) -> Iterator[Row]:
    """Yield the sample-weighted mean of every element over the robots that share it."""
    counts = np.array([update.num_samples for update in updates], np.float64)
    shares = counts / counts.sum()
    sources = {update.robot_id: update.weights for update in updates}
    for spec in state.signature.tensors:
        masks = [_shared(update, spec) for update in updates]
        if all(mask.all() for mask in masks):
            alone = replace(state.signature, tensors=(spec,))
            yield from Mixer(alone, state.combine).rows(sources, {GLOBAL: shares}, state.blobs)
            continue
        arrays = [update.weights[spec.name].reshape(-1) for update in updates]
        mean = _element_means(arrays, masks, shares, state.blobs[GLOBAL][spec.name])
        yield spec.name, {GLOBAL: mean}


def _shared(update: Update, spec: TensorSpec) -> Array:
    """Return a robot's mask of a tensor, (N,) bool, True where it shares the element."""
    size, bits = math.prod(spec.shape), update.extras.get(SHARED + spec.name)
    return np.ones(size, np.bool_) if bits is None else unpack(bits, (size,))


def _element_means(arrays: Sequence[Array], masks: Sequence[Array], shares: Floats, old: Array) -> Array:
    """Return the means; as :func:`~fed_core.strategies.averaging.linear`, an element's first sharer is its base."""
    out = np.array(old).reshape(-1)
    step = max(1024, _BLOCK // len(arrays))
    for low in range(0, out.size, step):
        block = np.stack([array[low : low + step] for array in arrays]).astype(np.float64)
        shared = np.stack([mask[low : low + step] for mask in masks])
        weights = shares[:, None] * shared
        total, some = weights.sum(axis=0), shared.any(axis=0)
        partly = some & ~shared.all(axis=0)  # where all share, the shares sum to 1 as they are, bit by bit
        weights[:, partly] /= total[partly]
        base = np.take_along_axis(block, shared.argmax(axis=0)[None], axis=0)[0]
        mean = base.copy()
        for values, weight in zip(block, weights, strict=True):
            mean += weight * (values - base)
        out[low : low + step][some] = mean[some]
    return out.reshape(old.shape)


def grow(personal: Mapping[str, Array], importance: Mapping[str, Array], count: int) -> dict[str, Array]:
    """Return the masks with the ``count`` most important shared elements added, and those as important as the last.

    Args:
        personal: bool masks by tensor, True = the robot's own.
        importance: of the elements, by tensor, of the same shapes; 0 = never added.
        count: at least 1.
    """
    open_to = {name: (values > 0) & ~personal[name] for name, values in importance.items()}
    candidates = np.concatenate([values[open_to[name]] for name, values in importance.items()])
    grown = dict(personal)
    if candidates.size == 0:
        return grown
    place = max(candidates.size - count, 0)
    cutoff = np.partition(candidates, place)[place]
    for name, values in importance.items():
        grown[name] = personal[name] | (open_to[name] & (values >= cutoff))
    return grown


class ElementRule(LocalRule):
    """Grows the robot's own part of the model after a round.

    Args:
        options: of the strategy.
    """

    def __init__(self, options: ElementMasked) -> None:
        self._options = options

    @abstractmethod
    def importance(self, state: LocalState) -> Mapping[str, Array]:
        """Return the importance of the elements that may become the robot's own, by tensor."""

    def begin(self, state: LocalState) -> None:
        """Take up the robot's own elements."""
        self._masked = int(state.values[ROUND]) > self._options.warmup  # type: ignore[arg-type]
        self._counted = self._options.counted(state.signature)
        bits = {spec.name: state.memory.tensors.get(PERSONAL + spec.name) for spec in self._counted}
        self.personal = {
            spec.name: np.zeros(spec.shape, np.bool_) if found is None else unpack(found, spec.shape)
            for spec, found in zip(self._counted, bits.values(), strict=True)
        }

    @property
    def masked(self) -> bool:
        """Whether the warm-up is over."""
        return self._masked

    def finish(self, state: LocalState) -> LocalResult:
        """Keep the most important elements; send the rest and the mask, nothing more than FedAvg in the warm-up."""
        total = sum(mask.size for mask in self.personal.values())
        room = self._options.room(total, _number(self.personal)) if self.masked else 0
        if room > 0:
            self.personal = grow(self.personal, self.importance(state), room)
        kept = {name: mask for name, mask in self.personal.items() if mask.any()}
        shared = _bytes(state.signature) - sum(
            int(kept[spec.name].sum()) * np.dtype(spec.dtype).itemsize for spec in self._counted if spec.name in kept
        )
        scalars = {
            "personal_ratio": _number(kept) / max(total, 1),
            "upload_bytes": float(shared + (-(-total // 8) if self.masked else 0)),
        }
        if not self.masked:
            return LocalResult(scalars=scalars)
        tensors = state.model.state_dict()
        return LocalResult(
            extras={SHARED + name: pack(~mask) for name, mask in self.personal.items()},
            scalars=scalars,
            memory=Memory({PERSONAL + name: pack(mask) for name, mask in kept.items()}),
            weights={name: _without(mask, tensors[name]) for name, mask in kept.items()},
        )


def _number(masks: Mapping[str, Array]) -> int:
    return sum(int(mask.sum()) for mask in masks.values())


def _bytes(signature: ModelSignature) -> int:
    """Return the bytes of all floating tensors (fedcka spec 7.4)."""
    return sum(spec.size_bytes for spec in signature.tensors if rule_of(spec) is Rule.MEAN)


def _without(mask: Array, tensor: "Tensor") -> Array:
    """Return a copy of a tensor that is zero where ``mask`` is set."""
    array = np.array(tensor.detach().cpu().numpy())
    array[mask] = 0
    return array


def distance(state: LocalState, names: Sequence[str]) -> dict[str, Array]:
    """Return ``|w - w_start|`` of the tensors ``names``."""
    tensors = state.model.state_dict()
    return {name: np.abs(to_array(tensors[name]) - to_array(state.start[name])) for name in names}
