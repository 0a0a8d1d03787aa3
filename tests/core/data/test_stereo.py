"""Depth of stereo pairs: a made pair of known disparity, and a rendered one of known depth."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from fed_core.data.stereo import StereoMatcher, depth_of_disparity
from fed_core.errors import DataError


def textured(width: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (60, width, 3), np.uint8)


def test_a_picture_that_is_moved_has_that_disparity() -> None:
    wide = textured(212)
    left, right = np.ascontiguousarray(wide[:, :200]), np.ascontiguousarray(wide[:, 12:])
    found = StereoMatcher(32).disparity(left, right)
    assert found.dtype == np.float32 and found.shape == (60, 200)
    assert np.isnan(found[:, :12]).all()  # not in the right picture
    inner = found[5:-5, 40:-5]
    assert np.isfinite(inner).mean() > 0.95
    np.testing.assert_allclose(inner[np.isfinite(inner)], 12.0, atol=0.5)


def test_a_picture_without_texture_has_no_depth() -> None:
    plain = np.full((60, 200, 3), 90, np.uint8)
    found = StereoMatcher(32).disparity(plain, plain)
    depth_m = depth_of_disparity(found, 100.0, 0.0, (0.3, 100.0))
    assert np.isnan(depth_m).all()


def test_depth_is_focal_length_times_baseline_over_disparity() -> None:
    disparity_px = np.array([[8.0, 4.0, 2.0, 0.0, -1.0, np.nan, 400.0]], np.float32)
    found = depth_of_disparity(disparity_px, 80.0, 0.0, (0.3, 30.0))
    np.testing.assert_array_equal(found, [[10.0, 20.0, np.nan, np.nan, np.nan, np.nan, np.nan]])  # 40 m, 0.2 m
    # Principal points 2 pixels apart: what is infinitely far away has a disparity of 2.
    np.testing.assert_array_equal(
        depth_of_disparity(disparity_px[:, :3], 80.0, 2.0, (0.3, 50.0)), [[np.float32(80 / 6), 40.0, np.nan]]
    )


def test_pictures_of_two_sizes_are_no_pair() -> None:
    with pytest.raises(DataError, match="the left picture is 212x60 and the right 200x60; publish a rectified pair"):
        StereoMatcher(32).disparity(textured(212), textured(200))


@pytest.mark.parametrize("width", [1, 31, 32])
def test_narrow_pictures_are_refused_before_opencv_sees_them(width: int) -> None:
    told = (
        f"stereo pictures are {width} pixels wide, but disparities up to 32 are searched; publish wider ones or lower"
    )
    with pytest.raises(DataError, match=told):
        StereoMatcher(20).disparity(textured(width), textured(width))
    assert StereoMatcher(20).disparity(textured(33), textured(33)).shape == (60, 33)


def test_depth_of_a_rendered_pair_is_that_of_the_renderer(shared_data: Path) -> None:
    """TartanAir V2: focal length 320 px, baseline 0.25 m."""
    folder = shared_data / "depth_tartanair"
    left, right = (
        cv2.cvtColor(cv2.imread(str(folder / f"image_{side}cam_front/000000_{side}cam_front.png")), cv2.COLOR_BGR2RGB)
        for side in "lr"
    )
    bytes_ = cv2.imread(str(folder / "depth_lcam_front/000000_lcam_front_depth.png"), cv2.IMREAD_UNCHANGED)
    exact_m = np.ascontiguousarray(bytes_).view("<f4")[..., 0]

    depth_m = depth_of_disparity(StereoMatcher(128).disparity(left, right), 320 * 0.25, 0.0, (0.3, 80.0))

    both = np.isfinite(depth_m) & (exact_m < 80.0)
    error = np.abs(depth_m - exact_m)[both] / exact_m[both]
    assert both.mean() > 0.35  # 43 % of the pixels
    assert np.median(error) < 0.01  # half a per cent
    assert np.quantile(error, 0.9) < 0.05  # two per cent
