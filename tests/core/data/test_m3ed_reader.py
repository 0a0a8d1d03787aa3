"""M3ED recordings as RGB-D frames, on miniature files with the published schema."""

from pathlib import Path

import numpy as np
import pytest

from fed_core.data.m3ed.options import M3edOptions
from fed_core.data.m3ed.sequence import open_m3ed
from fed_core.data.open import find_reader, open_sequence
from fed_core.errors import ConfigError
from tests.core.data import m3ed_fixture as made


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_recording(tmp_path_factory.mktemp("m3ed") / "spot_forest_hard")


def test_folder_is_found_and_read_with_the_defaults(recording: Path) -> None:
    assert find_reader(recording) == "m3ed"
    sequence = open_sequence(recording)
    frame = sequence[0]
    assert (len(sequence), sequence.name, sequence.source) == (4, "spot_forest_hard", str(recording))
    assert (frame.rgb.dtype, frame.depth_m.dtype, frame.intrinsics.dtype) == (np.uint8, np.float32, np.float64)
    assert frame.rgb.shape == (32, 64, 3) and frame.depth_m.shape == (32, 64)
    assert frame.frame_id == "ovc_rgb"
    assert [sequence[i].stamp_ns for i in range(4)] == [80_000_000, 200_000_000, 280_000_000, 400_000_000]
    with pytest.raises(IndexError):
        sequence[4]


def test_blue_first_becomes_red_first(recording: Path) -> None:
    frame = open_m3ed(recording)[1]
    assert set(np.unique(frame.rgb[..., 2])) == {made.BLUE}
    assert set(np.unique(frame.rgb[..., 1])) == {5}  # the image at 200 ms
    assert frame.rgb[..., 0].min() > 50


def test_images_of_the_video_are_those_of_the_hdf5_file(recording: Path, tmp_path: Path) -> None:
    folder = made.write_recording(tmp_path / "v", video=True, images_in_hdf5=False)
    filmed, stored = open_m3ed(folder), open_m3ed(recording)
    for index in (0, 3, 1, 2):  # jumps back too
        np.testing.assert_array_equal(filmed[index].rgb, stored[index].rgb)
    assert dict(filmed.facts())["images"] == "12 from rgb.avi"


def test_intrinsics_follow_halving_and_crop(recording: Path) -> None:
    fx, fy, cx, cy = made.RGB.intrinsics
    k = open_m3ed(recording)[0].intrinsics
    # 80x128 -> 40x64, then 4 rows off the top and the bottom.
    np.testing.assert_allclose(k, [[fx / 2, 0, (cx + 0.5) / 2 - 0.5], [0, fy / 2, (cy + 0.5) / 2 - 0.5 - 4], [0, 0, 1]])
    k = open_m3ed(recording, M3edOptions(height=20, width=30))[0].intrinsics
    np.testing.assert_allclose(k[:2, 2], [(cx + 0.5) / 2 - 0.5 - 17, (cy + 0.5) / 2 - 0.5 - 10])


@pytest.mark.parametrize("pairing", ["strict", "pose"])
def test_colour_and_depth_show_the_same_place_at_the_same_time(recording: Path, pairing: str) -> None:
    sequence = open_m3ed(recording, M3edOptions(pairing=pairing))
    for index in range(len(sequence)):
        frame = sequence[index]
        # Red is the true depth of the pixel, to 0.1 m; one output pixel of the plane is about 0.05 m.
        error = np.abs(frame.depth_m - frame.rgb[..., 0] / made.COUNTS_PER_M)
        assert np.nanpercentile(error, 95) < 0.1
        assert np.isfinite(frame.depth_m).mean() > 0.9


def test_without_moving_the_points_the_far_pairs_do_not_fit(recording: Path) -> None:
    loose = open_m3ed(recording, M3edOptions(pairing="strict", strict_ms=20.0))
    moved = open_m3ed(recording, M3edOptions(pairing="pose"))
    for index, worse in ((0, False), (1, True)):
        errors = [
            float(np.nanmedian(s[index].depth_m - s[index].rgb[..., 0] / made.COUNTS_PER_M)) for s in (loose, moved)
        ]
        assert (abs(errors[0] - errors[1]) > 0.01) == worse


def test_depth_outside_the_bounds_is_missing_but_native_depth_is_as_published(recording: Path) -> None:
    near = open_m3ed(recording, M3edOptions(max_depth_m=8.0))
    frame, native = near[0], near.native(0)
    assert np.nanmax(frame.depth_m) <= 8.0 < np.nanmax(native.depth_m)
    assert near.native_share(0) < np.isfinite(native.depth_m).mean()
    published = made.depth_map(float(made.DEPTH_US[0]))
    known = np.isfinite(published) & (published > 0)
    np.testing.assert_array_equal(np.isfinite(native.depth_m), known)
    np.testing.assert_array_equal(native.depth_m[known], published[known])
    assert (native.stamp_ns, native.frame_id) == (81_938_000, "prophesee_left")


@pytest.mark.parametrize("pairing", ["strict", "pose"])
def test_colour_can_be_turned_to_the_event_camera(recording: Path, pairing: str) -> None:
    sequence = open_m3ed(recording, M3edOptions(frame="rgb_to_event", pairing=pairing))
    frame = sequence[1]
    assert frame.frame_id == "prophesee_left" and frame.rgb.shape == (32, 64, 3)
    fx, fy, cx, cy = made.EVENT_LEFT.intrinsics
    np.testing.assert_allclose(frame.intrinsics[:2, 2], [(cx + 0.5) / 2 - 0.5, (cy + 0.5) / 2 - 0.5 - 2])
    # Depth is that of the event camera at the time of the image (pose), or as published (strict).
    pair = sequence.pairs[1]
    time_us = made.DEPTH_US[pair.depth] + (pair.dt_us if pairing == "pose" else 0)
    true = made.plane_depth(made.EVENT_LEFT, time_us)[4:68].reshape(32, 2, 64, 2).min(axis=(1, 3))
    assert np.nanpercentile(np.abs(frame.depth_m - true), 95) < 0.06


def test_options_are_checked(recording: Path) -> None:
    with pytest.raises(ConfigError, match="M3edOptions.pairing is 'loose'; choose one of strict, pose"):
        M3edOptions(pairing="loose")
    with pytest.raises(ConfigError, match="min_depth_m is 90.0; it must be below max_depth_m, 80.0"):
        M3edOptions(min_depth_m=90.0)
    with pytest.raises(ConfigError, match="M3ED recordings carry their calibration; leave intrinsics out"):
        open_sequence(recording, intrinsics=[1, 1, 0, 0])
    sequence = open_sequence(recording, name="mine", frame_id="cam")
    assert (sequence.name, sequence[0].frame_id) == ("mine", "cam")
