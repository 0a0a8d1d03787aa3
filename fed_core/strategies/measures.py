"""How clustered methods compare descriptors: by Jeffreys divergence or by angles."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fed_core.errors import StrategyError
from fed_core.similarity import gaussian, jeffreys, subspace
from fed_core.similarity.gaussian import Gaussians
from fed_core.similarity.group import Group
from fed_core.similarity.subspace import Subspaces
from fed_core.types import Json

Floats = npt.NDArray[np.float64]


class Measure(ABC):
    """A way to compare robots; a frozen dataclass of a strategy's options.

    Attributes:
        kind: of the descriptors that it compares.
        link: distance to a cluster from its members: "mean", "min" or "max".
    """

    kind: ClassVar[str]
    link: str

    @abstractmethod
    def floor(self, group: Group) -> Floats:
        """Return what is computed once from the first robots and stored; empty where nothing is."""

    @abstractmethod
    def pairs(self, group: Group, floor: Floats) -> Floats:
        """Return the (R, R) distances within a group: symmetric, zero diagonal, smaller is more alike."""

    @abstractmethod
    def between(self, new: Group, group: Group, floor: Floats) -> Floats:
        """Return the (N, R) distances of new descriptors to a group."""

    def figures(self, group: Group, floor: Floats, tau: float) -> dict[str, Json]:
        """Return what is worth logging about the distances of a group; "warnings" are told to people."""
        return {}


@dataclass(frozen=True)
class Affinity(Measure):
    """Jeffreys divergence of Gaussians.

    Attributes:
        scale: "mean" = J / D or "sum" = J.
        noise_correction: subtract what sampling alone explains.
        link: "mean", "min" or "max" over the members of a cluster.
    """

    kind: ClassVar[str] = gaussian.KIND

    scale: str = "mean"
    noise_correction: bool = False
    link: str = "mean"

    def floor(self, group: Group) -> Floats:
        """Return the variance floor (D,)."""
        return jeffreys.variance_floor(_gaussians(group).variance)

    def pairs(self, group: Group, floor: Floats) -> Floats:
        """Return the (R, R) affinity."""
        return jeffreys.affinity(_gaussians(group), floor, scale=self.scale, noise_correction=self.noise_correction)

    def between(self, new: Group, group: Group, floor: Floats) -> Floats:
        """Return the (N, R) affinity."""
        first, second = _gaussians(new), _gaussians(group)
        return jeffreys.distances(first, second, floor, scale=self.scale, noise_correction=self.noise_correction)

    def figures(self, group: Group, floor: Floats, tau: float) -> dict[str, Json]:
        """Return the mean sampling noise of the affinity, and the share of the strongest channels (spec 3.3, 14.1)."""
        counts = group.num_frames
        noise = jeffreys.noise_floor(counts, counts)[np.triu_indices(len(counts), 1)]
        unit = len(floor) if self.scale == "sum" else 1
        mean = float(noise.mean()) * unit if noise.size else 0.0
        figures: dict[str, Json] = {"noise_floor": mean, "top_share": jeffreys.top_share(_gaussians(group), floor)}
        if tau <= mean and not self.noise_correction:
            text = f"tau = {tau:.4g} is not above the sampling noise of the affinities ({mean:.4g})"
            figures["warnings"] = [f"{text}: chance decides the clusters; describe more frames or raise tau"]
        return figures


@dataclass(frozen=True)
class Angles(Measure):
    """Angles between subspaces, in degrees.

    Attributes:
        angle: "principal", "entrywise" or "sum".
        link: "mean", "min" or "max" over the members of a cluster.
    """

    kind: ClassVar[str] = subspace.KIND

    angle: str = "principal"
    link: str = "mean"

    def floor(self, group: Group) -> Floats:
        """Return nothing: angles need no floor."""
        return np.zeros(0)

    def pairs(self, group: Group, floor: Floats) -> Floats:
        """Return the (R, R) angles."""
        return subspace.affinity(_subspaces(group), self.angle)

    def between(self, new: Group, group: Group, floor: Floats) -> Floats:
        """Return the (N, R) angles."""
        return subspace.angles(_subspaces(new), _subspaces(group), self.angle)


def _gaussians(group: Group) -> Gaussians:
    if not isinstance(group, Gaussians):
        raise _wrong(group, gaussian.KIND)
    return group


def _subspaces(group: Group) -> Subspaces:
    if not isinstance(group, Subspaces):
        raise _wrong(group, subspace.KIND)
    return group


def _wrong(group: Group, kind: str) -> StrategyError:
    return StrategyError(f"clusters of {group.kind!r} descriptors are stored, this strategy compares {kind!r} ones")
