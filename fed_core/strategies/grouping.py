"""Who belongs to which cluster, and what a newcomer or a sequence is compared with; shared by clustered methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from fed_core.clustering.soft import Members, linkage, survivors, validate
from fed_core.errors import StrategyError
from fed_core.similarity import descriptors
from fed_core.similarity.group import Group
from fed_core.strategies.base import RobotInfo
from fed_core.strategies.measures import Measure
from fed_core.types import Array, Descriptor, Memory

SCHEMA_VERSION = 1
_UPLOAD = "upload/"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Grouping:
    """Clusters of robots with everything that later comparisons need.

    Attributes:
        robots: (R) ids, the columns.
        ids: (K) numbers of the clusters; they never change their meaning, unlike indices.
        sources: (K) keys that hold the clusters' models; "global" as long as a cluster was never aggregated.
        members: (K, R) bool.
        group: descriptors of the robots.
        floor: (D,) variance floor, computed once; empty for subspaces.
        tau: threshold.
        encoder: digest of the encoder of all descriptors.
        num_built: robots that were there when the clusters were made.
        num_changes: robots that came or left since.
        uploads: (P,) by robot, weights that it was clustered by, where the method does so.
    """

    robots: tuple[str, ...]
    ids: tuple[int, ...]
    sources: tuple[str, ...]
    members: Members
    group: Group
    floor: Floats
    tau: float
    encoder: str
    num_built: int
    num_changes: int = 0
    uploads: Mapping[str, Array] = field(default_factory=dict)

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

    def distances(self, descriptor: Descriptor, how: Measure, who: str) -> Floats:
        """Return the (K,) distances of a descriptor to the clusters; one of another encoder is refused."""
        size = self.group.num_features
        descriptors.check(descriptor, kind=how.kind, encoder=self.encoder, num_features=size, who=who)
        row = how.between(self.group.stack([descriptor]), self.group, self.floor)[0]
        return linkage(row, self.members, how.link)

    def without(self, robot_ids: Sequence[str], dedup: str) -> "Grouping":
        """Return the grouping after robots left; clusters that became empty or superfluous are dropped."""
        columns = [i for i, robot_id in enumerate(self.robots) if robot_id not in robot_ids]
        if len(columns) == len(self.robots) or not columns:
            return self
        robots = tuple(self.robots[i] for i in columns)
        left = replace(
            self,
            robots=robots,
            members=self.members[:, columns],
            group=self.group.take(columns),
            num_changes=self.num_changes + len(self.robots) - len(columns),
            uploads={robot_id: vector for robot_id, vector in self.uploads.items() if robot_id in robots},
        )
        return left.pruned(dedup)

    def pruned(self, dedup: str) -> "Grouping":
        """Return the grouping without clusters that are empty or superfluous."""
        rows = survivors(self.members, dedup)
        return replace(
            self,
            ids=tuple(self.ids[k] for k in rows),
            sources=tuple(self.sources[k] for k in rows),
            members=self.members[rows],
        )

    def with_robot(self, robot: RobotInfo, clusters: Sequence[int]) -> "Grouping":
        """Return the grouping with a newcomer in ``clusters``; the clusters themselves stay."""
        column = np.zeros((len(self.ids), 1), np.bool_)
        column[list(clusters)] = True
        return replace(
            self,
            robots=(*self.robots, robot.robot_id),
            members=np.concatenate([self.members, column], axis=1),
            group=self.group.append(self.group.stack([_descriptor(robot)])),
            num_changes=self.num_changes + 1,
        )

    def moved(self, robot_id: str, clusters: Sequence[int]) -> "Grouping":
        """Return the grouping with a robot in ``clusters`` and in no other; one may be left empty."""
        members = self.members.copy()
        members[:, self.robots.index(robot_id)] = False
        members[list(clusters), self.robots.index(robot_id)] = True
        return replace(self, members=members)

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
        tensors |= {f"{_UPLOAD}{robot_id}": vector for robot_id, vector in self.uploads.items()}
        values = {
            "schema": SCHEMA_VERSION,
            "kind": self.group.kind,
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
        # Files of the first version hold Gaussians and do not say so.
        group = descriptors.GROUPS[str(values.get("kind", "gaussian"))].from_tensors(memory.tensors)
        floor = memory.tensors["floor"].astype(np.float64)
        uploads = {n.removeprefix(_UPLOAD): memory.tensors[n] for n in memory.tensors if n.startswith(_UPLOAD)}
        return cls(members=members, group=group, floor=floor, uploads=uploads, **tree)  # type: ignore[arg-type]


def described(robots: Mapping[str, RobotInfo], kind: str) -> list[RobotInfo]:
    """Return the robots that sent a descriptor, by id; none, or one of another kind or encoder, is an error."""
    found = [robots[robot_id] for robot_id in sorted(robots) if robots[robot_id].descriptor is not None]
    if not found:
        raise StrategyError(f"none of the {len(robots)} robots sent a descriptor; clusters cannot be made without")
    first = _descriptor(found[0])
    for robot in found:
        known = None if robot is found[0] else first
        descriptors.check_like(_descriptor(robot), known, kind=kind, who=f"robot {robot.robot_id!r}")
    return found


def grouped(robots: Sequence[RobotInfo], how: Measure) -> tuple[Group, Floats]:
    """Return the descriptors of described robots, in their order, and the floor of their comparison."""
    group = descriptors.GROUPS[how.kind].stack([_descriptor(robot) for robot in robots])
    return group, how.floor(group)


def _descriptor(robot: RobotInfo) -> Descriptor:
    if robot.descriptor is None:
        raise StrategyError(f"robot {robot.robot_id!r} sent no descriptor; it cannot be put into a cluster")
    return robot.descriptor
