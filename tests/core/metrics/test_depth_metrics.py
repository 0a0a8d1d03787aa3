"""Depth metrics: pixels worked out by hand, what counts as valid, crops by index, means over images and sequences."""

import math

import numpy as np
import pytest

from fed_core.errors import DataError
from fed_core.metrics.depth import NAMES, crop_mask, mean_metrics, micro_mean, score_frame


def row(*metres: float) -> np.ndarray:
    return np.array([metres], np.float32)


def test_three_pixels_by_hand() -> None:
    scores = score_frame(row(1.0, 3.0, 2.0), row(1.0, 2.0, 4.0), cap_m=80.0)

    # e = (0, ln 1.5, -ln 2); ratios 1, 1.5, 2 against 1.25, 1.5625, 1.953
    a, b = math.log(1.5), math.log(2.0)
    expected = {
        "abs_rel": (0.0 + 1 / 2 + 2 / 4) / 3,
        "sq_rel": (0.0 + 1 / 2 + 4 / 4) / 3,
        "rmse_m": math.sqrt((0 + 1 + 4) / 3),
        "rmse_log": math.sqrt((a * a + b * b) / 3),
        "log10": math.log10(3.0) / 3,
        "silog": 100 * math.sqrt((a * a + b * b) / 3 - ((a - b) / 3) ** 2),
        "delta1": 1 / 3,
        "delta2": 2 / 3,
        "delta3": 2 / 3,
    }
    assert tuple(scores) == NAMES
    assert scores == pytest.approx(expected, rel=1e-6)


def test_a_common_factor_costs_everything_but_silog() -> None:
    truth = row(1.0, 5.0, 20.0)

    scores = score_frame(2.0 * truth, truth, cap_m=80.0)

    assert scores["silog"] == pytest.approx(0.0, abs=1e-3)
    assert scores["abs_rel"] == pytest.approx(1.0)
    assert scores["delta3"] == 0.0


def test_only_finite_depth_strictly_between_the_bounds_is_scored() -> None:
    # 10 is the cap and 0.1 the least depth: both are out. Where the prediction is scored it is right.
    truth = row(np.nan, np.inf, 0.0, -1.0, 0.1, 10.0, 12.0, 5.0)
    predicted = row(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0)

    assert score_frame(predicted, truth, cap_m=10.0, d_min_m=0.1)["abs_rel"] == 0.0


@pytest.mark.parametrize(
    ("predicted", "counts_as"), [(np.inf, 10.0), (40.0, 10.0), (np.nan, 0.5), (-np.inf, 0.5), (0.0, 0.5), (-3.0, 0.5)]
)
def test_predictions_are_clamped(predicted: float, counts_as: float) -> None:
    scores = score_frame(row(predicted), row(5.0), cap_m=10.0, d_min_m=0.5)

    assert scores["abs_rel"] == pytest.approx(abs(counts_as - 5.0) / 5.0)


def test_an_image_without_valid_depth_has_no_score() -> None:
    assert score_frame(row(1.0, 2.0), row(np.nan, 90.0), cap_m=80.0) is None


def test_sizes_must_agree() -> None:
    with pytest.raises(DataError, match=r"prediction is \(1, 2\) and truth \(1, 3\); scores need equal sizes"):
        score_frame(row(1.0, 2.0), row(1.0, 2.0, 3.0), cap_m=80.0)


@pytest.mark.parametrize(
    ("name", "size", "rows", "columns"),
    [
        ("garg", (375, 1242), (153, 371), (44, 1197)),
        ("eigen", (375, 1242), (124, 342), (44, 1197)),
        ("garg", (352, 1216), (143, 349), (43, 1172)),
        ("nyu", (480, 640), (45, 471), (41, 601)),
        ("none", (4, 5), (0, 4), (0, 5)),
    ],
)
def test_crops_by_index(name: str, size: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]) -> None:
    mask = crop_mask(name, *size)

    inside = np.argwhere(mask)
    assert mask.shape == size
    assert tuple(inside.min(axis=0)) == (rows[0], columns[0])
    assert tuple(inside.max(axis=0) + 1) == (rows[1], columns[1])
    assert mask.sum() == (rows[1] - rows[0]) * (columns[1] - columns[0])


def test_crops_by_pixel_count() -> None:
    counts = {name: int(crop_mask(name, 352, 1216).sum()) for name in ("none", "garg", "eigen")}

    # garg: rows 143..348, columns 43..1171; eigen: rows 117..320 (0.3324324 x 352 = 117.0), same columns.
    assert counts == {"none": 352 * 1216, "garg": 206 * 1129, "eigen": 204 * 1129}
    assert crop_mask("nyu", 480, 640).sum() == 426 * 560


def test_depth_of_a_room_and_of_a_street_is_capped_at_10_and_80_m() -> None:
    # Three pixels, all right but for the far one: 40 m counts outdoors only, 90 m never.
    truth, predicted = row(4.0, 40.0, 90.0), row(4.0, 20.0, 1.0)

    indoors = score_frame(predicted, truth, cap_m=10.0)
    outdoors = score_frame(predicted, truth, cap_m=80.0)

    assert indoors["abs_rel"] == 0.0
    assert outdoors["abs_rel"] == pytest.approx((0.0 + 20.0 / 40.0) / 2)
    assert outdoors["rmse_m"] == pytest.approx(math.sqrt(400.0 / 2))


def test_a_crop_leaves_the_border_out() -> None:
    truth = np.full((480, 640), 2.0, np.float32)
    predicted = truth.copy()
    predicted[:45] = 9.0

    assert score_frame(predicted, truth, cap_m=10.0, crop="nyu")["abs_rel"] == 0.0
    assert score_frame(predicted, truth, cap_m=10.0)["abs_rel"] > 0.3


def test_bad_crops_name_what_is_possible() -> None:
    with pytest.raises(DataError, match="the nyu crop is for 480x640 images, this one is 120x160"):
        crop_mask("nyu", 120, 160)
    with pytest.raises(DataError, match="no crop is called 'kitti'; known: none, garg, eigen, nyu"):
        crop_mask("kitti", 10, 10)


def test_macro_weighs_sequences_and_micro_weighs_images() -> None:
    long, short = [{"abs_rel": 0.1}] * 3, [{"abs_rel": 0.5}]

    macro = mean_metrics([mean_metrics(long), mean_metrics(short)])

    assert macro["abs_rel"] == pytest.approx(0.3)
    assert micro_mean([long, short])["abs_rel"] == pytest.approx(0.2)


def test_no_image_is_no_mean() -> None:
    with pytest.raises(DataError, match="no scored image; nothing to average"):
        mean_metrics([])
