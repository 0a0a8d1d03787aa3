"""Scores the models of a plan on unseen sequences: one choice per sequence, the remaining frames scored (spec 6, 8)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from fed_core.data.open import open_source
from fed_core.errors import DataError
from fed_core.metrics.depth import mean_metrics, micro_mean
from fed_core.roles.messages import FleetPlan
from fed_core.store.blobs import BlobStore
from fed_core.strategies.base import Strategy
from fed_core.study.config import StudyConfig
from fed_core.study.scenario import StudySequence
from fed_core.tasks.base import Task
from fed_core.training.jobs import Toolbox
from fed_core.types import Array, Choice, DepthFrame, Descriptor, Memory, ModelSignature
from fed_core.wire.codec import load_memory

Metrics = Mapping[str, float]
#: A sequence cannot choose by fewer frames: one image has no variance.
FEWEST = 2


@dataclass(frozen=True)
class SequenceScore:
    """What one sequence got.

    Attributes:
        sequence: which one.
        choice: models that served it.
        images: metrics of each scored frame after those that chose.
        prefix: metrics of scored frames among those that chose.
        near: metrics of scored frames at the smaller cap, where the sequence has one.
        panel: (H, W) float32 metres, prediction of the middle scored frame.
    """

    sequence: StudySequence
    choice: Choice
    images: Sequence[Metrics]
    prefix: Sequence[Metrics]
    near: Sequence[Metrics]
    panel: Array


class UnseenSequence:
    """Frames of one unseen sequence in memory, and its descriptors.

    Args:
        sequence: which one.
        config: how many frames choose, and which are scored.
        describe: images and kind to a descriptor.
    """

    def __init__(
        self, sequence: StudySequence, config: StudyConfig, describe: Callable[[Any, str], Descriptor]
    ) -> None:
        self.sequence, self._describe = sequence, describe
        source = open_source(sequence.source, Path())
        self.num_prefix = prefix_length(len(source), config, sequence.name)
        self.prefix = [source[i] for i in range(self.num_prefix)]
        self.scored = [source[i] for i in range(self.num_prefix, len(source), config.score_step)]
        self.early = self.prefix[:: config.score_step]
        self._descriptors: dict[str, Descriptor] = {}

    @property
    def middle(self) -> DepthFrame:
        """The frame that pictures show."""
        return self.scored[len(self.scored) // 2]

    def descriptor(self, kind: str | None) -> Descriptor | None:
        """Return the descriptor of the first frames, made once per kind."""
        if kind is None:
            return None
        if kind not in self._descriptors:
            self._descriptors[kind] = self._describe((frame.rgb for frame in self.prefix), kind)
        return self._descriptors[kind]


def prefix_length(num_frames: int, config: StudyConfig, name: str) -> int:
    """Return how many first frames choose: a share of the sequence, within bounds (fedepth spec 6.1)."""
    count = max(FEWEST, min(config.descriptor_most, round(config.descriptor_share * num_frames)))
    if count >= num_frames:
        raise DataError(f"sequence {name!r} has {num_frames} frames; {count} choose its models, none is left to score")
    return count


class TestBench:
    """All unseen sequences of a scenario, with the one network that the models are loaded into in turn.

    Args:
        unseen: the sequences.
        network: a built network.
        architecture: its registered name.
        toolbox: loads weights.
        task: predicts and scores.
        mirror: average with the prediction of the mirror image.
    """

    __test__ = False  # not a test class

    def __init__(
        self,
        unseen: Sequence[UnseenSequence],
        network: nn.Module,
        architecture: str,
        toolbox: Toolbox,
        task: Task,
        *,
        mirror: bool = False,
    ) -> None:
        self.unseen, self._network, self._toolbox, self._task = unseen, network, toolbox, task
        self._mirror = mirror
        self._network.eval()
        self._signature: ModelSignature = toolbox.signature(network, architecture)

    def score(
        self, plan: FleetPlan, store: BlobStore, strategy: Strategy, *, everything: bool = False
    ) -> list[SequenceScore]:
        """Return the scores of all sequences, in order.

        Args:
            plan: whose models are scored.
            store: holds its blobs.
            strategy: chooses and blends.
            everything: score the first frames and the smaller caps, too.
        """
        serving = load_memory(store.path(plan.serving.digest)) if plan.serving else Memory()
        chosen: dict[tuple[str, ...], list[tuple[int, Choice]]] = {}
        for place, unseen in enumerate(self.unseen):
            choice = strategy.choose(unseen.descriptor(strategy.descriptor), plan.models, serving)
            chosen.setdefault(choice.keys, []).append((place, choice))
        scores: dict[int, SequenceScore] = {}
        for keys, members in chosen.items():
            models = {key: store.open(plan.blobs[key].digest) for key in keys}
            self._toolbox.load_arrays(self._network, dict(strategy.blend(models, self._signature)))
            for place, choice in members:
                scores[place] = self._score(self.unseen[place], choice, everything=everything)
        return [scores[place] for place in range(len(self.unseen))]

    def _score(self, unseen: UnseenSequence, choice: Choice, *, everything: bool) -> SequenceScore:
        rule = unseen.sequence.score
        predicted = [self._predict(frame.rgb) for frame in unseen.scored]
        images = self._metrics(predicted, unseen.scored, unseen, rule.cap_m)
        near, prefix = [], []
        if everything:
            early = [self._predict(frame.rgb) for frame in unseen.early]
            prefix = self._metrics(early, unseen.early, unseen, rule.cap_m)
            near = self._metrics(predicted, unseen.scored, unseen, rule.near_cap_m) if rule.near_cap_m else []
        if not images:
            raise DataError(f"no frame of {unseen.sequence.name!r} has a depth between its bounds; nothing to score")
        return SequenceScore(unseen.sequence, choice, images, prefix, near, predicted[len(predicted) // 2])

    def _predict(self, rgb: Array) -> Array:
        predicted = self._task.predict(self._network, rgb)
        if not self._mirror:
            return predicted
        mirrored = self._task.predict(self._network, np.ascontiguousarray(rgb[:, ::-1]))
        average: Array = (predicted + mirrored[:, ::-1]) / 2
        return average

    def _metrics(
        self, predicted: Sequence[Array], frames: Sequence[DepthFrame], unseen: UnseenSequence, cap_m: float
    ) -> list[Metrics]:
        rule = unseen.sequence.score
        options = {"cap_m": cap_m, "d_min_m": rule.d_min_m, "crop": rule.crop}
        found = (self._task.metrics(p, frame, **options) for p, frame in zip(predicted, frames, strict=True))
        return [metrics for metrics in found if metrics is not None]


def by_cell(scores: Sequence[SequenceScore]) -> dict[str, dict[str, float]]:
    """Return the mean metrics of each platform and environment, over its sequences."""
    cells: dict[str, list[Metrics]] = {}
    for score in scores:
        cells.setdefault(score.sequence.cell, []).append(mean_metrics(score.images))
    return {cell: mean_metrics(sequences) for cell, sequences in cells.items()}


def macro(scores: Sequence[SequenceScore]) -> dict[str, float]:
    """Return the headline: mean over images of a sequence, then mean over sequences."""
    return mean_metrics([mean_metrics(score.images) for score in scores])


def micro(scores: Sequence[SequenceScore]) -> dict[str, float]:
    """Return the mean over all images."""
    return micro_mean([score.images for score in scores])


def fallback_rate(scores: Sequence[SequenceScore]) -> float | None:
    """Return the share of sequences with no cluster near enough; None where the strategy has no threshold."""
    if not any(score.choice.distances for score in scores):
        return None
    return sum(score.choice.fallback for score in scores) / len(scores)
