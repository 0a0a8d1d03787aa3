"""What a demo tells of a task: its figures, and the words for what was served."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One figure of a score.

    Attributes:
        key: its key in the scores.
        title: what people read.
        higher: whether more is better.
    """

    key: str
    title: str
    higher: bool = False

    def best(self, values: Sequence[float | None]) -> float | None:
        """Return the best of values; None where all are missing."""
        there = [value for value in values if value is not None]
        return (max(there) if self.higher else min(there)) if there else None

    def mean(self, values: Sequence[float | None]) -> float:
        """Return the mean of the values that are there, NaN where none is."""
        there = [value for value in values if value is not None]
        return math.fsum(there) / len(there) if there else math.nan


@dataclass(frozen=True)
class TaskWords:
    """How results of a task are told.

    Attributes:
        served: what inference serves.
        figures: the figures of each sequence, the main one first.
    """

    served: str
    figures: tuple[Figure, ...]


WORDS: Mapping[str, TaskWords] = {
    "depth": TaskWords("depth", (Figure("abs_rel", "AbsRel"), Figure("delta1", "delta1", higher=True))),
    "bev": TaskWords(
        "maps of vehicles", (Figure("iou_global", "IoU", higher=True), Figure("iou_frame", "IoU by frame", higher=True))
    ),
    "detection": TaskWords("boxes", (Figure("nds", "NDS", higher=True), Figure("map", "mAP", higher=True))),
}


def words_of(summary: Mapping[str, Any]) -> TaskWords:
    """Return the words for a summary; those without a task are of depth."""
    return WORDS[summary.get("task", "depth")]


def number(value: float | None) -> str:
    """Return a figure as text, "-" where it is missing."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"
