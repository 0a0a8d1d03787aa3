"""PACFL-dagger: hard clusters by principal angles (Vahidian et al. 2022), over deep features (fedepth spec 9).

A robot's subspace is spanned by the three leading left singular vectors of its pooled features in place of its raw
images. A robot that comes later joins the cluster with the smallest mean angle over its members (the paper extends the
matrix and clusters again; that happens here when more than ``rebuild_share`` of the robots changed). A sequence is
served by the cluster with the smallest mean angle.
"""

from dataclasses import dataclass
from typing import ClassVar

from fed_core.clustering.hard import LINKAGES, by_agglomeration
from fed_core.clustering.soft import Floats, Members
from fed_core.config import option
from fed_core.similarity.subspace import ANGLES, KIND
from fed_core.strategies.base import strategies
from fed_core.strategies.clustered import Clustered
from fed_core.strategies.measures import Angles, Measure


@strategies.register("pacfl")
@dataclass(frozen=True)
class Pacfl(Clustered):
    """Keys: "cluster/<number>" are the clusters' models. ``tau`` is in degrees."""

    paper: ClassVar[str] = "PACFL: Vahidian et al. 2022, arXiv:2209.10526"
    descriptor: ClassVar[str | None] = KIND

    angle: str = option("principal", help="smallest principal, smallest entry by entry, or summed", choices=ANGLES)
    linkage: str = option("average", help="distance between clusters that are merged", choices=LINKAGES)

    @property
    def measure(self) -> Measure:
        """Angles in degrees."""
        return Angles(self.angle)

    def members(self, affinity: Floats, tau: float) -> Members:
        """Return a partition."""
        return by_agglomeration(affinity, tau, self.linkage)
