"""PCGrad: conflicting updates are projected onto each other's normal planes (Yu et al. 2020, arXiv:2001.06782).

An update counts as a gradient, ``g_i = w - w_i``. For every other robot j, in random order, an update that opposes
g_j loses its component along it: ``g_i <- g_i - <g_i, g_j> / (||g_j||^2 + 1e-8) g_j`` where the product is negative.
The model then moves against the mean of what is left, weighted by samples (fedcka spec 6). Round 1 is FedAvg.

Projections need inner products only. So a first pass over the tensors adds up the products of all pairs, the
coefficients of the projected updates follow from them, and a second pass makes the model: memory stays at robots x
largest tensor.

g_j is the update as it came, and buffers (BatchNorm statistics) are averaged as by FedAvg. With ``released`` both are
as in the code that FedCKA's tables were made with: g_j is what earlier projections left of it, and the statistics are
part of the update (G10).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.strategies.averaging import Floats, Mixer, Row, Rule, rule_of
from fed_core.strategies.base import GLOBAL, Aggregate, ServerState, Update, in_order, mean_rows, strategies
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.ledger import learned
from fed_core.types import Json, ModelSignature, Tensors

_EPS = 1e-8
#: Values of all robots that are converted to float64 at once (16 MB).
_BLOCK = 2**21


@strategies.register("pcgrad")
@dataclass(frozen=True)
class PCGrad(FedAvg):
    """One global model, as with FedAvg."""

    paper: ClassVar[str] = "Yu et al. 2020, arXiv:2001.06782"
    combines: ClassVar[bool] = False

    released: bool = option(
        False, help="project against already projected updates, BatchNorm statistics included, as FedCKA's code does"
    )
    seed: int = option(0, help="of the order in which an update meets the others", low=0)

    def __post_init__(self) -> None:
        check(self)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the model moved by the projected updates; in round 1 the mean."""
        outcome = super().aggregate(updates, state)
        if state.round <= 1:
            return outcome
        log: dict[str, Json] = {}
        return replace(outcome, rows=self._rows(in_order(updates), state, log), log=log)

    def _rows(self, updates: Sequence[Update], state: ServerState, log: dict[str, Json]) -> Iterator[Row]:
        """Yield the tensors of the model; ``log`` is filled before the first."""
        moving = self._moving(state.signature)
        products = inner_products(updates, state.blobs[GLOBAL], moving)
        rng = np.random.default_rng([self.seed, state.round])
        projected = project(products, rng, released=self.released)
        log["conflicts"] = int((products < 0).sum()) // 2
        if np.array_equal(projected, np.eye(len(updates))):
            yield from mean_rows(updates, state)
            return
        counts = np.array([update.num_samples for update in updates], np.float64)
        shares = counts / counts.sum() @ projected
        moved = _moved(updates, state, _only(state.signature, moving), shares)
        rest = frozenset(state.signature.names) - moving
        averaged = mean_rows(updates, replace(state, signature=_only(state.signature, rest)))
        for name in state.signature.names:
            yield next(moved) if name in moving else next(averaged)

    def _moving(self, signature: ModelSignature) -> frozenset[str]:
        """Return the tensors that make up an update."""
        if not self.released:
            return learned(signature)
        return frozenset(spec.name for spec in signature.tensors if rule_of(spec) is Rule.MEAN)


def inner_products(updates: Sequence[Update], model: Tensors, names: frozenset[str]) -> Floats:
    """Return <g_i, g_j> of all pairs, (R, R), over the tensors ``names``; sums depend on no library."""
    products = np.zeros((len(updates), len(updates)))
    for name in model:
        if name not in names:
            continue
        base, flat = model[name].reshape(-1), [update.weights[name].reshape(-1) for update in updates]
        step = max(1024, _BLOCK // len(flat))
        for low in range(0, base.size, step):
            start = base[low : low + step].astype(np.float64)
            walks = [start - values[low : low + step] for values in flat]
            for i, one in enumerate(walks):
                for j, other in enumerate(walks[: i + 1]):
                    products[i, j] += (one * other).sum()
    lower: Floats = np.tril(products, -1)
    return np.asarray(products + lower.T)


def project(products: Floats, rng: np.random.Generator, *, released: bool = False) -> Floats:
    """Return the projected updates as sums of the original ones.

    Args:
        products: (R, R) inner products of the updates.
        rng: draws the order in which each update meets the others.
        released: meet what earlier projections left of the others.

    Returns:
        (R, R) C with ``g_i' = sum_j C_ij g_j``; the unit matrix where no two updates oppose each other.
    """
    count = len(products)
    mixed, original = np.eye(count), np.eye(count)
    for i in range(count):
        order = rng.permutation(count)
        for j in order[order != i]:
            other = mixed[j] if released else original[j]
            product = mixed[i] @ products @ other
            if product < 0:
                mixed[i] -= product / (other @ products @ other + _EPS) * other
    return mixed


def _moved(updates: Sequence[Update], state: ServerState, signature: ModelSignature, shares: Floats) -> Iterator[Row]:
    """Yield ``w - sum_k b_k g_k``, a mean of the robots' models and w whose shares may be negative."""
    sources: Mapping[str, Tensors] = {f"robot/{u.robot_id}": u.weights for u in updates} | {"": state.blobs[GLOBAL]}
    weights = np.append(shares, 1.0 - shares.sum())
    return Mixer(signature).rows(sources, {GLOBAL: weights})


def _only(signature: ModelSignature, names: frozenset[str]) -> ModelSignature:
    return replace(signature, tensors=tuple(spec for spec in signature.tensors if spec.name in names))
