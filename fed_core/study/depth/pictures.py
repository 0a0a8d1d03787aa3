"""Depth images that a report shows: what was true, and what each run predicted."""

from collections.abc import Sequence
from pathlib import Path

from fed_core.data.store import to_counts
from fed_core.study.depth.evaluation import SequenceScore, UnseenSequence
from fed_core.study.png import write_png


def save_predictions(scores: Sequence[SequenceScore], folder: Path) -> None:
    """Write ``<sequence>.png``, uint16 of 1/256 m, for each sequence's middle scored frame."""
    for score in scores:
        write_png(folder / f"{score.sequence.name}.png", to_counts(score.panel))


def save_truth(unseen: Sequence[UnseenSequence], folder: Path) -> None:
    """Write ``<sequence>_rgb.png`` and ``<sequence>_depth.png`` (uint16 of 1/256 m) of the same frames, once."""
    for sequence in unseen:
        name, frame = sequence.sequence.name, sequence.middle
        for kind, image in (("rgb", frame.rgb[..., ::-1]), ("depth", to_counts(frame.depth_m))):
            if not (folder / f"{name}_{kind}.png").exists():
                write_png(folder / f"{name}_{kind}.png", image)
