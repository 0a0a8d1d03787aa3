"""Jeffreys divergence for robots with few frames: moderated variances, and logarithms of the features if wanted."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fed_core.errors import StrategyError
from fed_core.similarity import gaussian, jeffreys, log_gaussian, moderation
from fed_core.similarity.gaussian import Gaussians
from fed_core.similarity.group import Group
from fed_core.strategies.measures import Affinity, Floats
from fed_core.types import Json


@dataclass(frozen=True)
class Moderated(Affinity):
    """Jeffreys divergence of Gaussians; the floor is the variance that the fleet has in common.

    Attributes:
        weight: of the common variance, in frames; 0 = none, then variances are only floored.
    """

    kind: ClassVar[str] = gaussian.KIND

    weight: float = 0.0

    def floor(self, group: Group) -> Floats:
        """Return the fleet's common variance (D,); without weight the plain floor."""
        if not self.weight:
            return super().floor(group)
        return moderation.mean_variance(_gaussians(group))

    def pairs(self, group: Group, floor: Floats) -> Floats:
        """Return the (R, R) affinity."""
        if not self.weight:
            return super().pairs(group, floor)
        settled = moderation.moderate(_gaussians(group), floor, self.weight)
        raw = jeffreys.pairwise(settled.mean, settled.variance)
        out = self._scaled(raw, group, group)
        np.fill_diagonal(out, 0.0)
        return out

    def between(self, new: Group, group: Group, floor: Floats) -> Floats:
        """Return the (N, R) affinity."""
        if not self.weight:
            return super().between(new, group, floor)
        first, second = (moderation.moderate(_gaussians(g), floor, self.weight) for g in (new, group))
        return self._scaled(jeffreys.between(first.mean, first.variance, second.mean, second.variance), new, group)

    def figures(self, group: Group, floor: Floats, tau: float) -> dict[str, Json]:
        """Return the mean sampling noise of the affinity, and the share of the strongest channels."""
        if not self.weight:
            return dict(super().figures(group, floor, tau))
        noise = moderation.noise_floor(group.num_frames, group.num_frames, self.weight)
        pairs = noise[np.triu_indices(len(noise), 1)]
        unit = group.num_features if self.scale == "sum" else 1
        settled = moderation.moderate(_gaussians(group), floor, self.weight)
        share = jeffreys.top_share(settled, np.zeros_like(floor))
        return {"noise_floor": float(pairs.mean()) * unit if pairs.size else 0.0, "top_share": share}

    def _scaled(self, raw: Floats, new: Group, group: Group) -> Floats:
        out = raw / group.num_features
        if self.noise_correction:
            noise = moderation.noise_floor(new.num_frames, group.num_frames, self.weight)
            out = np.maximum(out - noise, 0.0)
        return out * group.num_features if self.scale == "sum" else out


@dataclass(frozen=True)
class LogModerated(Moderated):
    """The same of Gaussians of logarithms."""

    kind: ClassVar[str] = log_gaussian.KIND


def _gaussians(group: Group) -> Gaussians:
    if not isinstance(group, Gaussians):
        raise StrategyError(f"clusters of {group.kind!r} descriptors are stored, this strategy compares Gaussians")
    return group
