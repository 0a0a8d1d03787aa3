"""How far robots walked in a round, and how far apart they ended: sums over whole updates, read block by block.

An update counts as ``w_i - s_i``, s_i what the robot started from. Entries are those of all floating tensors that
travelled, running statistics included, since an attacker may choose any of them. Sums are float64, in the order of the
signature, and depend on no library and no number of threads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from fed_core.strategies.averaging import Floats, Rule, linear, rule_of
from fed_core.strategies.base import GLOBAL, ServerState, Update
from fed_core.types import Array, Tensors, TensorSpec

#: Values of all robots that are in memory at once (1 MB of float64: they stay in the cache of a processor).
_BLOCK = 2**17

#: ``start(low, high)`` returns the entries of a flattened tensor that a robot started from, float64, or 0.
Start = Callable[[int, int], "Floats | float"]


def squared_distances(updates: Sequence[Update], state: ServerState) -> Floats:
    """Return the mean squared difference of each pair over the entries that both share, (R, R).

    Without masks these are the squared distances over the number of entries, so they order updates alike. It is
    infinite where a pair shares nothing.
    """
    count = len(updates)
    totals, entries = np.zeros((count, count)), np.zeros((count, count))
    for places, walks in _walks(updates, state):
        for i in range(1, len(places)):
            with np.errstate(over="ignore", invalid="ignore"):
                apart = walks[:i] - walks[i]
                squares = np.einsum("ij,ij->i", apart, apart)
            totals[places[i], places[:i]] += squares
            entries[places[i], places[:i]] += walks.shape[1]
    totals, entries = totals + totals.T, entries + entries.T
    with np.errstate(invalid="ignore"):
        found: Floats = np.divide(totals, entries, out=np.full_like(totals, np.inf), where=entries > 0)
    found[np.isnan(found)] = np.inf  # beyond float64
    np.fill_diagonal(found, 0.0)
    return found


def norms(updates: Sequence[Update], state: ServerState) -> Floats:
    """Return the L2 norm of each update over the entries that it shares, (R,); infinite beyond float64."""
    totals = np.zeros(len(updates))
    for places, walks in _walks(updates, state):
        with np.errstate(over="ignore"):
            totals[places] += np.einsum("ij,ij->i", walks, walks)
    return np.sqrt(totals)


class Scaled(Mapping[str, Array]):
    """An update that goes only a part of its way: ``s + factor (w - s)`` where that is averaged.

    Args:
        update: the robot's.
        state: the server's.
        factor: 0 to 1.
    """

    def __init__(self, update: Update, state: ServerState, factor: float) -> None:
        self._update, self._state, self._factor = update, state, factor
        self._specs = {spec.name: spec for spec in state.signature.tensors}

    def __getitem__(self, name: str) -> Array:
        """Return the tensor ``name``, in its dtype."""
        array, spec = self._update.weights[name], self._specs[name]
        if rule_of(spec) is not Rule.MEAN:
            return array
        start, flat = _start(self._update, self._state, spec), array.reshape(-1)
        out = np.empty(flat.size, flat.dtype)
        for low in range(0, flat.size, _BLOCK):
            base = start(low, low + _BLOCK)
            values = flat[low : low + _BLOCK].astype(np.float64)
            out[low : low + _BLOCK] = base * (1.0 - self._factor) + values * self._factor
        return out.reshape(array.shape)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._update.weights)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._update.weights)


def _walks(updates: Sequence[Update], state: ServerState) -> Iterator[tuple[list[int], Floats]]:
    """Yield blocks of all averaged tensors: the places of the robots that hold it, and what they walked (r, n)."""
    step = max(1024, _BLOCK // max(len(updates), 1))
    for spec in state.signature.tensors:
        places = [place for place, update in enumerate(updates) if spec.name in update.weights]
        if rule_of(spec) is not Rule.MEAN or not places:
            continue
        flat = [updates[place].weights[spec.name].reshape(-1) for place in places]
        starts = [_start(updates[place], state, spec) for place in places]
        for low in range(0, spec.size, step):
            high = min(low + step, spec.size)
            walks = np.empty((len(places), high - low))
            for walk, values, start in zip(walks, flat, starts, strict=True):
                with np.errstate(over="ignore"):
                    np.subtract(values[low:high], start(low, high), out=walk, dtype=np.float64)
            yield places, walks


def _start(update: Update, state: ServerState, spec: TensorSpec) -> Start:
    """Return what reads a robot's start: the mean of the models that its plan named.

    A running variance that is pooled by its moments is taken as a mean, too: it only measures a distance here.
    """
    plan = state.plans.get(update.robot_id)
    keys = plan.load if plan is not None else (GLOBAL,)
    models: list[Tensors] = [state.blobs[key] for key in keys if key in state.blobs]
    flat = [tensors[spec.name].reshape(-1) for tensors in models if spec.name in tensors]
    shares = np.full((1, len(flat)), 1.0 / max(len(flat), 1))

    def read(low: int, high: int) -> "Floats | float":
        if len(flat) < 2:
            return flat[0][low:high].astype(np.float64) if flat else 0.0
        (mean,) = linear(np.stack([values[low:high] for values in flat]).astype(np.float64), shares)
        return np.asarray(mean)

    return read
