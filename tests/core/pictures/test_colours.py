"""Colours of depth and maps: by hand at their ends, and as Matplotlib shows them."""

import warnings

import numpy as np
import pytest

from fed_core.pictures.colours import class_colours, colour_depth, colour_map, depth_range

GREY = [0x9A] * 3


def test_near_is_red_far_is_blue_and_the_unknown_grey() -> None:
    depth = np.full((20, 30), 1.0, np.float32)
    depth[:, 15:] = 10.0
    depth[0, :4] = np.nan, np.inf, -np.inf, -1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = colour_depth(depth)

    assert shown.shape == (20, 30, 3) and shown.dtype == np.uint8
    assert shown[0, :4].tolist() == [GREY] * 4
    red, blue = shown[10, 5].astype(int), shown[10, 25].astype(int)
    assert red.tolist() == [122, 4, 2] and blue.tolist() == [48, 18, 59]  # both ends of turbo


def test_depth_has_the_colours_of_a_logarithmic_scale() -> None:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    depth = np.geomspace(0.5, 60.0, 600, dtype=np.float32).reshape(20, 30)
    expected = colormaps["turbo_r"](LogNorm(*depth_range(depth))(depth), bytes=True)[..., :3]
    assert np.abs(colour_depth(depth)[2:-2].astype(int) - expected[2:-2]).max() <= 6  # a step of the scale


@pytest.mark.parametrize("value", [np.nan, 0.0, -3.0])
def test_an_image_without_any_depth_is_grey(value: float) -> None:
    depth = np.full((3, 4), value, np.float32)
    assert depth_range(depth) == (0.1, 10.0)
    assert (colour_depth(depth) == GREY).all()


def test_one_depth_everywhere_has_a_range() -> None:
    depth = np.full((3, 4), 2.0, np.float32)
    assert depth_range(depth) == pytest.approx((2.0, 2.02))
    assert len(np.unique(colour_depth(depth).reshape(-1, 3), axis=0)) == 1


def test_a_map_is_dark_where_nothing_is_light_where_vehicles_are_grey_where_unknown() -> None:
    shown = colour_map(np.array([[0.0, 1.0], [np.nan, 7.0]], np.float32))
    assert shown.tolist() == [[[0, 0, 3], [251, 252, 191]], [GREY, [251, 252, 191]]]


def test_each_class_has_a_colour_of_its_own() -> None:
    found = class_colours()
    assert len(set(found)) == 10 and found[0] == (31, 119, 180)
