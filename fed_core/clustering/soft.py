"""Overlapping clusters from an affinity and a threshold (fedepth spec 4)."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fed_core.errors import StrategyError

Floats = npt.NDArray[np.float64]
Members = npt.NDArray[np.bool_]


def by_rows(affinity: Floats, tau: float, dedup: str = "contained") -> Members:
    """Return each robot's neighbourhood ``A <= tau`` as a cluster, without the redundant ones.

    Args:
        affinity: (R, R) symmetric, zero diagonal.
        tau: threshold.
        dedup: "contained" drops rows inside another row, "identical" only equal rows.

    Returns:
        (K, R) bool, ordered by :func:`in_order`.
    """
    if dedup not in ("contained", "identical"):
        raise StrategyError(f"dedup is {dedup!r}; choose contained or identical")
    near = affinity <= tau
    np.fill_diagonal(near, True)
    return without_contained(near) if dedup == "contained" else in_order(near)


def by_cliques(affinity: Floats, tau: float, max_clusters: int = 0) -> Members:
    """Return the maximal groups in which every pair has ``A <= tau`` (networkx's pivoted Bron-Kerbosch).

    Args:
        affinity: (R, R) symmetric, zero diagonal.
        tau: threshold.
        max_clusters: more cliques than that raise :class:`StrategyError`; 0 = 4 R.

    Returns:
        (K, R) bool, ordered by :func:`in_order`.
    """
    import networkx  # type: ignore[import-untyped,unused-ignore]  # only this reading needs it

    num_robots = len(affinity)
    bound = max_clusters or 4 * num_robots
    graph = networkx.Graph()
    graph.add_nodes_from(range(num_robots))
    graph.add_edges_from(zip(*np.nonzero(np.triu(affinity <= tau, 1)), strict=True))
    groups: list[list[int]] = []
    for clique in networkx.find_cliques(graph):
        groups.append(clique)
        if len(groups) > bound:
            text = f"more than {bound} maximal cliques at tau = {tau:.6g}"
            raise StrategyError(f"{text}; raise max_clusters, change tau, or use method rows")
    return from_groups(groups, num_robots)


def from_groups(groups: Iterable[Sequence[int]], num_robots: int) -> Members:
    """Return the (K, R) matrix of groups of robot indices, ordered by :func:`in_order`."""
    rows = []
    for group in groups:
        row = np.zeros(num_robots, np.bool_)
        row[np.asarray(group, np.int64)] = True
        rows.append(row)
    return in_order(np.array(rows, np.bool_).reshape(len(rows), num_robots))


def in_order(members: Members) -> Members:
    """Return distinct rows by descending size, then by the robots' indices."""
    rows = {tuple(np.flatnonzero(row).tolist()): row for row in members}
    keys = sorted(rows, key=lambda robots: (-len(robots), robots))
    return np.array([rows[key] for key in keys], np.bool_).reshape(len(keys), members.shape[1])


def without_contained(members: Members) -> Members:
    """Return the rows that lie in no other row, each once, ordered by :func:`in_order`."""
    rows = in_order(members)
    counts = rows.astype(np.float64)  # matrix products of integers are slow
    shared = counts @ counts.T  # shared[a, b] = robots in both
    inside = shared == counts.sum(axis=1)[:, None]
    np.fill_diagonal(inside, False)  # rows are distinct, so the rest is strict
    return np.asarray(rows[~inside.any(axis=1)], np.bool_)


def survivors(members: Members, dedup: str = "contained") -> list[int]:
    """Return the indices of the rows that are worth keeping after robots left (spec 14.8), in their order.

    An empty row goes, and a row equal to an earlier one; with ``dedup`` "contained" also a row inside another one.
    """
    kept: list[int] = []
    for index, row in enumerate(members):
        earlier = any((members[other] == row).all() for other in kept)
        if row.any() and not earlier:
            kept.append(index)
    if dedup != "contained":
        return kept
    inside = {a for a in kept for b in kept if a != b and not (members[a] & ~members[b]).any()}
    return [index for index in kept if index not in inside]


def validate(members: Members, num_robots: int) -> None:
    """Refuse a clustering that cannot be used (spec 14.6): an empty or double cluster, a robot in no cluster."""
    if members.ndim != 2 or members.shape[1] != num_robots or len(members) == 0:
        raise StrategyError(f"memberships have shape {members.shape}; expected (clusters, {num_robots})")
    if not members.any(axis=1).all():
        raise StrategyError(f"cluster {int(np.argmin(members.any(axis=1)))} has no member; remove it")
    if not members.any(axis=0).all():
        raise StrategyError(f"robot {int(np.argmin(members.any(axis=0)))} is in no cluster; give it at least one")
    if len(in_order(members)) != len(members):
        raise StrategyError("two clusters have the same members; remove one of them")


def attach_small(members: Members, affinity: Floats, min_cluster: int) -> Members:
    """Return the clusters after dissolving those of fewer than ``min_cluster`` robots (spec 14.7).

    A robot that would be left without a cluster joins the nearest one (mean affinity to its members) as an extra
    member.

    Args:
        members: (K, R) bool.
        affinity: (R, R).
        min_cluster: smallest size that stays.
    """
    rows = in_order(members)
    while len(rows) > 1 and rows[-1].sum() < min_cluster:  # the last row is the smallest
        rows, small = rows[:-1].copy(), rows[-1]
        lost = small & ~rows.any(axis=0)
        means = affinity @ rows.T / rows.sum(axis=1)
        for robot in np.flatnonzero(lost):
            rows[int(np.argmin(means[robot])), robot] = True
        rows = without_contained(rows) if lost.any() else in_order(rows)
    return rows


def nearest(distances: Floats, tau: float) -> tuple[tuple[int, ...], bool]:
    """Return the clusters with distance ``<= tau``; if none, the nearest one (the first of equals) and True."""
    near = np.flatnonzero(distances <= tau)
    if near.size:
        return tuple(int(k) for k in near), False
    return (int(np.argmin(distances)),), True


def linkage(distances: Floats, members: Members, link: str = "mean") -> Floats:
    """Return (K,) distances of one robot or sequence to every cluster.

    Args:
        distances: (R,) affinity to every robot.
        members: (K, R) bool.
        link: "mean", "min" or "max" over the members.
    """
    if link == "mean":
        return np.array([distances[row].mean() for row in members])
    if link in ("min", "max"):
        return np.array([getattr(distances[row], link)() for row in members])
    raise StrategyError(f"link is {link!r}; choose mean, min or max")
