"""Who belongs to which cluster, and what a newcomer or a sequence is compared with; shared by clustered methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fed_core.clustering.soft import Members, linkage, survivors, validate
from fed_core.errors import StrategyError
from fed_core.similarity import gaussian, jeffreys
from fed_core.similarity.gaussian import Gaussians
from fed_core.strategies.base import RobotInfo
from fed_core.types import Descriptor, Memory

SCHEMA_VERSION = 1

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Affinity:
    """How descriptors are compared; options of the strategy.

    Attributes:
        scale: "mean" = J / D or "sum" = J.
        noise_correction: subtract what sampling alone explains.
        link: "mean", "min" or "max" over the members of a cluster.
    """

    scale: str = "mean"
    noise_correction: bool = False
    link: str = "mean"


@dataclass(frozen=True)
class Grouping:
    """Clusters of robots with everything that later comparisons need.

    Attributes:
        robots: (R) ids, the columns.
        ids: (K) numbers of the clusters; they never change their meaning, unlike indices.
        sources: (K) keys that hold the clusters' models; "global" as long as a cluster was never aggregated.
        members: (K, R) bool.
        group: descriptors of the robots.
        floor: (D,) variance floor, computed once.
        tau: threshold.
        encoder: digest of the encoder of all descriptors.
        num_built: robots that were there when the clusters were made.
        num_changes: robots that came or left since.
    """

    robots: tuple[str, ...]
    ids: tuple[int, ...]
    sources: tuple[str, ...]
    members: Members
    group: Gaussians
    floor: Floats
    tau: float
    encoder: str
    num_built: int
    num_changes: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the clusters' own models."""
        return tuple(f"cluster/{number}" for number in self.ids)

    def clusters_of(self, robot_id: str) -> tuple[int, ...]:
        """Return the indices of a robot's clusters; all of them for a robot that is not grouped."""
        if robot_id not in self.robots:
            return tuple(range(len(self.ids)))
        column = self.members[:, self.robots.index(robot_id)]
        return tuple(int(k) for k in np.flatnonzero(column))

    def by_robot(self) -> dict[str, tuple[int, ...]]:
        """Return the indices of every robot's clusters."""
        return {robot_id: self.clusters_of(robot_id) for robot_id in self.robots}

    def samples(self, counts: Mapping[str, int]) -> npt.NDArray[np.int64]:
        """Return (R,) sample counts in the order of the columns, 0 for robots that ``counts`` lacks."""
        return np.array([counts.get(robot_id, 0) for robot_id in self.robots], np.int64)

    def affinity(self, how: Affinity) -> Floats:
        """Return the (R, R) affinity of the robots."""
        return jeffreys.affinity(self.group, self.floor, scale=how.scale, noise_correction=how.noise_correction)

    def distances(self, descriptor: Descriptor, how: Affinity, who: str) -> Floats:
        """Return the (K,) distances of a descriptor to the clusters; one of another encoder is refused."""
        gaussian.check(descriptor, encoder=self.encoder, num_features=len(self.floor), who=who)
        new = Gaussians.stack([descriptor])
        options = {"scale": how.scale, "noise_correction": how.noise_correction}
        row = jeffreys.distances(new, self.group, self.floor, **options)[0]  # type: ignore[arg-type]
        return linkage(row, self.members, how.link)

    def without(self, robot_ids: Sequence[str], dedup: str) -> "Grouping":
        """Return the grouping after robots left; clusters that became empty or superfluous are dropped."""
        columns = [i for i, robot_id in enumerate(self.robots) if robot_id not in robot_ids]
        if len(columns) == len(self.robots) or not columns:
            return self
        members = self.members[:, columns]
        rows = survivors(members, dedup)
        return replace(
            self,
            robots=tuple(self.robots[i] for i in columns),
            ids=tuple(self.ids[k] for k in rows),
            sources=tuple(self.sources[k] for k in rows),
            members=members[rows],
            group=self.group.take(columns),
            num_changes=self.num_changes + len(self.robots) - len(columns),
        )

    def with_robot(self, robot: RobotInfo, clusters: Sequence[int]) -> "Grouping":
        """Return the grouping with a newcomer in ``clusters``; the clusters themselves stay."""
        column = np.zeros((len(self.ids), 1), np.bool_)
        column[list(clusters)] = True
        return replace(
            self,
            robots=(*self.robots, robot.robot_id),
            members=np.concatenate([self.members, column], axis=1),
            group=self.group.append(Gaussians.stack([_descriptor(robot)])),
            num_changes=self.num_changes + 1,
        )

    def with_cluster(self, source: str) -> "Grouping":
        """Return the grouping with one more cluster, still empty, whose model is that of key ``source``."""
        empty = np.zeros((1, len(self.robots)), np.bool_)
        return replace(
            self,
            ids=(*self.ids, max(self.ids) + 1),
            sources=(*self.sources, source),
            members=np.concatenate([self.members, empty]),
        )

    def to_memory(self) -> Memory:
        """Return tensors and JSON; :meth:`from_memory` reads them."""
        tensors = {**self.group.to_tensors(), "floor": self.floor, "members": self.members.astype(np.uint8)}
        values = {
            "schema": SCHEMA_VERSION,
            "robots": list(self.robots),
            "ids": list(self.ids),
            "sources": list(self.sources),
            "tau": self.tau,
            "encoder": self.encoder,
            "num_built": self.num_built,
            "num_changes": self.num_changes,
        }
        return Memory(tensors, values)  # type: ignore[arg-type]

    @classmethod
    def from_memory(cls, memory: Memory) -> "Grouping":
        """Read what :meth:`to_memory` wrote; another schema or a broken membership is refused."""
        values: Mapping[str, object] = memory.values
        if values.get("schema") != SCHEMA_VERSION:
            found = values.get("schema", "none")
            raise StrategyError(f"clusters are stored in schema {found}, this version reads schema {SCHEMA_VERSION}")
        tree: dict[str, object] = {name: values[name] for name in ("tau", "encoder", "num_built", "num_changes")}
        for name in ("robots", "ids", "sources"):
            tree[name] = tuple(values[name])  # type: ignore[arg-type]
        members = memory.tensors["members"].astype(np.bool_)
        validate(members, len(tree["robots"]))  # type: ignore[arg-type]
        group, floor = Gaussians.from_tensors(memory.tensors), memory.tensors["floor"].astype(np.float64)
        return cls(members=members, group=group, floor=floor, **tree)  # type: ignore[arg-type]


def described(robots: Mapping[str, RobotInfo]) -> list[RobotInfo]:
    """Return the robots that sent a descriptor, by id; none, or one of another encoder, is an error."""
    found = [robots[robot_id] for robot_id in sorted(robots) if robots[robot_id].descriptor is not None]
    if not found:
        raise StrategyError(f"none of the {len(robots)} robots sent a descriptor; clusters cannot be made without")
    first = _descriptor(found[0])
    for robot in found:
        size = first.tensors["mean"].size
        gaussian.check(_descriptor(robot), encoder=first.encoder, num_features=size, who=f"robot {robot.robot_id!r}")
    return found


def stack(robots: Sequence[RobotInfo]) -> Gaussians:
    """Return the descriptors of described robots, in their order."""
    return Gaussians.stack([_descriptor(robot) for robot in robots])


def _descriptor(robot: RobotInfo) -> Descriptor:
    if robot.descriptor is None:
        raise StrategyError(f"robot {robot.robot_id!r} sent no descriptor; it cannot be put into a cluster")
    return robot.descriptor
