"""Figures of a detection run by hand: matrix, means, headline, and the pictures of boxes."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fed_core.study.detection import pictures
from fed_core.study.detection.headline import headline, is_setting, validation_scores
from fed_core.study.detection.scoring import summary
from fed_core.types import Boxes3D
from tests.core.data.nuscenes_trees import make_frame


def figures(nds: float, cap: float | None = 0.5) -> dict[str, Any]:
    return {"nds": nds, "map": nds / 2, "cap": cap, "errors": {}, "ap": {}}


def test_summary_by_hand() -> None:
    clients = {
        "a": {"domains": {"a": figures(0.6), "b": figures(0.2)}, "validation": figures(0.5), "trained": figures(0.7)},
        "b": {"domains": {"a": figures(0.1), "b": figures(0.4, None)}, "validation": None, "trained": figures(0.3)},
    }

    found = summary(clients, {"a": 3, "b": 1})

    assert found["matrix"]["nds"] == {"a": {"a": 0.6, "b": 0.2}, "b": {"a": 0.1, "b": 0.4}}
    assert found["matrix"]["cap"]["b"]["b"] is None
    assert found["transfer"]["nds"] == {
        "own_mean": pytest.approx(0.5),
        "own_weighted": pytest.approx(0.55),
        "other_mean": pytest.approx(0.15),
        "other_weighted": pytest.approx((0.2 + 3 * 0.1) / 4),
    }
    assert found["macro"] == {
        "nds": pytest.approx(0.55),
        "map": pytest.approx(0.275),
        "cap": pytest.approx(0.5),  # only domain a has cars
        "plain_nds": pytest.approx(0.5),
        "other_nds": pytest.approx(0.15),
        "other_weighted_nds": pytest.approx(0.125),
        "trained_nds": pytest.approx(0.6),
        "validation_nds": pytest.approx(0.5),
    }


def result(label: str, seed: int, validation: float | None, test: float = 0.0) -> dict[str, Any]:
    return {"label": label, "seed": seed, "macro": {"validation_nds": validation, "nds": test}}


def test_headline_is_the_best_on_held_out_scenes_whatever_the_test_says() -> None:
    low, high = "fedcka:rule=threshold+tau=0.25", "fedcka:rule=percentage+rho=0.1"
    results = [
        result(low, 0, 0.30, test=0.9),
        result(low, 1, 0.20, test=0.9),
        result(high, 0, 0.20, test=0.1),
        result(high, 1, 0.40, test=0.1),
        result("fedavg", 0, 0.99),
        result("fedcka:rule=threshold+tau=0.25+layers=block", 0, 0.99),
    ]

    assert headline(results) == high
    assert validation_scores(results)[low] == {0: 0.30, 1: 0.20}


def test_settings_are_compared_on_the_seeds_that_all_have() -> None:
    low, high = "fedcka:rule=threshold+tau=0.25", "fedcka:rule=percentage+rho=0.1"
    results = [result(low, 0, 0.30), result(high, 0, 0.20), result(high, 1, 0.90)]

    assert headline(results) == low
    assert headline([result(low, 0, 0.3), result(high, 1, 0.2)]) is None


def test_of_equal_settings_the_first_of_the_study_wins() -> None:
    results = [result("fedcka:tau=0.5", 0, 0.3), result("fedcka:tau=0.25", 0, 0.3)]

    assert headline(results, ["fedavg", "fedcka:tau=0.25", "fedcka:tau=0.5"]) == "fedcka:tau=0.25"
    assert headline([result("fedavg", 0, 0.3), result("fedcka:tau=0.5", 0, None)]) is None


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("fedcka", True),
        ("fedcka:rule=percentage+rho=0.4+start_round=4", True),
        ("fedcka:rule=threshold+tau=0.5+estimator=debiased", False),
        ("fedavg", False),
    ],
)
def test_settings_of_the_grid(label: str, expected: bool) -> None:
    assert is_setting(label) is expected


def one_box(centre: tuple[float, float, float], yaw: float = 0.0, score: float = 1.0) -> Boxes3D:
    return Boxes3D(
        np.array([centre]),
        np.array([[8.0, 4.0, 2.0]]),
        np.array([yaw]),
        np.zeros((1, 2)),
        np.zeros(1, np.int64),
        np.array([score]),
        np.ones(1, np.int64),
    )


def coloured(canvas: Any, colour: tuple[int, int, int]) -> Any:
    return np.argwhere((np.abs(canvas.astype(int) - colour) < 40).all(-1))


def test_a_box_ahead_is_drawn_in_the_front_camera_only() -> None:
    frame = make_frame()
    canvas = pictures.draw_cameras(frame, one_box((0.0, 14.0, 0.0)), pictures.TRUE)

    assert canvas.shape == (192, 768, 3)  # two cameras of 16 x 32 beside each other, 12 times as large
    _, columns = coloured(canvas, pictures.TRUE).T
    assert len(columns) > 40 and columns.max() < 384


def test_panels_are_written_and_weak_boxes_left_out(tmp_path: Path) -> None:
    frame = make_frame()
    pictures.save_panels(tmp_path, "a", frame, one_box((0.0, 30.0, 0.0), score=0.1))
    pictures.save_truth(tmp_path / "truth", "a", frame)

    bev = cv2.imread(str(tmp_path / "a_bev.png"))[..., ::-1]
    assert not len(coloured(bev, pictures.PREDICTED)) and len(coloured(bev, pictures.TRUE))
    assert cv2.imread(str(tmp_path / "a_cameras.png")).shape == (192, 768, 3)
    assert (tmp_path / "truth" / "a_cameras.png").exists()
