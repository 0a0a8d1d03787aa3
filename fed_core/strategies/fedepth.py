"""FeDepth: one-shot soft clustering of robots by their images, one model per cluster (fedepth spec 3 to 6).

Begin: A = Jeffreys affinity of the robots' descriptors, tau, clusters M*. A robot counts in full in each of its
clusters; a sequence is served by the mean of all clusters within tau.
"""

from dataclasses import dataclass
from typing import ClassVar

from fed_core.clustering import soft
from fed_core.config import option
from fed_core.strategies.base import RobotPlan, ServerState, strategies
from fed_core.strategies.by_jeffreys import ByJeffreys
from fed_core.strategies.grouping import Grouping


@strategies.register("fedepth")
@dataclass(frozen=True)
class FeDepth(ByJeffreys):
    """Keys: "cluster/<number>" are the clusters' models, "start/<n>" (server averaging) what robots start from."""

    paper: ClassVar[str] = "FeDepth: federated monocular depth estimation with one-shot soft clustering"

    method: str = option("rows", help="clusters are neighbourhoods or cliques", choices=("rows", "cliques"))
    dedup: str = option("contained", help="which rows are redundant", choices=("contained", "identical"))
    min_cluster: int = option(1, help="smaller clusters join their nearest one", unit="count", low=1)
    max_clusters: int = option(0, help="cliques: more are an error; 0 = 4 per robot", unit="count", low=0)
    averaging: str = option("client", help="who averages a robot's clusters", choices=("client", "server"))

    def members(self, affinity: soft.Floats, tau: float) -> soft.Members:
        """Return overlapping clusters (spec 4)."""
        if self.method == "rows":
            members = soft.by_rows(affinity, tau, self.dedup)
        else:
            members = soft.by_cliques(affinity, tau, self.max_clusters)
        return soft.attach_small(members, affinity, self.min_cluster) if self.min_cluster > 1 else members

    def pick(self, distances: soft.Floats, tau: float) -> tuple[tuple[int, ...], bool]:
        """Return all clusters within tau; if there is none, the nearest and True."""
        return soft.nearest(distances, tau)

    @property
    def redundant(self) -> str:
        """The option ``dedup``."""
        return self.dedup

    def _plans(self, grouping: Grouping, state: ServerState) -> tuple[dict[str, RobotPlan], dict[str, tuple[int, ...]]]:
        """Return the robots' plans and, with server averaging, the clusters behind each "start" key.

        Robots of the same clusters share one start; a robot of one cluster starts from that cluster's model.
        """
        if self.averaging == "client":
            return super()._plans(grouping, state)
        clusters = {robot_id: grouping.clusters_of(robot_id) for robot_id in sorted(state.robots)}
        several = sorted({ks for ks in clusters.values() if len(ks) > 1})
        names = {ks: f"start/{n}" for n, ks in enumerate(several)} | {(k,): key for k, key in enumerate(grouping.keys)}
        plans = {robot_id: RobotPlan((names[ks],)) for robot_id, ks in clusters.items()}
        return plans, {names[ks]: ks for ks in several}
