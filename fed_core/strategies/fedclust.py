"""FedClust: hard clusters by the weights of the last layer after one round (Islam et al. 2024; fedepth spec 9).

Round 1 is the warm-up: every robot trains the initial model for the usual local epochs (there is no option for another
number) and sends its last layer beside its update. Robots whose last layers lie near each other (Euclidean) form a
cluster; ``tau`` is the paper's lambda. The warm-up's models are thrown away: clusters start from the initial model, and
each averages its own members from then on.

A robot that comes later trains the initial model once, too, and then joins the cluster with the smallest mean distance
of last layers; until then it counts to the cluster whose descriptors are nearest, without a say in its model. A
sequence has no weights before it is labelled, so it is served by the cluster of the smallest mean Jeffreys divergence
of descriptors.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from fed_core.clustering.hard import LINKAGES, by_agglomeration
from fed_core.clustering.soft import Floats, Members
from fed_core.config import option
from fed_core.errors import StrategyError, TrainingError
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    LocalResult,
    LocalRule,
    LocalState,
    RobotInfo,
    RobotPlan,
    ServerState,
    Update,
    in_order,
    strategies,
)
from fed_core.strategies.clustered import Clustered
from fed_core.strategies.grouping import Grouping, described, grouped
from fed_core.strategies.measures import Affinity, Measure
from fed_core.strategies.report import clustering_figures, mixing_figures, warn
from fed_core.types import Array, Choice, Descriptor, Json, Memory

#: Value of a plan: send your last layer after this round; the rest of the update is thrown away.
ASK = "final_layer"


@strategies.register("fedclust")
@dataclass(frozen=True)
class FedClust(Clustered):
    """Keys: "global" stays the initial model; "cluster/<number>" are the clusters' models. ``tau`` is in weights."""

    paper: ClassVar[str] = "FedClust: Islam et al. 2024, arXiv:2403.04144"

    linkage: str = option("average", help="distance between clusters that are merged", choices=LINKAGES)

    @property
    def measure(self) -> Measure:
        """Jeffreys divergence: what sequences, and robots without a warm-up, are compared by."""
        return Affinity()

    def members(self, affinity: Floats, tau: float) -> Members:
        """Return a partition."""
        return by_agglomeration(affinity, tau, self.linkage)

    def local_rule(self) -> LocalRule:
        """Return the half that sends the last layer when the plan asks for it."""
        return _SendFinalLayer()

    # ---- the contract --------------------------------------------------------------------------------------------

    def begin(self, state: ServerState) -> Aggregate:
        """Ask all robots for a warm-up from the initial model."""
        described(state.robots, self.measure.kind)  # a robot without a usable descriptor ends the run here, not later
        plans = {robot_id: _warm_up() for robot_id in state.robots}
        return Aggregate(rows=(), plans=plans, models=(GLOBAL,), kept=(GLOBAL,))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Cluster after the warm-up; later, return the clusters' models."""
        ordered = in_order(updates)
        warm = [u for u in ordered if u.robot_id in state.plans and state.plans[u.robot_id].values.get(ASK)]
        known = Grouping.from_memory(state.memory).uploads if state.memory.values else {}
        fresh = _final_layers(warm, known, state)
        outcome = self._after(ordered, warm, fresh, state)
        log = cast("dict[str, Json]", outcome.log)  # the rows complete this very object
        for update in warm:
            if update.robot_id not in fresh:
                warn(
                    log,
                    f"robot {update.robot_id!r} sent another last layer than the others, or none; it is asked again",
                )
        return outcome

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Ask a newcomer for a warm-up; before the first clustering there is nothing else to do."""
        return super().join(robot, state) if state.memory.values else (_warm_up(), state.memory)

    def choose(
        self, descriptor: Descriptor | None, models: Sequence[str], serving: Memory, robot_id: str = ""
    ) -> Choice:
        """Return the cluster of the smallest mean divergence; before the clustering the one model there is."""
        if not serving.values:
            return Choice((models[0],))
        _, distances = self._compared(descriptor, models, serving)
        nearest = int(np.argmin(distances))
        return Choice((models[nearest],), (nearest,), tuple(float(d) for d in distances))

    # ---- clustering ----------------------------------------------------------------------------------------------

    def _after(
        self, updates: Sequence[Update], warm: Sequence[Update], fresh: Mapping[str, Array], state: ServerState
    ) -> Aggregate:
        """Return the outcome of a round in which ``warm`` are the warm-ups and ``fresh`` the last layers of them."""
        if not state.memory.values:
            return self._begun(*self._by_weights(fresh, state), state)
        grouping = self._follow(Grouping.from_memory(state.memory), state)
        for robot_id in sorted(fresh):
            grouping = self._placed(grouping, robot_id, fresh[robot_id])
        away = {update.robot_id for update in warm}
        trained = [u for u in updates if u.robot_id in grouping.robots and u.robot_id not in away]
        return self._mixed(grouping, trained, state) if trained else self._unchanged(grouping, state)

    def _unchanged(self, grouping: Grouping, state: ServerState) -> Aggregate:
        """Return the outcome of a round in which there were warm-ups only."""
        sources = grouping.sources
        clusters = {robot_id: grouping.clusters_of(robot_id) for robot_id in sorted(state.robots)}
        keys = {robot_id: tuple(dict.fromkeys(sources[k] for k in ks)) for robot_id, ks in clusters.items()}
        plans = {robot_id: self._plan(robot_id, own, grouping) for robot_id, own in keys.items()}
        log: dict[str, Json] = {"stale_clusters": list(grouping.keys), **mixing_figures(grouping, _counts(state))}
        return self._outcome(grouping, plans, (), sources, log, kept=tuple(dict.fromkeys((GLOBAL, *sources))))

    def _cluster(
        self, state: ServerState, first_id: int = 0, old: Grouping | None = None
    ) -> tuple[Grouping, dict[str, Json]]:
        """Return clusters by the last layers of ``old``."""
        return self._by_weights(old.uploads if old else {}, state, first_id)

    def _by_weights(
        self, uploads: Mapping[str, Array], state: ServerState, first_id: int = 0
    ) -> tuple[Grouping, dict[str, Json]]:
        """Return the clusters of all described robots; those without a last layer count to the nearest one."""
        everyone = described(state.robots, self.measure.kind)
        robots = [robot for robot in everyone if robot.robot_id in uploads]
        if not robots:
            raise StrategyError("no robot sent its last layer; fedclust cannot cluster without")
        affinity = _euclidean([uploads[robot.robot_id] for robot in robots])
        own = {robot.robot_id: uploads[robot.robot_id] for robot in robots}
        built = self._built(robots, grouped(robots, self.measure), affinity, first_id)
        grouping = replace(built, num_built=len(everyone), uploads=own)
        figures = clustering_figures(grouping, affinity, {})
        for robot in everyone:
            grouping = self._joined(grouping, robot)
        return replace(grouping, num_changes=0), figures

    def _joined(self, grouping: Grouping, robot: RobotInfo) -> Grouping:
        """Count a robot without a last layer to the cluster whose descriptors are nearest."""
        if robot.robot_id in grouping.robots:
            return grouping
        if robot.descriptor is None:
            raise StrategyError(f"robot {robot.robot_id!r} sent no descriptor; it cannot be put into a cluster")
        distances = grouping.distances(robot.descriptor, self.measure, f"robot {robot.robot_id!r}")
        return grouping.with_robot(robot, (int(np.argmin(distances)),))

    def _placed(self, grouping: Grouping, robot_id: str, upload: Array) -> Grouping:
        """Put a robot into the cluster of the smallest mean distance of last layers, or into one of its own."""
        known = [r for r in grouping.robots if r in grouping.uploads and r != robot_id]
        if not known:  # all others that could be compared have left
            return replace(grouping, uploads={robot_id: upload})
        row = np.array([np.linalg.norm(grouping.uploads[r].astype(np.float64) - upload) for r in known])
        inside = grouping.members[:, [grouping.robots.index(r) for r in known]]
        distances = np.array([row[mask].mean() if mask.any() else np.inf for mask in inside])
        clusters, far = self.pick(distances, grouping.tau)
        if far and self.newcomer == "singleton":
            grouping = grouping.with_cluster(grouping.sources[clusters[0]])
            clusters = (len(grouping.ids) - 1,)
        grouping = replace(grouping, uploads={**grouping.uploads, robot_id: upload})
        return grouping.moved(robot_id, clusters).pruned(self.redundant)

    def _plan(self, robot_id: str, keys: tuple[str, ...], grouping: Grouping) -> RobotPlan:
        """Return the usual plan, or a warm-up for a robot whose last layer is not known."""
        return RobotPlan(keys) if robot_id in grouping.uploads else _warm_up()

    def _always(self, state: ServerState) -> tuple[str, ...]:
        """Return the initial model, which newcomers start their warm-up from."""
        return (GLOBAL,)


class _SendFinalLayer(LocalRule):
    """Robot half."""

    def finish(self, state: LocalState) -> LocalResult:
        """Return the last layer's weights as extras, if the plan asks for them."""
        if not state.values.get(ASK):
            return LocalResult()
        names: Any = getattr(state.model, "final_layer", None)
        if names is None:
            network = type(state.model).__name__
            raise TrainingError(f"fedclust compares last layers, but network {network} has no final_layer() to name it")
        weights = state.model.state_dict()
        return LocalResult(extras={name: weights[name].detach().cpu().numpy() for name in names()})


