"""Hard clusters: FeDepth with a partition in place of its overlapping clusters (the ablation of fedepth spec 9).

Descriptors, affinity and tau are FeDepth's. Agglomerative clustering, as in PACFL, gives every robot one cluster, and
a sequence is served by the nearest one alone.
"""

from dataclasses import dataclass
from typing import ClassVar

from fed_core.clustering.hard import LINKAGES, by_agglomeration
from fed_core.clustering.soft import Floats, Members
from fed_core.config import option
from fed_core.strategies.base import strategies
from fed_core.strategies.by_jeffreys import ByJeffreys


@strategies.register("hard")
@dataclass(frozen=True)
class Hard(ByJeffreys):
    """Keys: "cluster/<number>" are the clusters' models."""

    paper: ClassVar[str] = "FeDepth's ablation: hard agglomerative clustering at the same threshold"

    linkage: str = option("average", help="distance between clusters that are merged", choices=LINKAGES)

    def members(self, affinity: Floats, tau: float) -> Members:
        """Return a partition."""
        return by_agglomeration(affinity, tau, self.linkage)
