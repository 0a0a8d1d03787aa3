"""Which layers a robot keeps to itself: how a network is divided, and the rules that choose by score (fedcka 4, 5).

A *unit* is a group of tensors that one bit of a mask switches; units share no tensor. A *layer* is what a score belongs
to: the output of one module, and the units below that module. By default the two are the same. Entries are the single
numbers of the floating tensors, BatchNorm statistics included; integer tensors are in no unit and never travel.

Masks here are True where a unit is *personal*; on the wire a bit is 1 where it is shared.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fed_core.errors import ConfigError, StrategyError
from fed_core.types import ModelSignature, TensorSpec

Bits = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

DIVISIONS = ("owner", "released", "block")
FITS = ("whole", "skip")

_CONVOLUTIONS = ("conv", "linear")
#: Class names that are layers in the released code, and words of class or name that make one (fedcka spec 4).
_LAYER_CLASSES = frozenset(
    {"Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Linear"}
    | {"NonDynamicallyQuantizableLinear", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "GroupNorm"}
    | {"LayerNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "MultiheadAttention"}
)
_LAYER_WORDS = ("norm", "attention", "attn", "multihead", "embedding", "projection", "ffn", "mlp")
_NO_LAYER_WORDS = (
    *("relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "softplus", "hardswish"),
    *("dropout", "droppath", "pool", "upsample", "identity"),
)


@dataclass(frozen=True)
class Layer:
    """What one score belongs to.

    Attributes:
        name: path of the module whose output is compared.
        units: indices of the units that the layer takes with it.
    """

    name: str
    units: tuple[int, ...]


@dataclass(frozen=True)
class Division:
    """A network as masks see it, in its own order.

    Attributes:
        names: of the units, one each.
        units: tensors of each unit.
        sizes: (U,) entries of each unit.
        layers: what is scored.
        unscored: floating tensors of no unit; they are always shared.
        rest: entries of those.
    """

    names: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]
    sizes: npt.NDArray[np.int64]
    layers: tuple[Layer, ...]
    unscored: tuple[str, ...]
    rest: int

    @property
    def entries(self) -> int:
        """P, the entries that may become personal."""
        return int(self.sizes.sum())

    def personal_entries(self, personal: Bits) -> int:
        """Return the entries of the personal units."""
        return int(self.sizes[personal].sum())

    def ratio(self, personal: Bits) -> float:
        """Return the share of P that is personal."""
        return self.personal_entries(personal) / max(self.entries, 1)

    def tensors(self, units: Bits) -> tuple[str, ...]:
        """Return the tensors of the chosen units."""
        return tuple(name for chosen, unit in zip(units, self.units, strict=True) if chosen for name in unit)


def divide(signature: ModelSignature, kind: str = "owner") -> Division:
    """Return the units and layers of a network.

    Args:
        signature: of the network; "released" reads its ``modules``.
        kind: "owner", a unit is a module that owns parameters, attention as one; "block" joins a convolution or linear
            layer with the norm after it; "released" scores the overlapping modules that the released code hooks.

    Raises:
        ConfigError: no such kind.
        StrategyError: "released" needs the network's modules, and the signature names none.
    """
    if kind not in DIVISIONS:
        raise ConfigError(f"layers cannot be divided by {kind!r}; known: {', '.join(DIVISIONS)}")
    owners = _owners(signature)
    if kind == "released":
        return _released(signature, owners)
    groups = _by_module(owners)
    scored = {name: name for name in groups}
    if kind == "block":
        groups, scored = _fused(groups)
    layers = tuple(Layer(scored[name], (place,)) for place, name in enumerate(groups))
    return _division(signature, groups, layers)


def exact_share(share: float, total: int) -> Fraction:
    """Return a share of a number as it is written: 0.29 of 100 are 29, not a little less."""
    return Fraction(str(share)) * total


class MaskRule(ABC):
    """Chooses what stays personal."""

    @abstractmethod
    def first_round(self) -> int:
        """Return the first round at whose end layers may become personal."""

    def wants_scores(self, division: Division, personal: Bits) -> bool:
        """Tell whether scores could change the mask at all."""
        return True

    @abstractmethod
    def choose(self, scores: Floats, division: Division, personal: Bits) -> Bits:
        """Return the new mask.

        Args:
            scores: (L,) of the layers; NaN = not scored.
            division: the network's.
            personal: (U,) mask of the round before.
        """


@dataclass(frozen=True)
class Threshold(MaskRule):
    """Personal are the layers with a score below ``tau``, each round anew; a layer without a score is shared.

    Attributes:
        tau: strict bound.
        tau_high: hysteresis, a personal layer is shared again above this score; None = from ``tau`` on.
        start_round: first masked round.
    """

    tau: float
    tau_high: float | None = None
    start_round: int = 2

    def __post_init__(self) -> None:
        if self.tau_high is not None and self.tau_high < self.tau:
            raise ConfigError(f"the upper threshold {self.tau_high:g} is below the lower one {self.tau:g}")

    def first_round(self) -> int:
        """Return the first masked round."""
        return self.start_round

    def choose(self, scores: Floats, division: Division, personal: Bits) -> Bits:
        """Return the new mask."""
        chosen = np.zeros(len(division.units), np.bool_)
        for score, layer in zip(scores, division.layers, strict=True):
            units = list(layer.units)
            stays = self.tau_high is not None and bool(personal[units].all()) and score <= self.tau_high
            if score < self.tau or stays:
                chosen[units] = True
        return chosen


@dataclass(frozen=True)
class Percentage(MaskRule):
    """Each round a share of the entries more becomes personal for good, lowest scores first, up to ``rho``.

    A layer is taken whole, so a step, and the end, may go over its budget.

    Attributes:
        rho: share of all entries at the end.
        start_round: first masked round.
        steps: rounds that the share is spread over.
        fit: "skip" leaves out layers of more than twice the entries that are still to be chosen.
    """

    rho: float
    start_round: int = 11
    steps: int = 20
    fit: str = "whole"

    def first_round(self) -> int:
        """Return the first masked round."""
        return self.start_round

    def budget(self, division: Division, personal: Bits) -> int:
        """Return the entries that this round may take: min(step, cap - u)."""
        share = exact_share(self.rho, division.entries)
        return min(math.floor(share / self.steps), math.floor(share) - division.personal_entries(personal))

    def wants_scores(self, division: Division, personal: Bits) -> bool:
        """Tell whether the cap is not reached."""
        return self.budget(division, personal) > 0

    def choose(self, scores: Floats, division: Division, personal: Bits) -> Bits:
        """Return the grown mask."""
        chosen, taken, budget = personal.copy(), 0, self.budget(division, personal)
        for place in np.argsort(scores, kind="stable"):  # NaN comes last
            if taken >= budget or not math.isfinite(scores[place]):
                break
            units = [unit for unit in division.layers[place].units if not chosen[unit]]
            size = int(division.sizes[units].sum()) if units else 0
            if not size or (self.fit == "skip" and size > 2 * (budget - taken)):
                continue
            chosen[units] = True
            taken += size
        return chosen


def _owners(signature: ModelSignature) -> dict[str, list[TensorSpec]]:
    """Return the floating tensors by the module that holds them, in order."""
    owners: dict[str, list[TensorSpec]] = {}
    for spec in signature.tensors:
        if spec.is_floating:
            owners.setdefault(spec.owner, []).append(spec)
    return owners


def _by_module(owners: Mapping[str, list[TensorSpec]]) -> dict[str, list[TensorSpec]]:
    """Return the modules with parameters of their own; attention takes in its output projection."""
    attentions = [f"{owner}." for owner, specs in owners.items() if any(_is_projection(s) for s in specs)]
    groups: dict[str, list[TensorSpec]] = {}
    for owner, specs in owners.items():
        above = next((stem[:-1] for stem in attentions if owner.startswith(stem)), owner)
        if any(spec.trainable for spec in specs) or above != owner:
            groups.setdefault(above, []).extend(specs)
    return groups


def _is_projection(spec: TensorSpec) -> bool:
    """Tell whether a tensor is the joint projection of an attention module, as PyTorch's own holds it."""
    return spec.name.rpartition(".")[2] in ("in_proj_weight", "q_proj_weight")