def _warm_up() -> RobotPlan:
    return RobotPlan((GLOBAL,), values={ASK: True})


def _final_layers(updates: Sequence[Update], known: Mapping[str, Array], state: ServerState) -> dict[str, Array]:
    """Return the last layers (P,) float32 of described robots; of several versions the most frequent one counts."""
    described_ones = [u for u in updates if u.robot_id in state.robots and state.robots[u.robot_id].descriptor]
    vectors = _alike(described_ones, state)
    sizes = {vector.size for vector in known.values()}
    return {robot_id: vector for robot_id, vector in vectors.items() if not sizes or vector.size in sizes}


def _alike(updates: Sequence[Update], state: ServerState) -> dict[str, Array]:
    shapes = {spec.name: spec.shape for spec in state.signature.tensors}
    names = {update.robot_id: tuple(sorted(update.extras)) for update in updates}
    fitting = [
        update
        for update in updates
        if names[update.robot_id] and all(update.extras[n].shape == shapes.get(n) for n in names[update.robot_id])
    ]
    if not fitting:
        return {}
    counts = Counter(names[update.robot_id] for update in fitting)
    usual = min(counts, key=lambda found: (-counts[found], found))
    return {
        update.robot_id: np.concatenate([update.extras[name].astype(np.float32).ravel() for name in usual])
        for update in fitting
        if names[update.robot_id] == usual
    }


def _euclidean(vectors: Sequence[Array]) -> Floats:
    """Return the (R, R) distances of vectors (P,)."""
    from scipy.spatial.distance import pdist, squareform  # slow to import, and only this method needs it

    return np.asarray(squareform(pdist(np.stack(vectors).astype(np.float64))), np.float64)


def _counts(state: ServerState) -> dict[str, int]:
    return {robot_id: robot.num_samples for robot_id, robot in state.robots.items()}
