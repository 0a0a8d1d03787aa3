"""Every layout on small files: pairs, units, invalid values, intrinsics, stamps."""

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from fed_core.data.open import open_sequence
from fed_core.data.options import DEFAULT_EPOCH_NS, OpenOptions
from fed_core.data.readers import readers
from fed_core.data.readers.base import stamps_from_names
from fed_core.errors import ConfigError, DataError, UnitsError

Write = Callable[..., None]
NAN = np.nan


def f32(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def seven_scenes(root: Path, write: Write) -> None:
    for i in (0, 25):
        write(root / f"frame-{i:06}.color.png", root / f"frame-{i:06}.depth.png", [[0, 65535, 1500]], shade=i)


def redwood(root: Path, write: Write) -> None:
    for i in (0, 1):
        write(root / f"color/{i:05}.png", root / f"depth/{i:05}.png", [[0, 1000, 1500]], shade=i)
    matrix = [525.0, 0, 0, 0, 526.0, 0, 319.5, 239.5, 1]
    (root / "camera_primesense.json").write_text(json.dumps({"intrinsic_matrix": matrix}))


def nyu(root: Path, write: Write) -> None:
    for i in (0, 45):
        write(root / f"rgb_{i:05}.png", root / f"sync_depth_{i:05}.png", [[0, 1000, 1500]], shade=i)


def kitti(root: Path, write: Write) -> None:
    for i in (5, 50):
        write(root / f"rgb/{i:010}.png", root / f"depth/{i:010}.png", [[0, 256, 384]], shade=i)
    (root / "calib.txt").write_text("P0: 1 0 0 0 0 1 0 0 0 0 1 0\nP2: 707 0 604 45 0 708 180 -0.3 0 0 1 0.005\n")


def tum(root: Path, write: Write) -> None:
    lines = {"rgb": "# colour\n", "depth": "# depth\n"}
    for i, (rgb, depth) in enumerate([("100.000000", "100.010000"), ("100.100000", "100.095000"), ("100.2", "100.5")]):
        write(root / f"rgb/{rgb}.png", root / f"depth/{depth}.png", [[0, 5000, 7500]], shade=i)
        lines["rgb"] += f"{rgb} rgb/{rgb}.png\n"
        lines["depth"] += f"{depth} depth/{depth}.png\n"
    for name, text in lines.items():
        (root / f"{name}.txt").write_text(text)


def generic(root: Path, write: Write) -> None:
    for i in (0, 1):
        write(root / f"rgb/left_{i}.png", root / f"depth/d{i}.png", [[0, 9, 150]], shade=i)
    (root / "sequence.yaml").write_text("depth_unit: cm\ninvalid: [9]\nintrinsics: [5, 6, 1, 2]\nframe_id: my_cam\n")


BUILD = {f.__name__: f for f in (seven_scenes, redwood, nyu, kitti, tum, generic)}


@pytest.mark.parametrize(
    ("layout", "depth_m", "focal"),
    [
        ("seven_scenes", [NAN, NAN, 1.5], 585.0),
        ("redwood", [NAN, 1.0, 1.5], 525.0),
        ("nyu", [NAN, 1.0, 1.5], 518.8579),
        ("kitti", [NAN, 1.0, 1.5], 707.0),
        ("tum", [NAN, 1.0, 1.5], 525.0),
        ("generic", [NAN, NAN, 1.5], 5.0),
    ],
)
def test_layout_is_found_and_read(
    layout: str, depth_m: list[float], focal: float, tmp_path: Path, write_pair: Write
) -> None:
    root = tmp_path / "rec"
    BUILD[layout](root, write_pair)
    assert [n for n in readers.names() if readers.get(n)().matches(root)] == [layout]
    sequence = open_sequence(root)
    assert (len(sequence), sequence.name, sequence.source) == (2, "rec", str(root))
    frame = sequence[0]
    assert (frame.rgb.dtype, frame.depth_m.dtype, frame.intrinsics.dtype) == (np.uint8, np.float32, np.float64)
    np.testing.assert_array_equal(frame.depth_m, f32(depth_m))
    np.testing.assert_array_equal(frame.rgb[0, 0, :2], [200, 100])
    assert frame.intrinsics[0, 0] == focal
    assert sequence[1].stamp_ns == frame.stamp_ns + 100_000_000
    assert sequence[1].rgb[0, 0, 2] > frame.rgb[0, 0, 2]
    with pytest.raises(IndexError):
        sequence[2]


def test_every_reader_says_what_it_looks_for() -> None:
    assert {"generic", "kitti", "m3ed", "nyu", "redwood", "seven_scenes", "tartanair", "tum"} <= set(readers.names())
    assert all(readers.get(name).layout for name in readers.names())


def test_redwood_pairs_by_match_file_and_reads_columns(tmp_path: Path, write_pair: Write) -> None:
    redwood(tmp_path, write_pair)
    (tmp_path / "rgbd.match").write_text("depth/00000.png color/00001.png\n\n")
    sequence = open_sequence(tmp_path)
    assert len(sequence) == 1 and sequence[0].rgb[0, 0, 2] == 1
    np.testing.assert_array_equal(sequence[0].intrinsics, [[525, 0, 319.5], [0, 526, 239.5], [0, 0, 1]])
    (tmp_path / "rgbd.match").write_text("depth/00009.png color/00001.png\n")
    with pytest.raises(DataError, match=r"rgbd.match, line 1: .*00009.png is missing"):
        open_sequence(tmp_path)
    (tmp_path / "rgbd.match").write_text("depth/00000.png\n")
    with pytest.raises(DataError, match="line 1: expected 'depth/FILE color/FILE', got 'depth/00000.png'"):
        open_sequence(tmp_path)


def test_redwood_scan_names_carry_microseconds(tmp_path: Path, write_pair: Write) -> None:
    for colour, depth in (
        ("000001-000000000000", "000001-000000000123"),
        ("000002-000000033369", "000002-000000033400"),
    ):
        write_pair(tmp_path / f"image/{colour}.png", tmp_path / f"depth/{depth}.png", [[1000]])
    sequence = open_sequence(tmp_path, epoch_ns=7)
    assert [f.stamp_ns for f in sequence] == [7, 33_369_007]


def test_nyu_in_two_folders_with_annotation(tmp_path: Path, write_pair: Write) -> None:
    write_pair(tmp_path / "rgb/rgb_00000.png", tmp_path / "depth/sync_depth_00000.png", [[2000]])
    rows = [{"cam_in": [1.0, 2.0, 3.0, 4.0], "depth_scale": 500.0}]
    (tmp_path / "test_annotations.json").write_text(json.dumps({"files": rows}))
    frame = open_sequence(tmp_path)[0]
    assert frame.depth_m[0, 0] == 4.0
    np.testing.assert_array_equal(frame.intrinsics, [[1, 0, 3], [0, 2, 4], [0, 0, 1]])


def test_annotation_of_two_cameras_or_odd_scale_is_refused(tmp_path: Path, write_pair: Write) -> None:
    nyu(tmp_path, write_pair)
    file = tmp_path / "test_annotations.json"
    file.write_text(json.dumps({"files": [{"cam_in": [1, 1, 1, 1]}, {"cam_in": [2, 1, 1, 1]}]}))
    with pytest.raises(DataError, match="the images are of several cameras; give each its own folder"):
        open_sequence(tmp_path)
    file.write_text(json.dumps({"files": [{"cam_in": [1, 1, 1, 1], "depth_scale": 0.5}]}))
    with pytest.raises(UnitsError, match="depth_scale 0.5 is not a whole number of counts in a metre"):
        open_sequence(tmp_path)
    file.write_text("{")
    with pytest.raises(DataError, match="is not valid JSON"):
        open_sequence(tmp_path)


def test_kitti_selection_with_intrinsics_per_frame(tmp_path: Path, write_pair: Write) -> None:
    stem = "2011_09_26_drive_0002_sync_{}_0000000005_image_02"
    colour = tmp_path / "image" / (stem.format("image") + ".png")
    write_pair(colour, tmp_path / "groundtruth_depth" / (stem.format("groundtruth_depth") + ".png"), [[512]])
    intrinsics = tmp_path / "intrinsics" / f"{colour.stem}.txt"
    intrinsics.parent.mkdir()
    intrinsics.write_text("721.5 0 596.5 0 722.5 149.8 0 0 1")
    frame = open_sequence(tmp_path)[0]
    assert frame.depth_m[0, 0] == 2.0
    assert (frame.intrinsics[0, 0], frame.intrinsics[1, 1]) == (721.5, 722.5)


def test_kitti_drive_has_times_and_frames_without_laser_depth(tmp_path: Path, write_pair: Write) -> None:
    drive = tmp_path / "2011_09_26" / "drive_0001_sync"
    depth = drive / "proj_depth/groundtruth/image_02"
    for i in range(3):
        write_pair(drive / f"image_02/data/{i:010}.png", depth / f"{i:010}.png", [[256]])
    (depth / "0000000000.png").unlink()
    times = ["2011-09-26 13:02:25.964389445", "2011-09-26 13:02:26.100000001", "2011-09-26 13:02:26.2"]
    (drive / "image_02/timestamps.txt").write_text("\n".join(times) + "\n")
    (drive.parent / "calib_cam_to_cam.txt").write_text("P_rect_02: 721 0 609 44 0 722 172 0.2 0 0 1 0.002\n")
    sequence = open_sequence(drive)
    assert [f.stamp_ns for f in sequence] == [1317042146_100000001, 1317042146_200000000]
    assert sequence[0].intrinsics[1, 1] == 722
    (drive / "image_02/timestamps.txt").write_text(times[0])
    with pytest.raises(DataError, match=r"timestamps.txt has no time for frame 000000000[12]"):
        open_sequence(drive)


def test_folder_without_intrinsics_asks_for_them(tmp_path: Path, write_pair: Write) -> None:
    kitti(tmp_path, write_pair)
    (tmp_path / "calib.txt").unlink()
    with pytest.raises(DataError) as caught:
        open_sequence(tmp_path)
    assert str(caught.value) == f"{tmp_path} has no intrinsics; state them with intrinsics: fx fy cx cy"
    assert open_sequence(tmp_path, intrinsics=[7, 8, 1, 1])[0].intrinsics[1, 1] == 8


def test_tum_pairs_by_time_with_exact_stamps_and_known_camera(tmp_path: Path, write_pair: Write) -> None:
    root = tmp_path / "rgbd_dataset_freiburg2_desk"
    write_pair(root / "rgb/1305031102.175304.png", root / "depth/1305031102.160407.png", [[5000]])
    (root / "rgb.txt").write_text("1305031102.175304 rgb/1305031102.175304.png\n")
    (root / "depth.txt").write_text("1305031102.160407 depth/1305031102.160407.png\n")
    frame = open_sequence(root)[0]
    assert frame.stamp_ns == 1305031102_175304000
    assert frame.intrinsics[0, 0] == 520.908620
    with pytest.raises(
        DataError, match="none of 1 colour and 1 depth images are within 0.01 s of each other; raise slop_s"
    ):
        open_sequence(root, slop_s=0.01)
    (root / "rgb.txt").write_text("now rgb/1305031102.175304.png\n")
    with pytest.raises(DataError, match="rgb.txt, line 1: expected 'seconds file', got 'now rgb"):
        open_sequence(root)
    (root / "rgb.txt").write_text("1.0 rgb/other.png\n")
    with pytest.raises(DataError, match=r"rgb.txt, line 1: .*other.png is missing"):
        open_sequence(root)


def test_tartanair_unpacks_floats_and_drops_the_sky(tmp_path: Path) -> None:
    depth = np.array([[1.5, 117.5, 40800.0]], dtype="<f4")
    for name, image in (
        ("image_lcam_front/000000_lcam_front.png", np.zeros((1, 3, 3), np.uint8)),
        ("depth_lcam_front/000000_lcam_front_depth.png", depth.view(np.uint8).reshape(1, 3, 4)),
    ):
        (tmp_path / name).parent.mkdir()
        cv2.imwrite(str(tmp_path / name), image)
    frame = open_sequence(tmp_path)[0]
    np.testing.assert_array_equal(frame.depth_m, f32([1.5, 117.5, NAN]))


def test_generic_reads_float_files_in_metres(tmp_path: Path, write_pair: Write) -> None:
    write_pair(tmp_path / "img/1403715276062142976.png", tmp_path / "d/x.png", [[1, 1]])
    np.save(tmp_path / "d/1403715276062142976.npy", f32([np.inf, 2.25]))
    (tmp_path / "d/x.png").unlink()
    (tmp_path / "sequence.yaml").write_text("depth_unit: m\nrgb: img\ndepth: d\nintrinsics: [1, 1, 0, 0]\n")
    frame = open_sequence(tmp_path)[0]
    np.testing.assert_array_equal(frame.depth_m, f32([NAN, 2.25]))
    assert frame.stamp_ns == 1403715276062142976


def test_generic_registered_depth_of_another_size_is_brought_to_the_colour_image(
    tmp_path: Path, write_pair: Write
) -> None:
    write_pair(tmp_path / "rgb/0.png", tmp_path / "depth/0.png", np.ones((4, 6)))
    cv2.imwrite(str(tmp_path / "depth/0.png"), np.array([[0, 1000, 2000], [3000, 4000, 5000]], np.uint16))
    stated = "depth_unit: mm\nintrinsics: [1, 1, 0, 0]\n"
    (tmp_path / "sequence.yaml").write_text(stated)
    with pytest.raises(DataError) as caught:
        open_sequence(tmp_path)[0]
    depth_file = tmp_path / "depth/0.png"
    assert str(caught.value) == (
        f"{depth_file}: colour is 6x4 but depth is 3x2; both must be of one size and registered"
    )
    (tmp_path / "sequence.yaml").write_text(stated + "registered: true\n")
    depth = open_sequence(tmp_path)[0].depth_m
    np.testing.assert_array_equal(depth[0], f32([NAN, NAN, 1, 1, 2, 2])[0])
    assert depth.shape == (4, 6) and depth[3, 5] == 5


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("rgb: rgb\n", UnitsError, 'the unit of the depth images is not known; state it in {file}, for example "depth'),
        ("depth_unit: 5000\n", UnitsError, '{file}: depth unit 5000 is not known; state it as "mm", "cm", "m"'),
        ("depth_unit: mm\ndept: d\n", ConfigError, "{file}: unknown key 'dept'; known: depth_unit"),
        ("depth_unit: mm\nintrinsics: [1, 2]\n", ConfigError, "intrinsics needs fx, fy, cx, cy; got 2 values"),
        ("depth_unit: [\n", ConfigError, "{file} is not valid YAML"),
    ],
)
def test_sequence_file_is_checked(
    text: str, kind: type[Exception], message: str, tmp_path: Path, write_pair: Write
) -> None:
    generic(tmp_path, write_pair)
    file = tmp_path / "sequence.yaml"
    file.write_text(text)
    with pytest.raises(kind) as caught:
        open_sequence(tmp_path)
    assert message.format(file=file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_depth_folder_without_stated_unit_says_how_to_state_it(tmp_path: Path, write_pair: Write) -> None:
    write_pair(tmp_path / "rgb/a.png", tmp_path / "depth/a.png", [[1]])
    with pytest.raises(UnitsError) as caught:
        open_sequence(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: the unit of the depth images is not known; state it in {tmp_path / 'sequence.yaml'}, "
        'for example "depth_unit: mm" (or cm, m, 1/256 m) and "intrinsics: [fx, fy, cx, cy]"'
    )


def test_counts_that_differ_name_the_lonely_file(tmp_path: Path, write_pair: Write) -> None:
    for layout in ("seven_scenes", "redwood", "nyu", "kitti", "generic"):
        root = tmp_path / layout
        BUILD[layout](root, write_pair)
        victim = sorted(f for f in root.rglob("*.png") if "depth" in str(f.relative_to(root)) or f.name[0] == "d")[-1]
        victim.unlink()
        with pytest.raises(DataError, match=r": 2 colour and 1 depth images; \S+\.png has no depth image$"):
            open_sequence(root)


def test_frame_without_depth_names_the_file_when_read(tmp_path: Path, write_pair: Write) -> None:
    seven_scenes(tmp_path, write_pair)
    file = tmp_path / "frame-000025.depth.png"
    cv2.imwrite(str(file), np.array([[0, 65535, 0]], np.uint16))
    sequence = open_sequence(tmp_path)
    assert sequence[0].depth_m.shape == (1, 3)
    with pytest.raises(DataError) as caught:
        sequence[1]
    assert str(caught.value) == f"{file}: no pixel has a valid depth; leave this frame out"


@pytest.mark.parametrize("name", ["frame-000025.depth.png", "frame-000025.color.png"])
def test_broken_empty_and_vanished_files(name: str, tmp_path: Path, write_pair: Write) -> None:
    noise = np.random.default_rng(0).integers(1, 60000, (40, 40))
    write_pair(tmp_path / "frame-000025.color.png", tmp_path / "frame-000025.depth.png", noise)
    sequence, file = open_sequence(tmp_path), tmp_path / name
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError) as caught:
        sequence[0]
    assert str(caught.value) == f"{file} cannot be read as an image; the file is broken or cut off"
    file.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        sequence[0]
    file.unlink()
    with pytest.raises(DataError, match="cannot read .*: No such file or directory"):
        sequence[0]


