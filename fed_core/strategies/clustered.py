"""What clustered methods share: one clustering before training, one model per cluster, newcomers, choice of models.

Begin: distances between the robots' descriptors, threshold tau, clusters. Round: a cluster's model is the
sample-weighted mean of its members' models, and a robot starts again from the uniform mean of its clusters' models
(Eq. 4 of fedepth spec 5.1). The methods differ in the distance and in how clusters are made of it.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fed_core.clustering import threshold
from fed_core.clustering.mixing import cluster_shares, start_shares
from fed_core.clustering.soft import Floats, Members
from fed_core.config import check, option
from fed_core.errors import StrategyError
from fed_core.similarity.group import Group
from fed_core.strategies.averaging import Mixer, Row
from fed_core.strategies.base import GLOBAL, Aggregate, RobotInfo, RobotPlan, ServerState, Strategy, Update, in_order
from fed_core.strategies.grouping import Grouping, described, grouped
from fed_core.strategies.measures import Measure
from fed_core.strategies.report import Spread, clustering_figures, mixing_figures
from fed_core.types import Array, Choice, Descriptor, Json, Memory, ModelSignature, Tensors


@dataclass(frozen=True)
class Clustered(Strategy):
    """Keys: "cluster/<number>" are the clusters' models; "global" is the initial one until there are others."""

    descriptor: ClassVar[str | None] = "gaussian"
    combines: ClassVar[bool] = True

    tau: float | None = option(None, help="threshold; none = by tau_rule", low=0.0)
    tau_rule: str = option("quantile", help="how tau is found", choices=("quantile", "gap"))
    tau_quantile: float = option(0.2, help="quantile of the robot pairs' distances", low=0.0, high=1.0)
    bn: str = option("average", help="BatchNorm statistics", choices=("average", "moments"))
    newcomer: str = option(
        "nearest", help="a newcomer near no cluster joins the nearest or opens one", choices=("nearest", "singleton")
    )
    rebuild_share: float = option(0.1, help="cluster anew when more robots than this came or left", low=0.0)

    def __post_init__(self) -> None:
        check(self)

    # ---- what the methods differ in ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def measure(self) -> Measure:
        """How descriptors are compared."""

    @abstractmethod
    def members(self, affinity: Floats, tau: float) -> Members:
        """Return the clusters (K, R) of robots with the distances ``affinity`` (R, R)."""

    def pick(self, distances: Floats, tau: float) -> tuple[tuple[int, ...], bool]:
        """Return the clusters for a robot or sequence at (K,) ``distances``, and whether all are farther than tau."""
        nearest = int(np.argmin(distances))
        return (nearest,), bool(distances[nearest] > tau)

    @property
    def redundant(self) -> str:
        """Which clusters go when robots leave: "contained" or "identical" (see ``soft.survivors``)."""
        return "contained"

    # ---- the contract --------------------------------------------------------------------------------------------

    def begin(self, state: ServerState) -> Aggregate:
        """Cluster the robots; all start from the initial model."""
        return self._begun(*self._cluster(state), state)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the clusters' models; a cluster without a participant keeps its own (spec 5.1)."""
        grouping = self._follow(Grouping.from_memory(state.memory), state)
        known = [update for update in in_order(updates) if update.robot_id in grouping.robots]
        if not known:
            raise StrategyError("all updates come from robots without a descriptor; nothing to aggregate")
        return self._mixed(grouping, known, state)

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Put a newcomer into its cluster or clusters (spec 14.8); known robots stay where they are."""
        grouping = self._joined(Grouping.from_memory(state.memory), robot)
        sources = dict.fromkeys(grouping.sources[k] for k in grouping.clusters_of(robot.robot_id))
        return self._plan(robot.robot_id, tuple(sources), grouping), grouping.to_memory()

    def choose(
        self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory, robot_id: str = ""
    ) -> Choice:
        """Return the models of the clusters that :meth:`pick` finds for the sequence (spec 6)."""
        grouping, distances = self._compared(descriptor, models, serving)
        clusters, far = self.pick(distances, grouping.tau)
        keys = tuple(dict.fromkeys(models[k] for k in clusters))
        return Choice(keys, clusters, tuple(float(d) for d in distances), grouping.tau, far)

    def blend(self, models: Mapping[str, Tensors], signature: ModelSignature) -> Iterator[tuple[str, Array]]:
        """Yield the uniform mean of models, BatchNorm statistics as the option ``bn`` says."""
        return Mixer(signature, batchnorm=self.bn).blend(models)

    # ---- clustering ----------------------------------------------------------------------------------------------

    def _compared(
        self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory
    ) -> tuple[Grouping, Floats]:
        if descriptor is None:
            name = type(self).__name__.lower()
            raise StrategyError(f"{name} chooses models by descriptor; describe the sequence first")
        grouping = Grouping.from_memory(serving)
        if len(models) != len(grouping.ids):
            text = f"{len(models)} models but {len(grouping.ids)} clusters"
            raise StrategyError(f"{text}: plan and serving memory are of different rounds")
        return grouping, grouping.distances(descriptor, self.measure, "the sequence")

    def _cluster(
        self, state: ServerState, first_id: int = 0, old: Grouping | None = None
    ) -> tuple[Grouping, dict[str, Json]]:
        """Return the clusters of all described robots, and figures about them; ``old`` are the ones before."""
        robots = described(state.robots, self.measure.kind)
        group, floor = grouped(robots, self.measure)
        affinity = self.measure.pairs(group, floor)
        grouping = self._built(robots, (group, floor), affinity, first_id)
        return grouping, clustering_figures(grouping, affinity, self.measure.figures(group, floor, grouping.tau))

    def _built(
        self, robots: Sequence[RobotInfo], described_by: tuple[Group, Floats], affinity: Floats, first_id: int
    ) -> Grouping:
        """Return the clusters of robots at distances ``affinity`` (R, R); all hold the initial model."""
        group, floor = described_by
        tau = self._threshold(affinity)
        members = self.members(affinity, tau)
        return Grouping(
            robots=tuple(robot.robot_id for robot in robots),
            ids=tuple(range(first_id, first_id + len(members))),
            sources=(GLOBAL,) * len(members),
            members=members,
            group=group,
            floor=floor,
            tau=tau,
            encoder=robots[0].descriptor.encoder if robots[0].descriptor else "",
            num_built=len(robots),
        )

    def _threshold(self, affinity: Floats) -> float:
        if self.tau is not None:
            return self.tau
        if self.tau_rule == "gap":
            return threshold.by_largest_gap(affinity)
        return threshold.by_quantile(affinity, self.tau_quantile)

    def _follow(self, grouping: Grouping, state: ServerState) -> Grouping:
        """Return the grouping after those who left and those who came since it was stored."""
        gone = [robot_id for robot_id in grouping.robots if robot_id not in state.robots]
        grouping = grouping.without(gone, self.redundant)
        for robot_id in sorted(state.robots):
            if state.robots[robot_id].descriptor is not None:
                grouping = self._joined(grouping, state.robots[robot_id])
        return grouping

    def _joined(self, grouping: Grouping, robot: RobotInfo) -> Grouping:
        if robot.robot_id in grouping.robots:
            return grouping
        if robot.descriptor is None:
            raise StrategyError(f"robot {robot.robot_id!r} sent no descriptor; it cannot be put into a cluster")
        distances = grouping.distances(robot.descriptor, self.measure, f"robot {robot.robot_id!r}")
        clusters, far = self.pick(distances, grouping.tau)
        if far and self.newcomer == "singleton":
            grouping = grouping.with_cluster(grouping.sources[clusters[0]])
            clusters = (len(grouping.ids) - 1,)
        return grouping.with_robot(robot, clusters)

    # ---- models --------------------------------------------------------------------------------------------------

    def _begun(self, grouping: Grouping, figures: Mapping[str, Json], state: ServerState) -> Aggregate:
        """Return the outcome of a clustering after which all clusters hold the initial model."""
        plans = {robot_id: self._plan(robot_id, (GLOBAL,), grouping) for robot_id in state.robots}
        models = (GLOBAL,) * len(grouping.ids)
        log = {**figures, **mixing_figures(grouping, _counts(state))}
        return self._outcome(grouping, plans, (), models, log, kept=(GLOBAL,))

    def _mixed(self, grouping: Grouping, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the outcome of a round in which ``updates``, of grouped robots, came."""
        counts = grouping.samples({update.robot_id: update.num_samples for update in updates})
        columns = [grouping.robots.index(update.robot_id) for update in updates]
        table = cluster_shares(grouping.members, counts)[:, columns]
        trained = {key: row for key, row in zip(grouping.keys, table, strict=True) if row.any()}
        held = {key: state.blobs[s] for key, s in zip(grouping.keys, grouping.sources, strict=True)}
        mixer = Mixer(state.signature, state.combine, self.bn)
        rows = mixer.rows({update.robot_id: update.weights for update in updates}, trained, held)
        stale = {key: tensors for key, tensors in held.items() if key not in trained}
        if grouping.num_changes > self.rebuild_share * grouping.num_built:
            return self._rebuilt(grouping, rows, stale, state)
        return self._next(grouping, rows, stale, state)

    def _next(
        self, grouping: Grouping, rows: Iterator[Row], stale: Mapping[str, Tensors], state: ServerState
    ) -> Aggregate:
        """Return the outcome of a round in which the clusters stayed as they are."""
        kept = [k for k, s in zip(grouping.keys, grouping.sources, strict=True) if k in stale and k == s]
        shares = {key: {key: 1.0} for key in grouping.keys if key not in kept}
        plans, starts = self._plans(grouping, state)
        for key, clusters in starts.items():
            shares[key] = {grouping.keys[k]: 1.0 / len(clusters) for k in clusters}
        grouping = replace(grouping, sources=grouping.keys)
        log: dict[str, Json] = {"stale_clusters": list(stale), **mixing_figures(grouping, _counts(state))}
        rows = self._derived(rows, shares, stale, state, log)
        return self._outcome(grouping, plans, rows, grouping.keys, log, kept=(*self._always(state), *kept))

    def _rebuilt(
        self, old: Grouping, rows: Iterator[Row], stale: Mapping[str, Tensors], state: ServerState
    ) -> Aggregate:
        """Return the outcome of a round after which all robots were clustered anew (spec 14.8).

        A new cluster starts from the data-weighted mean of what its members would have started from: P' Q of the old
        clusters' models.
        """
        new, figures = self._cluster(state, max(old.ids) + 1, old)
        new = replace(new, sources=new.keys)
        columns = [old.robots.index(robot_id) for robot_id in new.robots]
        samples = new.samples(_counts(state))
        table = cluster_shares(new.members, samples) @ start_shares(old.members[:, columns])
        shares = {key: dict(zip(old.keys, row, strict=True)) for key, row in zip(new.keys, table, strict=True)}
        plans, starts = self._plans(new, state)
        for key, clusters in starts.items():
            shares[key] = dict(zip(old.keys, table[list(clusters)].mean(axis=0), strict=True))
        log: dict[str, Json] = {**figures, **mixing_figures(new, _counts(state)), "rebuilt": True}
        rows = self._derived(rows, shares, stale, state, log)
        return self._outcome(new, plans, rows, new.keys, log, kept=self._always(state))

    def _plans(self, grouping: Grouping, state: ServerState) -> tuple[dict[str, RobotPlan], dict[str, tuple[int, ...]]]:
        """Return the robots' plans, and the clusters behind further keys that the plans name."""
        clusters = {robot_id: grouping.clusters_of(robot_id) for robot_id in sorted(state.robots)}
        keys = {robot_id: tuple(grouping.keys[k] for k in ks) for robot_id, ks in clusters.items()}
        return {robot_id: self._plan(robot_id, own, grouping) for robot_id, own in keys.items()}, {}

    def _plan(self, robot_id: str, keys: tuple[str, ...], grouping: Grouping) -> RobotPlan:
        """Return the plan of a robot whose clusters' models are ``keys``."""
        return RobotPlan(keys)

    def _always(self, state: ServerState) -> tuple[str, ...]:
        """Return keys that go on unchanged in every round."""
        return ()

    def _derived(
        self,
        rows: Iterator[Row],
        shares: Mapping[str, Mapping[str, float]],
        stale: Mapping[str, Tensors],
        state: ServerState,
        log: dict[str, Json],
    ) -> Iterator[Row]:
        """Yield the rows of the keys in ``shares``; the clusters' mutual distances enter the log at the end."""
        spread = Spread([key for key in shares if key.startswith("cluster/")])
        trainable = {spec.name for spec in state.signature.tensors if spec.trainable}
        for name, row in Mixer(state.signature, batchnorm=self.bn).derive(rows, shares, stale):
            if name in trainable:
                spread.add(row)
            yield name, row
        log.update(spread.figures())

    def _outcome(
        self,
        grouping: Grouping,
        plans: Mapping[str, RobotPlan],
        rows: Iterator[Row] | tuple[()],
        models: tuple[str, ...],
        log: Mapping[str, Json],
        *,
        kept: tuple[str, ...] = (),
    ) -> Aggregate:
        return Aggregate(
            rows=rows,
            plans=plans,
            models=models,
            kept=kept,
            memory=grouping.to_memory(),
            serving=replace(grouping, uploads={}).to_memory(),
            clusters=grouping.by_robot(),
            log=log,
        )


def _counts(state: ServerState) -> dict[str, int]:
    return {robot_id: robot.num_samples for robot_id, robot in state.robots.items()}
