"""Boxes in pictures, by hand."""

from typing import Any

import numpy as np
import pytest

from fed_core.pictures.boxes import SIDE_PX, corners_of, draw_above, edges_in
from fed_core.types import Boxes3D

ORANGE = (255, 140, 0)
NOTHING = np.zeros((0, 3), np.float32)


def one_box(centre: tuple[float, float, float], yaw: float = 0.0) -> Boxes3D:
    return Boxes3D(
        np.array([centre]),
        np.array([[8.0, 4.0, 2.0]]),
        np.array([yaw]),
        np.zeros((1, 2)),
        np.zeros(1, np.int64),
        np.ones(1),
        np.ones(1, np.int64),
    )


def corners(box: Boxes3D) -> Any:
    return corners_of(box.centres, box.sizes, box.yaws)


def places(canvas: Any, colour: tuple[int, int, int]) -> Any:
    return np.argwhere((np.abs(canvas.astype(int) - colour) < 40).all(-1)).T


def test_the_edges_of_a_box_lie_where_the_camera_sees_them() -> None:
    """A camera at the LiDAR that looks along y: x to the right, z up, focal length 20, the middle at (16, 8)."""
    to_pixel = np.array([[20.0, 16, 0, 0], [0, 8, -20, 0], [0, 1, 0, 0]])
    edges = np.array(list(edges_in(corners(one_box((0.0, 10.0, 0.0))), to_pixel)))

    assert edges.shape == (12, 2, 2)
    # The nearest corner on the right, above: (4, 8, 1).
    assert np.isclose(edges, [16 + 20 * 4 / 8, 8 - 20 / 8]).all(-1).any()
    assert not list(edges_in(corners(one_box((0.0, -10.0, 0.0))), to_pixel))


def test_corners_by_hand() -> None:
    found = corners(one_box((10.0, 0.0, 1.0), yaw=np.pi / 2))[0]

    assert np.allclose(found[:4, 1], 4.0)  # the front looks along y
    assert np.allclose(sorted(found[:, 0])[:4], 8.0) and np.allclose(sorted(found[:, 0])[4:], 12.0)
    assert set(np.round(found[:, 2])) == {0.0, 2.0}


def test_boxes_from_above_are_where_they_are() -> None:
    """y is up; a metre has four pixels."""
    canvas = draw_above(NOTHING, [(one_box((0.0, 30.0, 0.0)), ORANGE)])

    rows, columns = places(canvas, ORANGE)
    assert canvas.shape == (SIDE_PX, SIDE_PX, 3)
    assert (rows.min(), rows.max()) == pytest.approx((72, 88), abs=1)
    assert (columns.min(), columns.max()) == pytest.approx((184, 216), abs=1)


def test_a_smaller_view_shows_as_much() -> None:
    """Of 200 pixels a metre has two; points are grey, those outside are left out, and so is a box beyond the edge."""
    points = np.array([[10.0, 20.0, 0.0], [60.0, 0.0, 0.0]], np.float32)
    canvas = draw_above(points, [(one_box((0.0, -30.0, 0.0)), ORANGE), (one_box((900.0, 0.0, 0.0)), ORANGE)], 200)

    rows, columns = places(canvas, ORANGE)
    assert canvas.shape == (200, 200, 3)
    assert (rows.min(), rows.max()) == pytest.approx((156, 164), abs=1)
    assert (columns.min(), columns.max()) == pytest.approx((92, 108), abs=1)
    assert np.argwhere((canvas == (120, 120, 130)).all(-1)).tolist() == [[60, 120]]
