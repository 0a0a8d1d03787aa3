"""M3ED files that are missing, broken, or of another recording: one clear line each."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fed_core.data.m3ed.options import M3edOptions
from fed_core.data.m3ed.sequence import open_m3ed
from fed_core.data.open import open_sequence
from fed_core.errors import DataError
from tests.core.data import m3ed_fixture as made

NAME = "spot_forest_hard"
DATA, DEPTH = f"{NAME}_data.h5", f"{NAME}_depth_gt.h5"


def refusal(folder: Path, pattern: str, options: M3edOptions | None = None) -> None:
    with pytest.raises(DataError, match=pattern) as caught:
        open_m3ed(folder, options)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def change(path: Path, edit: Callable[[Any], None]) -> None:
    with h5py.File(path, "r+") as file:
        edit(file)


def replace(path: Path, key: str, value: Any) -> None:
    def edit(file: Any) -> None:
        del file[key]
        if value is not None:
            file[key] = value

    change(path, edit)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made.write_recording(tmp_path / NAME)


def test_without_the_depth_file(folder: Path) -> None:
    (folder / DEPTH).unlink()
    refusal(folder, f"recording {NAME} has no depth; {DEPTH} is missing .M3ED's test files have no depth.")
    with pytest.raises(DataError, match="has no depth"):
        open_sequence(folder)


def test_without_the_data_file(folder: Path) -> None:
    (folder / DATA).unlink()
    refusal(folder, f"recording {NAME} has no calibration and image times; {DATA} is missing")


def test_depth_file_without_depth(folder: Path) -> None:
    replace(folder / DEPTH, "/depth/prophesee/left", None)
    refusal(folder, f"{DEPTH} has no /depth/prophesee/left")


@pytest.mark.parametrize("file", [DATA, DEPTH])
def test_cut_off_file(folder: Path, file: str) -> None:
    whole = (folder / file).read_bytes()
    for share in (0.9, 0.5, 0.1):
        (folder / file).write_bytes(whole[: int(len(whole) * share)])
        refusal(folder, f"{file} is cut off; copy or download it again")


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>" * 100])
def test_file_that_is_no_hdf5(folder: Path, content: bytes) -> None:
    (folder / DEPTH).write_bytes(content)
    refusal(folder, f"{DEPTH} (cannot be read as HDF5; is the download complete|is cut off)")


def test_damaged_chunk_spoils_its_frame_only(folder: Path) -> None:
    with h5py.File(folder / DEPTH) as file:
        chunk = file["/depth/prophesee/left"].id.get_chunk_info(0)
    data = bytearray((folder / DEPTH).read_bytes())
    data[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes([255]) * chunk.size
    (folder / DEPTH).write_bytes(bytes(data))
    sequence = open_m3ed(folder)
    with pytest.raises(DataError, match=f"{DEPTH}, /depth/prophesee/left: image 0 is damaged"):
        sequence[0]
    assert np.isfinite(sequence[1].depth_m).any()


@pytest.mark.parametrize(("file", "key"), [(DATA, "/ovc/ts"), (DEPTH, "/ts")])
def test_times_that_run_backwards(folder: Path, file: str, key: str) -> None:
    with h5py.File(folder / file) as opened:
        times = opened[key][()]
    times[2], times[3] = times[3], times[2]
    replace(folder / file, key, times)
    refusal(folder, f"{file}, {key} runs backwards: {times[3]} us follows {times[2]} us at index 3")


def test_times_of_older_files_are_floats(folder: Path) -> None:
    replace(folder / DEPTH, "/ts", np.array(made.DEPTH_US, dtype=np.float64) + 0.2)
    assert [pair.dt_us for pair in open_m3ed(folder).pairs] == [-1938, 18083, -1800, 18278]
    replace(folder / DEPTH, "/ts", np.full(6, np.nan))
    refusal(folder, f"{DEPTH}, /ts: expected a list of times")


def test_images_and_depth_of_different_recordings_by_name(folder: Path) -> None:
    (folder / DEPTH).rename(folder / "car_forest_sand_1_depth_gt.h5")
    refusal(folder, f"holds images of {NAME} but depth of car_forest_sand_1; put the two files of one recording into")


def test_images_and_depth_of_different_recordings_by_time(folder: Path) -> None:
    replace(folder / DEPTH, "/ts", np.array(made.DEPTH_US) + 60_000_000)
    refusal(
        folder, r"cover 0.000..0.440 s but depth covers 60.082..60.582 s; the two files are of different recordings"
    )


def test_no_image_near_enough(folder: Path) -> None:
    refusal(folder, r"within 1 ms of an image; .dt.: <=1 ms 0, <=2 ms 2", M3edOptions(pairing="strict", strict_ms=1.0))


def test_several_recordings_need_a_name(folder: Path) -> None:
    made.write_recording(folder, "car_forest_sand_1")
    refusal(folder, f"holds 2 recordings; name one: car_forest_sand_1, {NAME}")
    assert open_m3ed(folder, name=NAME).name == NAME
    assert open_sequence(folder, name="car_forest_sand_1").name == "car_forest_sand_1"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("/ovc/rgb/calib", None, "has no calibration /ovc/rgb/calib"),
        ("/prophesee/left/calib", None, "has no calibration /prophesee/left/calib"),
        ("/ovc/rgb/calib/intrinsics", None, "/ovc/rgb/calib/intrinsics is missing"),
        ("/ovc/rgb/calib/intrinsics", np.zeros(4), "focal lengths 0, 0 and size 128x80 must be positive"),
        ("/ovc/rgb/calib/intrinsics", np.ones(3), r"intrinsics needs 4 finite numbers, has shape \(3,\)"),
        ("/ovc/rgb/calib/distortion_coeffs", np.full(4, np.nan), "distortion_coeffs needs 4 finite numbers"),
        (
            "/ovc/rgb/calib/distortion_model",
            "equidistant",
            "distortion_model is 'equidistant'; only radtan is supported",
        ),
        ("/ovc/rgb/calib/T_to_prophesee_left", 2 * np.eye(4), "T_to_prophesee_left holds no rotation"),
        ("/ovc/rgb/calib/T_to_prophesee_left", "none", "T_to_prophesee_left holds no numbers"),
        ("/ovc/rgb/calib/resolution", np.array([64, 40]), "images are 80 x 128 x 3; the calibration says 40 x 64 x 3"),
        ("/ovc/rgb/data", None, f"has no /ovc/rgb/data and {NAME}_rgb.avi is not there; fetch one of them"),
        ("/ovc/ts", None, "has no times /ovc/ts"),
        ("/ovc/ts", np.arange(11) * 40_000, "has 11 image times but 12 images; the files do not belong together"),
    ],
)
def test_calibration_or_images_missing_or_wrong(folder: Path, key: str, value: Any, text: str) -> None:
    replace(folder / DATA, key, value)
    refusal(folder, text)


def test_texts_of_the_calibration_may_be_lists_of_one(folder: Path) -> None:
    replace(folder / DATA, "/ovc/rgb/calib/camera_model", np.array([b"pinhole"]))
    assert len(open_m3ed(folder)) == 4


def test_poses_missing(folder: Path) -> None:
    replace(folder / DEPTH, "/Cn_T_C0", None)
    refusal(folder, "/Cn_T_C0 is missing; use pairing: strict")
    assert len(open_m3ed(folder, M3edOptions(pairing="strict"))) == 2


def test_video_with_another_number_of_images(folder: Path) -> None:
    video = folder / f"{NAME}_rgb.avi"
    made.write_video(video, [made.image(i, 40_000.0 * i) for i in range(11)])
    refusal(folder, f"{video.name} has 11 images but 12 times in {DATA}; the files do not belong together")


def test_video_that_is_none_or_of_another_size(folder: Path) -> None:
    video = folder / f"{NAME}_rgb.avi"
    video.write_bytes(b"RIFF" + bytes(100))
    refusal(folder, f"{video.name} cannot be read as a video")
    made.write_video(video, [np.zeros((40, 64, 3), np.uint8)] * 12)
    refusal(folder, f"{video.name} has images of 64x40; the calibration says 128x80")


def test_video_that_is_cut_off(folder: Path) -> None:
    video = folder / f"{NAME}_rgb.avi"
    made.write_video(video, [made.image(i, 40_000.0 * i) for i in range(12)])
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    with pytest.raises(DataError, match=f"{video.name}( has|: image .* is damaged or cut off)") as caught:
        sequence = open_m3ed(folder)
        [sequence[i] for i in range(4)]
    assert "\n" not in str(caught.value)


def test_without_h5py(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    refusal(folder, rf"{DATA} is HDF5 and needs h5py, .*; run: pip install 'fed_perception\[depth\]'")


def test_frame_without_any_depth_is_refused(folder: Path) -> None:
    change(folder / DEPTH, lambda file: file["/depth/prophesee/left"].__setitem__(0, np.inf))
    sequence = open_m3ed(folder)
    with pytest.raises(DataError, match=re.escape(f"{DEPTH}, depth map 0: no pixel has a valid depth")):
        sequence[0]


def test_huge_chunks_are_refused(folder: Path) -> None:
    def edit(file: Any) -> None:
        del file["/ovc/rgb/data"]
        file.create_dataset("/ovc/rgb/data", (12, 80, 128, 3), "u1", chunks=(12, 80, 128, 3), compression="lzf")

    change(folder / DATA, edit)
    assert len(open_m3ed(folder)) == 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fed_core.data.m3ed.files._MAX_CHUNK_BYTES", 300_000)
        refusal(folder, r"/ovc/rgb/data: chunks of 0 MiB would fill the memory; .*h5repack")
