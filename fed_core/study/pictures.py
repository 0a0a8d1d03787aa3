"""Depth images that a report shows: what was true, and what each run predicted."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from fed_core.data.store import to_counts
from fed_core.errors import StoreError
from fed_core.study.evaluation import SequenceScore, UnseenSequence
from fed_core.types import Array


def save_predictions(scores: Sequence[SequenceScore], folder: Path) -> None:
    """Write ``<sequence>.png``, uint16 of 1/256 m, for each sequence's middle scored frame."""
    for score in scores:
        _write(folder / f"{score.sequence.name}.png", to_counts(score.panel))


def save_truth(unseen: Sequence[UnseenSequence], folder: Path) -> None:
    """Write ``<sequence>_rgb.png`` and ``<sequence>_depth.png`` (uint16 of 1/256 m) of the same frames, once."""
    for sequence in unseen:
        name, frame = sequence.sequence.name, sequence.middle
        for kind, image in (("rgb", frame.rgb[..., ::-1]), ("depth", to_counts(frame.depth_m))):
            if not (folder / f"{name}_{kind}.png").exists():
                _write(folder / f"{name}_{kind}.png", image)


def _write(path: Path, image: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not cv2.imwrite(str(path), np.ascontiguousarray(image)):
        raise StoreError(f"cannot write {path}; is the disk full?")
