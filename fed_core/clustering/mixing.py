"""What overlapping clusters do to the models: the matrices P, Q and B of fedepth spec 5.1 and 5.2."""

import numpy as np
import numpy.typing as npt

from fed_core.clustering.soft import Members

Floats = npt.NDArray[np.float64]


def cluster_shares(members: Members, num_samples: npt.NDArray[np.int64]) -> Floats:
    """Return P (K, R): the weight of each robot in each cluster's model.

    A row is 0 where no member has samples (``num_samples`` is 0 for robots that did not take part); other rows sum
    to 1.
    """
    weights = members * num_samples.astype(np.float64)
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=np.zeros_like(weights), where=total > 0))


def start_shares(members: Members) -> Floats:
    """Return Q (R, K): the uniform weight of each cluster's model in what a robot starts from."""
    columns = members.T.astype(np.float64)
    return np.asarray(columns / columns.sum(axis=1, keepdims=True))


def mixing_matrix(members: Members, num_samples: npt.NDArray[np.int64]) -> Floats:
    """Return B = Q P (R, R): the next starting models as weights of the trained ones; rows sum to 1."""
    return start_shares(members) @ cluster_shares(members, num_samples)


def second_eigenvalue(members: Members, num_samples: npt.NDArray[np.int64]) -> float:
    """Return the second largest eigenvalue of B in size, the contraction of differences per round.

    1 means that the clusters fall apart into groups that never mix, 0 that one round makes all models equal.
    """
    if len(members) < 2:
        return 0.0
    # P Q (K, K) has the same eigenvalues as Q P (R, R), but for zeros, and K <= R as a rule.
    small = cluster_shares(members, num_samples) @ start_shares(members)
    return float(np.sort(np.abs(np.linalg.eigvals(small)))[-2])


def stationary_weights(members: Members, num_samples: npt.NDArray[np.int64]) -> Floats:
    """Return pi (R,): the weight of each robot's model in the consensus that mixing alone would reach.

    Where the clusters fall apart into groups that never mix, each group has its own consensus; its weights are scaled
    by the group's share of all samples, so that the whole sums to 1.
    """
    shares = cluster_shares(members, num_samples)
    chain = shares @ start_shares(members)
    pi = np.zeros(members.shape[1])
    for group in _components(members):
        block = chain[np.ix_(group, group)]
        system = np.vstack([block.T - np.eye(len(group)), np.ones(len(group))])
        right = np.append(np.zeros(len(group)), 1.0)
        weights = np.linalg.lstsq(system, right, rcond=None)[0] @ shares[group]
        robots = members[group].any(axis=0)
        pi += weights * (num_samples[robots].sum() / num_samples.sum())
    return pi


def _components(members: Members) -> list[list[int]]:
    """Return the clusters in groups that are connected through shared robots."""
    left, groups = set(range(len(members))), []
    while left:
        group, robots = {min(left)}, members[min(left)].copy()
        while True:
            more = {k for k in left - group if (members[k] & robots).any()}
            if not more:
                break
            group |= more
            robots |= members[sorted(more)].any(axis=0)
        groups.append(sorted(group))
        left -= group
    return groups
