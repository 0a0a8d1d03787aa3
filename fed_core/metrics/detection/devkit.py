"""The nuScenes devkit's own evaluation ``detection_cvpr_2019``, on boxes in memory, quiet and without files.

The devkit is imported on use: it takes a second.
"""

import io
import math
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from typing import Any

from fed_core.errors import DataError
from fed_core.extras import needs
from fed_core.metrics.detection.scores import ERRORS, Figures

PROTOCOL = "detection_cvpr_2019"
#: A box of a submission: keys and values as the devkit names them.
Result = Mapping[str, Any]
Results = Mapping[str, Sequence[Result]]


@lru_cache(maxsize=1)
def protocol() -> Any:
    """Return the devkit's settings: ranges by class, matching distances, floors, most boxes of a sample."""
    with needs("nuscenes", "scoring detections needs nuscenes-devkit"):
        from nuscenes.eval.common.config import config_factory

    return config_factory(PROTOCOL)


class Truth:
    """The true boxes of some samples, filtered by the devkit once, for many evaluations.

    Args:
        tables: opened nuScenes tables (the devkit's ``NuScenes``).
        tokens: samples that are scored.

    Attributes:
        tokens: the samples.
        classes: with at least one box that the devkit counts, in the devkit's order.
        named: with at least one box before ranges, points and bike racks are looked at, as the released code counts.
    """

    def __init__(self, tables: Any, tokens: Sequence[str]) -> None:
        from nuscenes.eval.common.loaders import add_center_dist, load_gt_of_sample_tokens
        from nuscenes.eval.detection.data_classes import DetectionBox

        self._tables, self.tokens = tables, tuple(tokens)
        try:
            _check_attributes(tables, self.tokens)
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # it shows a progress bar
                boxes = load_gt_of_sample_tokens(tables, list(tokens), DetectionBox, verbose=False)
            self.named = _classes(boxes)
            self._boxes = _filtered(tables, add_center_dist(tables, boxes))
        except KeyError as err:
            raise DataError(f"{err} is not in the tables, but a scored sample needs it") from err
        self.classes = _classes(self._boxes)

    def evaluate(self, results: Results) -> Figures:
        """Return what the devkit makes of predictions.

        Args:
            results: boxes of each sample as in a submission; samples that are not named have none, and samples that
                are not scored are left out.
        """
        from nuscenes.eval.common.data_classes import EvalBoxes
        from nuscenes.eval.common.loaders import add_center_dist
        from nuscenes.eval.detection.data_classes import DetectionBox

        scored = set(self.tokens)
        kept = {token: boxes for token, boxes in results.items() if token in scored}
        missing: dict[str, Sequence[Result]] = {token: [] for token in self.tokens if token not in kept}
        try:
            said = EvalBoxes.deserialize({**kept, **missing}, DetectionBox)
        except (AssertionError, KeyError, TypeError, ValueError) as err:
            raise DataError(f"the devkit refuses a predicted box: {err}") from err
        return self.evaluate_boxes(_filtered(self._tables, add_center_dist(self._tables, said)))

    def evaluate_boxes(self, said: Any) -> Figures:
        """Return what the devkit makes of predictions that it has filtered (its ``EvalBoxes``)."""
        evaluation = _evaluation(self._boxes, said)
        metrics, _ = evaluation.evaluate()
        ap = {
            name: {d: metrics.get_label_ap(name, d) for d in metrics.cfg.dist_ths} for name in metrics.cfg.class_names
        }
        errors = {name: {e: metrics.get_label_tp(name, e) for e in ERRORS} for name in metrics.cfg.class_names}
        return Figures(ap, errors, self.classes, metrics.nd_score, metrics.mean_ap, metrics.tp_errors)


def _check_attributes(tables: Any, tokens: Sequence[str]) -> None:
    """Refuse true boxes that the devkit has no message of one line for."""
    for token in tokens:
        for annotation in tables.get("sample", token)["anns"]:
            if len(tables.get("sample_annotation", annotation)["attribute_tokens"]) > 1:
                raise DataError(f"true box {annotation} of sample {token} has several attributes; one at most is known")


def _evaluation(true: Any, said: Any) -> Any:
    """Return the devkit's evaluation of boxes in memory; its own start wants files and a folder to write to."""
    from nuscenes.eval.detection.evaluate import DetectionEval

    evaluation = DetectionEval.__new__(DetectionEval)
    evaluation.cfg, evaluation.verbose = protocol(), False
    evaluation.gt_boxes, evaluation.pred_boxes = true, said
    evaluation.sample_tokens = true.sample_tokens
    return evaluation


def _filtered(tables: Any, boxes: Any) -> Any:
    from nuscenes.eval.common.loaders import filter_eval_boxes

    if not any(boxes.boxes.values()):  # the devkit wants at least one
        return boxes
    return filter_eval_boxes(tables, boxes, protocol().class_range, verbose=False)


def _classes(boxes: Any) -> tuple[str, ...]:
    found = {box.detection_name for box in boxes.all}
    return tuple(name for name in protocol().class_names if name in found)


def finite(value: float) -> float | None:
    """Return a figure for JSON, None where it is not defined."""
    return float(value) if math.isfinite(value) else None
