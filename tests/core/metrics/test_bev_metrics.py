"""IoU on toy masks: every count by hand."""

import math

import numpy as np
import pytest

from fed_core.errors import DataError
from fed_core.metrics.bev import Confusion, confusion, confusions, iou_frame, iou_global

ALL = np.ones((2, 3), bool)
NONE = np.zeros((2, 3), bool)


def cells(text: str) -> np.ndarray:
    return np.array([[cell == "x" for cell in row] for row in text.split()])


def test_counts_of_one_frame() -> None:
    assert confusion(cells("xx. ..x"), cells("x.. .xx"), ALL) == Confusion(tp=2, fp=1, fn=1)


def test_cells_that_no_camera_sees_do_not_count() -> None:
    known = cells("xxx ...")

    assert confusion(cells("xx. ..x"), cells("x.. .xx"), known) == Confusion(tp=1, fp=1, fn=0)
    assert confusion(cells("... xxx"), cells("... .x."), known) == Confusion(0, 0, 0)


@pytest.mark.parametrize(
    ("predicted", "mask", "iou"),
    [
        (cells("xx. ..."), cells("x.. ..."), 0.5),
        (NONE, cells("x.. ..x"), 0.0),  # empty prediction
        (cells("x.. ..x"), NONE, 0.0),  # empty label
        (ALL, ALL, 1.0),
    ],
)
def test_iou_of_one_frame(predicted: np.ndarray, mask: np.ndarray, iou: float) -> None:
    frame = confusion(predicted, mask, ALL)

    assert iou_global([frame]) == iou_frame([frame]) == iou


def test_without_any_vehicle_there_is_no_iou() -> None:
    both_empty = confusion(NONE, NONE, ALL)

    assert both_empty == (0, 0, 0) and both_empty.union == 0
    assert math.isnan(iou_global([both_empty])) and math.isnan(iou_frame([both_empty]))
    assert math.isnan(iou_global([])) and math.isnan(iou_frame([]))


def test_frames_of_a_batch_are_counted_each() -> None:
    """Four frames: a good one, a missed one, an empty one, one half right with twice the cells."""
    predicted = np.stack([cells("x.. ..."), NONE, NONE, cells("xx. xx.")])
    mask = np.stack([cells("x.. ..."), cells(".x. ..."), NONE, cells("x.. x..")])
    frames = confusions(predicted, mask, np.stack([ALL] * 4))

    assert frames == [(1, 0, 0), (0, 0, 1), (0, 0, 0), (2, 2, 0)]
    assert iou_global(frames) == 3 / 6
    assert iou_frame(frames) == pytest.approx((1.0 + 0.0 + 0.5) / 3)  # the empty frame is left out


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(DataError, match=r"shapes \(2, 3\), \(3, 3\) and \(2, 3\); scores need one"):
        confusion(NONE, np.zeros((3, 3), bool), ALL)
    with pytest.raises(DataError, match="got 2 predictions, 1 masks and 2 maps"):
        confusions(np.stack([ALL] * 2), np.stack([ALL]), np.stack([ALL] * 2))
