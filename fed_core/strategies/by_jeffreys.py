"""What FeDepth and its hard ablation share: robots are compared by the Jeffreys divergence of their descriptors."""

from dataclasses import dataclass

from fed_core.config import option
from fed_core.strategies.clustered import Clustered
from fed_core.strategies.measures import Measure
from fed_core.strategies.moderated import LogModerated, Moderated


@dataclass(frozen=True)
class ByJeffreys(Clustered):
    """Clustered methods that compare robots by the Jeffreys divergence, and the options of that."""

    scale: str = option("mean", help="affinity is J / D or J", choices=("mean", "sum"))
    noise_correction: bool = option(False, help="subtract the sampling noise from affinities and distances")
    link: str = option("mean", help="distance to a cluster from its members", choices=("mean", "min", "max"))
    features: str = option("plain", help="Gaussians of pooled features or of their logarithm", choices=("plain", "log"))
    variance_prior: float = option(
        0.0, help="weight of the fleet's mean variance in each robot's; 0 = none", unit="frames", low=0.0
    )

    def __post_init__(self) -> None:
        """Check the bounds; robots send the kind of descriptor that the options ask for."""
        super().__post_init__()
        object.__setattr__(self, "descriptor", self.measure.kind)

    @property
    def measure(self) -> Measure:
        """Jeffreys divergence."""
        kind = LogModerated if self.features == "log" else Moderated
        return kind(self.scale, self.noise_correction, self.link, self.variance_prior)