def test_picture_in_place_of_depth_is_refused(tmp_path: Path, write_pair: Write) -> None:
    seven_scenes(tmp_path, write_pair)
    file = tmp_path / "frame-000000.depth.png"
    cv2.imwrite(str(file), np.zeros((1, 3, 3), np.uint8))
    with pytest.raises(DataError) as caught:
        open_sequence(tmp_path)[0]
    assert str(caught.value) == (f"{file} has 3 channel(s) of uint8; a depth image has one channel of 16 bits or float")


def test_empty_depth_lists_hold_no_frames(tmp_path: Path) -> None:
    for name in ("rgb", "depth"):
        (tmp_path / name).mkdir()
    (tmp_path / "sequence.yaml").write_text("depth_unit: mm\nintrinsics: [1, 1, 0, 0]\n")
    with pytest.raises(DataError, match="holds no frames"):
        open_sequence(tmp_path)


def test_stamps_come_from_names_only_if_all_are_times() -> None:
    options = OpenOptions(rate_hz=4.0)
    times = [Path("1403715276062142976.png"), Path("1403715276112143104.png")]
    assert stamps_from_names(times, options) == [1403715276062142976, 1403715276112143104]
    assert stamps_from_names([Path("1403715276062142.png")], options) == [1403715276062142000]
    assert stamps_from_names([Path("1305031102.175304.png")], options) == [1305031102175304000]
    mixed = [times[0], Path("0000000005.png"), Path("x.png")]
    assert stamps_from_names(mixed, options) == [DEFAULT_EPOCH_NS + i * 250_000_000 for i in range(3)]


def test_options_are_laid_over_the_recording(tmp_path: Path, write_pair: Write) -> None:
    seven_scenes(tmp_path, write_pair)
    sequence = open_sequence(tmp_path, name="office", rate_hz=2.0, epoch_ns=5, frame_id="left")
    assert sequence.name == "office"
    assert [f.stamp_ns for f in sequence] == [5, 500_000_005]
    assert sequence[0].frame_id == "left"
    assert open_sequence(tmp_path)[0].frame_id == "camera_optical_frame"
