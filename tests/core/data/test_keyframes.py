"""Which frames of a stream are kept: each limit by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.keyframes import (
    BLURRED,
    TOO_BRIGHT,
    TOO_DARK,
    TOO_SOON,
    UNCHANGED,
    KeyframeOptions,
    Keyframes,
    image_change,
    sharpness,
    small_grey,
)
from fed_core.errors import ConfigError

SECOND = 1_000_000_000


def flat(level: int) -> np.ndarray:
    return np.full((24, 32, 3), level, np.uint8)


def judge(keyframes: Keyframes, rgb: np.ndarray, stamp_s: float) -> str:
    """Judge a frame; one that is not refused is kept."""
    why = keyframes.judge(rgb, small_grey(rgb), round(stamp_s * SECOND))
    if not why:
        keyframes.took(small_grey(rgb), round(stamp_s * SECOND))
    return why


def test_without_limits_everything_is_kept() -> None:
    keyframes = Keyframes(KeyframeOptions())
    assert [judge(keyframes, flat(0), 0.0) for _ in range(3)] == ["", "", ""]
    assert keyframes.refused == {}


def test_gap_is_measured_from_the_last_frame_kept() -> None:
    keyframes = Keyframes(KeyframeOptions(keyframe_gap_s=1.0))
    times = [10.0, 10.5, 10.999, 11.0, 11.9, 12.0]
    assert [judge(keyframes, flat(9), time) for time in times] == ["", TOO_SOON, TOO_SOON, "", TOO_SOON, ""]
    assert keyframes.refused == {TOO_SOON: 3}


def test_a_clock_set_back_begins_anew() -> None:
    keyframes = Keyframes(KeyframeOptions(keyframe_gap_s=1.0))
    assert [judge(keyframes, flat(9), time) for time in (10.0, 2.0, 2.5)] == ["", "", TOO_SOON]


def test_small_picture_is_the_mean_of_each_area() -> None:
    rgb = flat(0)
    rgb[:2, :2] = 200  # one pixel of the small picture
    grey = small_grey(rgb)
    assert grey.shape == (12, 16)
    assert grey[0, 0] == 200 and grey.sum() == 200


def test_change_is_the_mean_difference_of_grey_levels() -> None:
    before, after = small_grey(flat(100)), small_grey(flat(100))
    after[0, 0] = 100 + 96  # one of 192 pixels by 96 levels
    assert image_change(before, after) == image_change(after, before) == 0.5
    keyframes = Keyframes(KeyframeOptions(keyframe_change=5.0))
    # Compared with the last frame that was kept, so that a slow drift counts in the end.
    levels = [100, 104, 105, 109, 100]
    assert [judge(keyframes, flat(level), 0.0) for level in levels] == ["", UNCHANGED, "", UNCHANGED, ""]


@pytest.mark.parametrize(("level", "why"), [(255, TOO_BRIGHT), (250, TOO_BRIGHT), (249, ""), (5, TOO_DARK), (6, "")])
def test_exposure_counts_the_pixels_at_either_end(level: int, why: str) -> None:
    keyframes = Keyframes(KeyframeOptions(keyframe_bright_share=0.5, keyframe_dark_share=0.5))
    half, more = flat(128), flat(128)
    half[:12] = level
    more[:13] = level
    assert [judge(keyframes, half, 0.0), judge(keyframes, more, 0.0)] == ["", why]


def test_sharpness_is_the_variance_of_the_laplacian() -> None:
    grey = np.zeros((5, 5), np.uint8)
    grey[2, 2] = 10
    # The Laplacian is -40 there and 10 at its four neighbours: mean 0, variance (1600 + 4 * 100) / 25.
    assert sharpness(grey) == pytest.approx(80.0)
    assert sharpness(small_grey(flat(70))) == 0.0
    keyframes = Keyframes(KeyframeOptions(keyframe_sharpness=10.0))
    edge = flat(60)
    edge[:, 16:] = 180
    assert [judge(keyframes, flat(70), 0.0), judge(keyframes, edge, 0.0)] == [BLURRED, ""]


def test_a_refused_frame_does_not_count_as_the_last() -> None:
    keyframes = Keyframes(KeyframeOptions(keyframe_gap_s=1.0, keyframe_dark_share=0.5))
    assert [judge(keyframes, flat(level), time) for level, time in ((0, 0.0), (90, 0.5), (90, 1.0))] == [
        TOO_DARK,
        "",
        TOO_SOON,
    ]


def test_a_frame_that_was_not_stored_is_none_to_compare_with() -> None:
    keyframes = Keyframes(KeyframeOptions(keyframe_gap_s=1.0, keyframe_change=4.0))
    assert keyframes.judge(flat(90), small_grey(flat(90)), 0) == ""
    assert not keyframes.is_too_soon(SECOND // 2)
    assert [judge(keyframes, flat(90), time) for time in (0.5, 0.9, 1.5)] == ["", TOO_SOON, UNCHANGED]


def test_bounds() -> None:
    with pytest.raises(ConfigError, match=r"keyframe_bright_share is 1.5; it must lie between 0.0 and 1.0"):
        KeyframeOptions(keyframe_bright_share=1.5)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(0, 10))
def test_kept_frames_of_a_running_clock_are_never_closer_than_the_gap(steps: list[int], gap: int) -> None:
    keyframes = Keyframes(KeyframeOptions(keyframe_gap_s=gap / 10))
    times = np.cumsum(steps) / 10
    kept = [time for time in times if not judge(keyframes, flat(50), float(time))]
    assert all(later - earlier >= gap / 10 - 1e-9 for earlier, later in zip(kept, kept[1:], strict=False))
    assert len(kept) + sum(keyframes.refused.values()) == len(steps)
