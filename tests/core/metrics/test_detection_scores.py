"""Filtered scores by hand, means over domains, and the published averages (fedcka spec 7.3, 9)."""

import math

import pytest

from fed_core.errors import DataError
from fed_core.metrics.detection.scores import ERRORS, Figures, plain_mean, score_over, transfer, weighted_mean

SCENES = {"A": 53, "B": 24, "C": 58, "D": 12, "E": 3}
NAN = float("nan")
#: Method, NDS on A to E, average to three decimals (fedcka spec 9, "check").
PUBLISHED = [
    ("centralised", (0.66, 0.68, 0.67, 0.64, 0.58), 0.664),
    ("own domain only", (0.64, 0.51, 0.62, 0.24, 0.08), 0.568),
    ("FedAvg", (0.37, 0.36, 0.38, 0.35, 0.33), 0.370),
    ("FedDyn", (0.48, 0.46, 0.48, 0.43, 0.35), 0.470),
    ("PCGrad", (0.41, 0.41, 0.44, 0.39, 0.34), 0.419),
    ("FedRep", (0.43, 0.40, 0.44, 0.41, 0.33), 0.425),
    ("FedBN", (0.41, 0.41, 0.43, 0.36, 0.33), 0.412),
    ("FedMC", (0.56, 0.56, 0.58, 0.47, 0.32), 0.556),
    ("FedSelect", (0.59, 0.51, 0.56, 0.40, 0.34), 0.545),
    ("FedCKA", (0.65, 0.63, 0.64, 0.59, 0.50), 0.635),
]


def errors(*values: float) -> dict[str, float]:
    return dict(zip(ERRORS, values, strict=True))


def figures(*classes: str) -> Figures:
    ap = {
        "car": {0.5: 0.2, 1.0: 0.4, 2.0: 0.6, 4.0: 0.8},
        "traffic_cone": {0.5: 0.0, 1.0: 0.2, 2.0: 0.4, 4.0: 0.6},
        "bus": {0.5: 0.0, 1.0: 0.0, 2.0: 0.0, 4.0: 0.0},
    }
    each = {
        "car": errors(0.4, 0.2, 0.3, 1.5, 0.1),
        "traffic_cone": errors(0.2, 0.4, NAN, NAN, NAN),
        "bus": errors(1.0, 1.0, 1.0, 1.0, 1.0),
    }
    return Figures(ap, each, classes, NAN, NAN, {})


def test_one_absent_class_by_hand() -> None:
    score = figures("car", "traffic_cone").filtered()  # no bus

    assert score.map == pytest.approx(0.4)  # (0.5 + 0.3) / 2
    assert score.errors == pytest.approx(errors(0.3, 0.3, 0.3, 1.5, 0.1))  # cones have no AOE, AVE, AAE
    assert score.nds == pytest.approx((5 * 0.4 + 0.7 + 0.7 + 0.7 + 0.0 + 0.9) / 10)
    assert score.cap == pytest.approx(0.5)


def test_an_error_that_no_class_has_is_one_and_no_car_is_no_cap() -> None:
    score = figures("traffic_cone").filtered()

    assert score.errors == pytest.approx(errors(0.2, 0.4, 1.0, 1.0, 1.0))
    assert score.nds == pytest.approx((5 * 0.3 + 0.8 + 0.6) / 10)
    assert math.isnan(score.cap)
    assert score_over(figures(), ()).nds == 0.0


@pytest.mark.parametrize(("method", "values", "average"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_scene_weights_give_the_published_averages(method: str, values: tuple[float, ...], average: float) -> None:
    found = weighted_mean(dict(zip(SCENES, values, strict=True)), SCENES)

    assert abs(found - average) <= 5.1e-4, method


def test_undefined_values_leave_their_domain_out() -> None:
    assert weighted_mean({"A": 0.2, "B": NAN}, {"A": 3, "B": 5}) == pytest.approx(0.2)
    assert math.isnan(weighted_mean({"A": NAN}, {"A": 3}))
    assert plain_mean({"A": 0.2, "B": NAN, "C": 0.4}) == pytest.approx(0.3)
    with pytest.raises(DataError, match="no weight is known for domain F; name its number of scenes"):
        weighted_mean({"F": 0.1}, SCENES)


def test_cross_domain_matrix_by_hand() -> None:
    matrix = {
        "A": {"A": 0.6, "B": 0.4, "C": 0.2},
        "B": {"A": 0.3, "B": 0.5, "C": 0.1},
        "C": {"A": 0.0, "B": 0.2, "C": 0.7},
    }

    found = transfer(matrix, {"A": 2, "B": 1, "C": 1})

    assert found.own == {"A": 0.6, "B": 0.5, "C": 0.7}
    assert found.own_mean == pytest.approx(0.6)
    assert found.own_weighted == pytest.approx((2 * 0.6 + 0.5 + 0.7) / 4)
    assert found.other_mean == pytest.approx((0.4 + 0.2 + 0.3 + 0.1 + 0.0 + 0.2) / 6)
    assert found.other_weighted == pytest.approx((0.4 + 0.2 + 2 * 0.3 + 0.1 + 2 * 0.0 + 0.2) / 8)
    with pytest.raises(DataError, match="row B has other domains"):
        transfer({"A": {"A": 0.1, "B": 0.2}, "B": {"A": 0.3}}, SCENES)
