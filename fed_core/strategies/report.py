"""Figures that clustered methods log with a round (fedepth spec 3.4, 5.2, 14)."""

from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np
import numpy.typing as npt

from fed_core.clustering.mixing import second_eigenvalue, stationary_weights
from fed_core.strategies.grouping import Grouping
from fed_core.types import Array, Json

Floats = npt.NDArray[np.float64]

#: Values of all models that are compared at once in float64 (16 MB).
_BLOCK = 2**21


def clustering_figures(grouping: Grouping, affinity: Floats, notes: Mapping[str, Json]) -> dict[str, Json]:
    """Return what describes the clusters: how many, how tight; "warnings" where a person should know more.

    Args:
        grouping: the clusters.
        affinity: (R, R) they were made from.
        notes: further figures, about the affinity.
    """
    members = grouping.members
    within = [float(affinity[np.ix_(row, row)].max()) for row in members]
    figures: dict[str, Json] = {
        "tau": grouping.tau,
        "num_clusters": len(members),
        "singletons": int((members.sum(axis=1) == 1).sum()),
        "memberships_mean": float(members.sum(axis=0).mean()),
        "within_cluster_max": max(within),
        **notes,
    }
    num_robots = len(grouping.robots)
    if num_robots > 1 and figures["singletons"] == num_robots:
        warn(figures, f"tau = {grouping.tau:.4g} leaves each of the {num_robots} robots alone in its cluster: they "
             "share nothing; raise tau or tau_quantile")  # fmt: skip
    return figures


def warn(log: MutableMapping[str, Json], text: str) -> None:
    """Add a line to what the aggregator tells a person after the round."""
    known = log.get("warnings")
    log["warnings"] = [*(known if isinstance(known, list) else []), text]


def mixing_figures(grouping: Grouping, counts: Mapping[str, int]) -> dict[str, Json]:
    """Return what mixing does to the models.

    Args:
        grouping: the clusters.
        counts: training samples by robot.
    """
    samples = grouping.samples(counts)
    weights = stationary_weights(grouping.members, samples)
    return {
        "second_eigenvalue": second_eigenvalue(grouping.members, samples),
        "stationary_weights": {r: float(w) for r, w in zip(grouping.robots, weights, strict=True)},
    }


class Spread:
    """Adds up the distances ``||w_k - w_l||`` between models while they are written, tensor by tensor.

    Args:
        keys: the models, (K).
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._gram = np.zeros((len(keys), len(keys)))

    def add(self, row: Mapping[str, Array]) -> None:
        """Take one tensor of each model; a tensor that some model lacks does not count."""
        if len(self._keys) < 2 or not all(key in row for key in self._keys):
            return
        flat = [row[key].reshape(-1) for key in self._keys]
        step = max(1024, _BLOCK // len(flat))
        for low in range(0, flat[0].size, step):
            block = np.stack([values[low : low + step] for values in flat]).astype(np.float64)
            # Relative to the first model: near a consensus the products would lose all digits otherwise.
            block -= block[0].copy()
            self._gram += block @ block.T

    def figures(self) -> dict[str, Json]:
        """Return the largest and the mean distance; nothing for fewer than two models."""
        if len(self._keys) < 2:
            return {}
        squares = np.diag(self._gram)
        pairs = (squares[:, None] + squares[None, :] - 2.0 * self._gram)[np.triu_indices(len(squares), 1)]
        distances = np.sqrt(np.maximum(pairs, 0.0))
        return {"model_distance_max": float(distances.max()), "model_distance_mean": float(distances.mean())}
