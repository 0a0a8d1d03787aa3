"""Hard clusters by agglomeration, for the hard ablation, PACFL and FedClust (fedepth spec 9)."""

import numpy as np
import numpy.typing as npt

from fed_core.clustering.soft import Members, from_groups
from fed_core.errors import StrategyError

#: "weighted" (WPGMA) is what PACFL's code calls average.
LINKAGES = ("average", "complete", "single", "weighted")


def by_agglomeration(affinity: npt.NDArray[np.float64], tau: float, linkage: str = "average") -> Members:
    """Return the partition whose clusters merged at a distance ``<= tau``.

    Args:
        affinity: (R, R) symmetric, zero diagonal.
        tau: threshold.
        linkage: one of :data:`LINKAGES`.

    Returns:
        (K, R) bool, one 1 per column, ordered as the soft clusters are.
    """
    from scipy.cluster import hierarchy  # slow to import, and only hard methods need it
    from scipy.spatial.distance import squareform

    if linkage not in LINKAGES:
        raise StrategyError(f"linkage is {linkage!r}; choose one of {', '.join(LINKAGES)}")
    num_robots = len(affinity)
    if num_robots == 1:
        return np.ones((1, 1), np.bool_)
    tree = hierarchy.linkage(squareform(affinity, checks=False), method=linkage)  # type: ignore[arg-type]  # checked above
    labels = hierarchy.fcluster(tree, t=tau, criterion="distance")
    return from_groups([np.flatnonzero(labels == label).tolist() for label in np.unique(labels)], num_robots)
