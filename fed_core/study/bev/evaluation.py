"""Scores a client's model on its frames: the model that its next round starts from, private parts included."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError
from fed_core.metrics.bev import Confusion, confusions, iou_frame, iou_global
from fed_core.study.base import Run
from fed_core.study.client_models import frames_of
from fed_core.study.scenario import StudySequence
from fed_core.tasks.bev import BevTask
from fed_core.types import BevFrame

#: Shares of the training frames from which on a constant map holds a vehicle.
_THRESHOLDS = (0.005, 0.01, 0.02, 0.03, *(np.arange(1, 20) / 20).tolist())


@dataclass(frozen=True)
class Scored:
    """Frames that score one client's models.

    Attributes:
        sequence: which ones.
        dataset: the same in the network's size.
    """

    sequence: StudySequence
    dataset: Any

    @property
    def owner(self) -> str:
        """The client."""
        return self.sequence.owner


def read_scored(run: Run) -> list[Scored]:
    """Return the frames of all unseen sequences."""
    return [Scored(test, frames_of(run, test)) for test in run.job.scenario.tests]


def score(run: Run, scored: Scored) -> dict[str, float | None]:
    """Return iou_global and iou_frame [1] of the loaded model; None where no vehicle is true or claimed."""
    counts = BevTask().score(run.network, scored.dataset)
    return {"iou_global": _finite(iou_global(counts)), "iou_frame": _finite(iou_frame(counts))}


def constant_map(run: Run, client: StudySequence, scored: Scored) -> dict[str, float | None]:
    """Return the test IoU of one map for all frames, made of a client's true training maps without any camera.

    A network that is no better sees nothing. The threshold is the best on the training frames.
    """
    train = frames_of(run, client)
    shares = (train.mask & train.known).sum(0) / np.maximum(train.known.sum(0), 1)

    def counts(dataset: Any, threshold: float) -> list[Confusion]:
        said = np.broadcast_to(shares >= threshold, dataset.mask.shape)
        return confusions(said, dataset.mask, dataset.known)

    best = max(_THRESHOLDS, key=lambda threshold: _finite(iou_global(counts(train, threshold))) or 0.0)
    found = counts(scored.dataset, best)
    return {"iou_global": _finite(iou_global(found)), "iou_frame": _finite(iou_frame(found))}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def middle_frame(scored: Scored) -> BevFrame:
    """Return the frame that pictures show, the readable one that is nearest to the middle."""
    sequence = BevTask().open(scored.sequence.source, Path())
    middle = len(sequence) // 2
    for index in sorted(range(len(sequence)), key=lambda index: abs(index - middle)):
        try:
            frame: BevFrame = sequence[index]
        except DataError:
            continue
        return frame
    raise DataError(f"{scored.sequence.name} has no frame that can be read")


def predict(run: Run, frame: BevFrame) -> npt.NDArray[np.float32]:
    """Return the loaded model's map (S, S) float32, probability of a vehicle."""
    return np.asarray(BevTask().predict(run.network, frame), np.float32)


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the figures that are there, None without any."""
    found = [value for value in values if value is not None]
    return float(np.mean(found)) if found else None