def _fused(groups: Mapping[str, list[TensorSpec]]) -> tuple[dict[str, list[TensorSpec]], dict[str, str]]:
    """Return the groups with norms joined to the layer before, and the module whose output each is scored by."""
    joined: dict[str, list[TensorSpec]] = {}
    scored: dict[str, str] = {}
    last = ""
    for name, specs in groups.items():
        beside = name.rpartition(".")[0] == last.rpartition(".")[0]
        if last and beside and _is_norm(specs) and _is_convolution(joined[last]) and scored[last] == last:
            joined[last].extend(specs)
            scored[last] = name
            continue
        joined[name], scored[name], last = list(specs), name, name
    return joined, scored


def _is_norm(specs: Sequence[TensorSpec]) -> bool:
    return "norm" in specs[0].module.lower()


def _is_convolution(specs: Sequence[TensorSpec]) -> bool:
    return any(word in specs[0].module.lower() for word in _CONVOLUTIONS)


def _division(signature: ModelSignature, groups: Mapping[str, list[TensorSpec]], layers: tuple[Layer, ...]) -> Division:
    units = tuple(tuple(spec.name for spec in specs) for specs in groups.values())
    sizes = np.array([sum(spec.size for spec in specs) for specs in groups.values()], np.int64)
    inside = {name for unit in units for name in unit}
    outside = [spec for spec in signature.tensors if spec.is_floating and spec.name not in inside]
    return Division(tuple(groups), units, sizes, layers, tuple(s.name for s in outside), sum(s.size for s in outside))


def _released(signature: ModelSignature, owners: Mapping[str, list[TensorSpec]]) -> Division:
    """Return the layers of the released code, which overlap; units are modules, so that one bit each is enough."""
    if not signature.modules:
        text = f"layers 'released' needs the modules of the network, but {signature.architecture!r} names none"
        raise StrategyError(f"{text}; take layers owner or block")
    parents = {path.rpartition(".")[0] for path in signature.modules if path}
    hooked = [path for path in signature.modules if path and _is_hooked(path, signature, owners, path not in parents)]
    stems = tuple(hooked)
    groups = {owner: specs for owner, specs in owners.items() if any(_below(owner, stem) for stem in stems)}
    layers = tuple(Layer(p, tuple(i for i, owner in enumerate(groups) if _below(owner, p))) for p in hooked)
    return _division(signature, groups, tuple(layer for layer in layers if layer.units))


def _below(owner: str, path: str) -> bool:
    return owner == path or owner.startswith(f"{path}.")


def _is_hooked(path: str, signature: ModelSignature, owners: Mapping[str, list[TensorSpec]], leaf: bool) -> bool:
    kind = signature.modules[path]
    if any(word in kind.lower() for word in _NO_LAYER_WORDS):
        return False
    words = f"{path} {kind}".lower()
    trained = any(spec.trainable for spec in owners.get(path, ()))
    return kind in _LAYER_CLASSES or any(word in words for word in _LAYER_WORDS) or (leaf and trained)
