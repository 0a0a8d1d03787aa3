"""M3ED recordings into stores: what is found, which frames are taken, resuming, memory."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.inspect import describe
from fed_core.data.m3ed.options import M3edOptions
from fed_core.data.m3ed.prepare import PrepareOptions, choose_frames, find_recordings, prepare_recording, spread
from fed_core.data.m3ed.sequence import open_m3ed
from fed_core.data.m3ed.split import M3edEntry
from fed_core.data.open import open_sequence
from fed_core.data.store import INDEX, read_index
from fed_core.errors import DataError
from tests.core.data import m3ed_fixture as made

NAME = "spot_forest_hard"
ENTRY = M3edEntry(NAME, "spot", "forest", "spot_forest")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_recording(tmp_path_factory.mktemp("m3ed") / NAME)


def test_recordings_in_folders_and_flat(tmp_path: Path) -> None:
    for name in ("car_a", "spot_b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_data.h5").touch()
    (tmp_path / "falcon_c_depth_gt.h5").touch()
    (tmp_path / "notes.txt").touch()
    assert find_recordings(tmp_path) == {
        "car_a": tmp_path / "car_a",
        "falcon_c": tmp_path,
        "spot_b": tmp_path / "spot_b",
    }
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty holds no M3ED recording; expected NAME/NAME_data.h5"):
        find_recordings(tmp_path / "empty")
    with pytest.raises(DataError, match="nowhere is no folder"):
        find_recordings(tmp_path / "nowhere")


def test_frames_are_spread_over_time_not_over_their_number() -> None:
    # Dense at first, then one per 100: evenly in time takes few of the dense part.
    times = np.array([0, 1, 2, 3, 4, 5, 6, 7, 100, 200, 300])
    assert spread(times, 4) == [0, 8, 9, 10]
    assert spread(times, 11) == list(range(11))
    assert spread(times, 99) == list(range(11))
    assert spread(times, 1) == [0]


@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=40), st.integers(1, 50))
def test_spread_takes_exactly_so_many_in_order(times: set[int], count: int) -> None:
    stamps = np.array(sorted(times))
    chosen = spread(stamps, count)
    assert len(chosen) == min(count, len(stamps))
    assert chosen == sorted(set(chosen)) and 0 <= chosen[0] and chosen[-1] < len(stamps)
    if 1 < count < len(stamps):
        assert (chosen[0], chosen[-1]) == (0, len(stamps) - 1)


def test_frames_without_depth_are_dropped_before_the_cap(tmp_path: Path) -> None:
    folder = made.write_recording(tmp_path / NAME)
    with h5py.File(folder / f"{NAME}_depth_gt.h5", "r+") as file:
        file["/depth/prophesee/left"][2] = np.inf
    steps: list[tuple[str, int, int]] = []
    sequence = open_m3ed(folder)
    chosen = choose_frames(sequence, PrepareOptions(max_frames=3), lambda *step: steps.append(step))
    assert chosen == [0, 1, 3]
    assert steps == [("looks for depth", i, 4) for i in (1, 2, 3, 4)]
    assert choose_frames(sequence, PrepareOptions(max_frames=2), lambda *_: None) == [0, 3]


def test_store_has_the_frames_and_says_how_they_were_made(recording: Path, tmp_path: Path) -> None:
    store = prepare_recording(recording, ENTRY, tmp_path, PrepareOptions())
    stored, direct = open_sequence(store), open_m3ed(recording)
    assert (len(stored), stored.name) == (4, NAME)
    for index in range(4):
        ours, theirs = stored[index], direct[index]
        np.testing.assert_array_equal(ours.rgb, theirs.rgb)
        np.testing.assert_allclose(ours.depth_m, theirs.depth_m, atol=1 / 512)
        np.testing.assert_array_equal(ours.intrinsics, theirs.intrinsics)
        assert (ours.stamp_ns, ours.frame_id) == (theirs.stamp_ns, "ovc_rgb")
    info = read_index(store)["info"]
    assert (info["platform"], info["environment"], info["site"]) == ("spot", "forest", "spot_forest")
    assert (info["pairing"], info["camera"]) == ("pose, 20 ms", "depth_to_rgb")
    assert info["dt"] == str(direct.histogram)
    assert dict(describe(store).rows)["site"] == "spot_forest"


def test_finished_store_stays_and_other_options_are_refused(recording: Path, tmp_path: Path) -> None:
    store = prepare_recording(recording, ENTRY, tmp_path, PrepareOptions())
    before = (store / INDEX).stat().st_mtime_ns
    assert prepare_recording(tmp_path / "gone", ENTRY, tmp_path, PrepareOptions()) == store
    assert (store / INDEX).stat().st_mtime_ns == before
    strict = PrepareOptions(M3edOptions(pairing="strict"))
    with pytest.raises(DataError, match="was prepared with pairing 'pose, 20 ms', not 'strict, 5 ms'; choose another"):
        prepare_recording(recording, ENTRY, tmp_path, strict)


def test_interrupted_preparation_goes_on(recording: Path, tmp_path: Path) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_recording(recording, ENTRY, tmp_path, PrepareOptions(), interrupt)
    written = {p.name: p.stat().st_mtime_ns for p in (tmp_path / NAME / "rgb").iterdir()}
    assert len(written) == 2 and not (tmp_path / NAME / INDEX).exists()
    store = prepare_recording(recording, ENTRY, tmp_path, PrepareOptions())
    assert len(open_sequence(store)) == 4
    assert {name: (store / "rgb" / name).stat().st_mtime_ns for name in written} == written


def test_inspect_shows_the_times_between_image_and_depth(recording: Path) -> None:
    rows = dict(describe(recording).rows)
    assert (rows["layout"], rows["frames"], rows["depth maps"]) == ("m3ed", "4", "6")
    assert rows["images"] == "12 from data.h5"
    assert rows["|dt|"] == "<=1 ms 0, <=2 ms 2, <=5 ms 0, <=10 ms 0, <=15 ms 0, <=20 ms 2, <=25 ms 0, more 2"


def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """Reading 24 times as many frames (260 MB, not 11) takes less than 40 MB more at its peak."""
    peaks_mb = [_peak_mb(_long_recording(tmp_path / str(count), count)) for count in (10, 240)]
    assert peaks_mb[1] - peaks_mb[0] < 40, peaks_mb


def _long_recording(folder: Path, count: int) -> Path:
    """Return a recording of ``count`` frames of 512x320; depth is sparse, so that reading it is quick."""
    made.write_recording(folder, num_images=3, depth_us=(0, 100_000))
    size = {"rgb": (320, 512, 3), "left": (288, 512)}
    times = 100_000 * np.arange(count, dtype=np.int64)
    with h5py.File(folder / f"{NAME}_data.h5", "r+") as file:
        _rewrite(file, {"/ovc/ts": times})
        _grown(file, "/ovc/rgb/data", (count, *size["rgb"]), np.uint8(90))
        _rewrite(file, {"/ovc/rgb/calib/resolution": [512, 320], "/prophesee/left/calib/resolution": [512, 288]})
        for group in ("ovc/rgb", "prophesee/left"):
            _rewrite(file, {f"/{group}/calib/intrinsics": [400.0, 400.0, 256.0, 150.0]})
    with h5py.File(folder / f"{NAME}_depth_gt.h5", "r+") as file:
        _rewrite(file, {"/ts": times, "/Cn_T_C0": np.tile(np.eye(4), (count, 1, 1))})
        _grown(file, "/depth/prophesee/left", (count, *size["left"]), np.float32(np.inf))
        for index in range(count):
            file["/depth/prophesee/left"][index, 100:110] = 5.0
    return folder


def _rewrite(file: h5py.File, values: dict[str, object]) -> None:
    for key, value in values.items():
        del file[key]
        file[key] = value


def _grown(file: h5py.File, key: str, shape: tuple[int, ...], value: object) -> None:
    del file[key]
    file.create_dataset(key, shape, np.asarray(value).dtype, chunks=(1, *shape[1:]), compression="lzf", fillvalue=value)


def _peak_mb(folder: Path) -> float:
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from fed_core.data.m3ed.sequence import open_m3ed\n"
        "sequence = open_m3ed(Path(sys.argv[1]))\n"
        "for index in range(len(sequence)): sequence[index]\n"
        "print(len(sequence), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    frames, kilobytes = map(int, done.stdout.split())
    assert frames == int(folder.name)
    return kilobytes / 1000
