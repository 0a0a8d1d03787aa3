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
from fed_core.strategies.clustered import Clustered
from fed_core.strategies.measures import Affinity, Measure


@strategies.register("hard")
@dataclass(frozen=True)
class Hard(Clustered):
    """Keys: "cluster/<number>" are the clusters' models."""

    paper: ClassVar[str] = "FeDepth's ablation: hard agglomerative clustering at the same threshold"

    linkage: str = option("average", help="distance between clusters that are merged", choices=LINKAGES)
    scale: str = option("mean", help="affinity is J / D or J", choices=("mean", "sum"))
    noise_correction: bool = option(False, help="subtract the sampling noise from affinities and distances")
    link: str = option("mean", help="distance to a cluster from its members", choices=("mean", "min", "max"))

    @property
    def measure(self) -> Measure:
        """Jeffreys divergence."""
        return Affinity(self.scale, self.noise_correction, self.link)

    def members(self, affinity: Floats, tau: float) -> Members:
        """Return a partition."""
        return by_agglomeration(affinity, tau, self.linkage)
