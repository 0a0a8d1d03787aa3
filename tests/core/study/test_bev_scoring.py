"""Which round of a bird's eye run is reported, by hand."""

from typing import Any

import pytest

from fed_core.study.bev.scoring import client_figures, macro


def line(number: int, test: float | None, validation: float | None, frame: float = 0.0) -> dict[str, Any]:
    row = {
        "test": {"iou_global": test, "iou_frame": frame},
        "validation": {"iou_global": validation, "iou_frame": 0.0},
    }
    return {"round": number, "clients": {"bus": row}}


def test_honest_round_is_chosen_on_validation_and_the_best_one_on_test() -> None:
    lines = [line(2, 0.1, 0.5, 0.01), line(4, 0.4, 0.3, 0.02), line(6, 0.3, 0.5, 0.03), {"round": 7, "clients": {}}]

    found = client_figures("bus", lines)

    assert found["best"] == {"round": 4, "iou_global": 0.4, "iou_frame": 0.02}
    assert found["honest"] == {"round": 2, "iou_global": 0.1, "iou_frame": 0.01, "validation_iou": 0.5}  # first of two
    assert found["last"] == {"round": 6, "iou_global": 0.3, "iou_frame": 0.03}
    assert found["last10"] == {"count": 3, "iou_global": pytest.approx(0.8 / 3), "iou_frame": pytest.approx(0.02)}


def test_last_ten_leaves_earlier_evaluations_out() -> None:
    lines = [line(number, 1.0 if number <= 2 else 0.5, 0.1) for number in range(1, 13)]

    assert client_figures("bus", lines)["last10"]["iou_global"] == 0.5
    assert client_figures("bus", lines)["last10"]["count"] == 10


def test_rounds_without_any_vehicle_are_never_the_best() -> None:
    found = client_figures("bus", [line(1, None, None), line(2, 0.0, 0.0), line(3, None, 0.0)])

    assert (found["best"]["round"], found["honest"]["round"]) == (2, 2)
    assert found["last"]["iou_global"] is None
    assert found["last10"]["iou_global"] == 0.0


def test_clients_count_once_each_and_missing_figures_not_at_all() -> None:
    def client(honest: float | None, trained: float | None) -> dict[str, Any]:
        figures = {"iou_global": honest, "iou_frame": honest}
        told = None if trained is None else {"iou_global": trained, "iou_frame": 0.0}
        return {"honest": figures, "best": figures, "last10": figures, "trained": told, "constant": figures}

    found = macro({"bus": client(0.2, None), "truck": client(0.4, 0.3), "car": client(None, None)})

    assert found["iou_global"] == pytest.approx(0.3)
    assert found["trained_iou_global"] == pytest.approx(0.3)
