"""Averaging models tensor by tensor, in float64; who is averaged with what weight is the strategies' business.

What happens to a tensor follows from its entry in the model's signature (fedepth spec 5.3):

- floating point (parameters and buffers): weighted mean, back in its dtype. With ``batchnorm = "moments"`` the running
  variance of a norm layer becomes that of the pooled samples;
- integer and of a norm layer, or a single number: a counter (``num_batches_tracked``), the maximum;
- any other integer or boolean: a constant (index table, mask), equal everywhere and copied.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fed_core.errors import StrategyError
from fed_core.types import Array, ModelSignature, Tensors, TensorSpec

Floats: TypeAlias = npt.NDArray[np.float64]
#: (R, N) values of R robots and (K, R) shares, whose rows sum to 1 -> (K, N). A share of 0 means "not a member", so
#: that a median or a trimmed mean can take the place of :func:`linear`.
Combine: TypeAlias = Callable[[Floats, Floats], Floats]
Row: TypeAlias = tuple[str, Mapping[str, Array]]

#: Modules with running statistics, by class name.
NORMS = frozenset({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"})
#: Values of all robots that are converted to float64 at once (2 MB: they stay in a processor's cache), and the fewest
#: of one robot, below which the calls cost more than the values.
_BLOCK, _FEWEST = 2**18, 4096


class Rule(Enum):
    """How a tensor is merged."""

    MEAN = "mean"
    MAXIMUM = "maximum"
    CONSTANT = "constant"


def rule_of(spec: TensorSpec) -> Rule:
    """Return how the tensor of ``spec`` is merged."""
    if spec.is_floating:
        return Rule.MEAN
    counter = spec.dtype != "bool" and (spec.module in NORMS or spec.shape == ())
    return Rule.MAXIMUM if counter and not spec.trainable else Rule.CONSTANT


def constants(signature: ModelSignature) -> frozenset[str]:
    """Return the tensors that no update may change; whoever checks updates compares them with the initial model."""
    return frozenset(spec.name for spec in signature.tensors if rule_of(spec) is Rule.CONSTANT)


def linear(block: Floats, shares: Floats) -> Floats:
    """Return the weighted means, as base + sum of share x (value - base).

    The base is a row's first member: equal values come back bit by bit, and so does a single member. The robots are
    added one after the other, so the bits depend on no library and no number of threads.
    """
    out, walk = np.empty((len(shares), block.shape[1])), np.empty(block.shape[1])
    for row, mean in zip(shares, out, strict=True):
        first, *rest = np.flatnonzero(row)
        mean[:] = block[first]
        for member in rest:
            np.subtract(block[member], block[first], out=walk)
            np.multiply(walk, row[member], out=walk)
            np.add(mean, walk, out=mean)
    return out


class Choosing(ABC):
    """A :data:`Combine` that first decides whose values count, and how they become one; robust rules are such."""

    @abstractmethod
    def choose(self, keys: Sequence[str], labels: Sequence[str], shares: Floats) -> tuple[Floats, Sequence[Combine]]:
        """Return new shares and a rule for each row.

        Args:
            keys: (K,) new models.
            labels: (R,) sources that hold the tensor.
            shares: (K, R) what a mean would weigh them by; a row of zeros has no member.

        Returns:
            (K, R) shares, where a row of zeros keeps its old tensor, and the K rules.
        """

    def __call__(self, block: Floats, shares: Floats) -> Floats:
        """Return the means; rows that went through :meth:`choose` have rules of their own."""
        return linear(block, shares)


@dataclass(frozen=True)
class Mixer:
    """Makes new models out of the robots' models.

    Attributes:
        signature: the tensors, their types and owners.
        combine: weighted mean, or a robust stand-in.
        batchnorm: "average" or "moments", see the module's text.
    """

    signature: ModelSignature
    combine: Combine = linear
    batchnorm: str = "average"

    def rows(
        self, sources: Mapping[str, Tensors], shares: Mapping[str, Floats], old: Mapping[str, Tensors] | None = None
    ) -> Iterator[Row]:
        """Yield every tensor of the new models, in the signature's order.

        A source that does not hold a tensor (a mask, a private layer) is left out and the other shares grow. Where
        no member holds it, the tensor of the same key in ``old`` goes on; without that the key goes without it.

        Args:
            sources: tensors by robot or key; each is read once per row (running means twice with "moments").
            shares: by new key, (R,) weights of the sources, in their order; they sum to 1.
            old: tensors of the keys before this round.
        """
        table = np.array(list(shares.values()), np.float64).reshape(len(shares), len(sources))
        for spec in self.signature.tensors:
            held = [label for label, tensors in sources.items() if spec.name in tensors]
            columns = [label in held for label in sources]
            weights = table[:, columns]
            total = weights.sum(axis=1)
            if len(held) < len(sources):
                weights = np.divide(weights, total[:, None], out=np.zeros_like(weights), where=total[:, None] > 0)
            fresh = self._fresh(spec, {label: sources[label] for label in held}, list(shares), weights)
            row: dict[str, Array] = {}
            for place, key in enumerate(shares):
                if place in fresh:
                    row[key] = fresh[place]
                elif old is not None and key in old and spec.name in old[key]:
                    row[key] = old[key][spec.name]
            if row:
                yield spec.name, row

    def _fresh(
        self, spec: TensorSpec, sources: Mapping[str, Tensors], keys: Sequence[str], weights: Floats
    ) -> dict[int, Array]:
        """Return the new tensor of every key that has a member, by its place in ``keys``."""
        combines: Sequence[Combine] = [self.combine] * len(keys)
        if isinstance(self.combine, Choosing) and weights.any() and rule_of(spec) is not Rule.CONSTANT:
            weights, combines = self.combine.choose(keys, list(sources), weights)
        live = [int(place) for place in np.flatnonzero(weights.any(axis=1))]
        found: dict[int, Array] = {}
        for combine in dict.fromkeys(combines[place] for place in live):
            places = [place for place in live if combines[place] == combine]
            mixer = self if combine is self.combine else replace(self, combine=combine)
            found.update(zip(places, mixer._tensor(spec, sources, weights[places]), strict=True))
        return found

    def blend(self, models: Mapping[str, Tensors]) -> Iterator[tuple[str, Array]]:
        """Yield the uniform mean of ``models``, tensor by tensor, over those that hold the tensor."""
        uniform = np.full(len(models), 1.0 / len(models))
        for name, row in self.rows(models, {"": uniform}):
            yield name, row[""]

    def derive(
        self, rows: Iterable[Row], shares: Mapping[str, Mapping[str, float]], held: Mapping[str, Tensors]
    ) -> Iterator[Row]:
        """Yield, for each of ``rows``, further models made of its models and of ``held`` ones.

        Args:
            rows: models of this round, tensor by tensor in the signature's order.
            shares: by new key, the weights of keys of ``rows`` or ``held``; they sum to 1.
            held: models that exist already.
        """
        specs = {spec.name: spec for spec in self.signature.tensors}
        means: dict[str, dict[str, Array]] = {}
        for name, row in rows:
            stale = {key: tensors[name] for key, tensors in held.items() if key not in row and name in tensors}
            window = {key: {**means.get(key, {}), name: array} for key, array in (stale | dict(row)).items()}
            if specs[name].module in NORMS and name == f"{specs[name].owner}.running_mean":
                means = window
            yield name, self._derived(specs[name], window, shares)

    def _derived(
        self, spec: TensorSpec, sources: Mapping[str, Tensors], shares: Mapping[str, Mapping[str, float]]
    ) -> dict[str, Array]:
        single = {key: next(iter(row)) for key, row in shares.items() if len(row) == 1}
        several = [row for key, row in shares.items() if key not in single]
        table = np.array([[row.get(key, 0.0) for key in sources] for row in several], np.float64)
        mixed = iter(self._tensor(spec, sources, table) if several else [])
        return {key: sources[single[key]][spec.name] if key in single else next(mixed) for key in shares}

    def _tensor(self, spec: TensorSpec, sources: Mapping[str, Tensors], weights: Floats) -> list[Array]:
        arrays = {label: tensors[spec.name] for label, tensors in sources.items()}
        values = list(arrays.values())
        rule = rule_of(spec)
        if rule is Rule.CONSTANT:
            return _constant(spec.name, arrays, len(weights))
        if rule is Rule.MAXIMUM:
            return [np.maximum.reduce([values[i] for i in np.flatnonzero(row)]) for row in weights]
        means = self._means(spec, sources)
        if means is not None:
            return self._pooled_variance(values, means, weights)
        return self._combined(values, weights)

    def _means(self, spec: TensorSpec, sources: Mapping[str, Tensors]) -> list[Array] | None:
        """Return the running means that belong to a running variance, if those two are to be pooled."""
        if self.batchnorm != "moments" or spec.module not in NORMS or spec.name != f"{spec.owner}.running_var":
            return None
        return [tensors[f"{spec.owner}.running_mean"] for tensors in sources.values()]

    def _combined(self, arrays: Sequence[Array], weights: Floats) -> list[Array]:
        first = arrays[0]
        out = [np.empty(first.size, first.dtype) for _ in weights]
        flat = [array.reshape(-1) for array in arrays]
        step = min(max(_FEWEST, _BLOCK // len(arrays)), max(first.size, 1))
        room = np.empty((len(arrays), step))
        for low in range(0, first.size, step):
            block = room[:, : min(step, first.size - low)]
            for values, array in zip(block, flat, strict=True):
                values[:] = array[low : low + step]
            for mean, values in zip(out, self.combine(block, weights), strict=True):
                mean[low : low + step] = values
        return [array.reshape(first.shape) for array in out]

    def _pooled_variance(self, variances: Sequence[Array], means: Sequence[Array], weights: Floats) -> list[Array]:
        """Return v = sum p (v_c + m_c^2) - m^2, written as sum p (v_c + (m_c - m)^2), which never cancels."""
        mean, variance = np.stack(means).astype(np.float64), np.stack(variances).astype(np.float64)
        out = []
        for row in weights:
            shift = mean - self.combine(mean, row[None])
            pooled = self.combine(variance + shift * shift, row[None])[0]
            out.append(pooled.astype(variances[0].dtype))
        return out


def _constant(name: str, arrays: Mapping[str, Array], count: int) -> list[Array]:
    (first, reference), *others = arrays.items()
    for label, array in others:
        if not np.array_equal(array, reference):
            text = f"tensor {name!r} is a constant of the network, but {first!r} and {label!r} hold different values"
            raise StrategyError(f"{text}; use one version of the network everywhere")
    return [reference] * count
