"""KITTI folders with laser scans: where points fall is worked out by hand; a real frame agrees with its labels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fed_core.data.open import find_reader, open_sequence
from fed_core.data.readers.kitti_lidar import KittiScans
from fed_core.errors import DataError
from tests.core.data.conftest import save

# The LiDAR looks along x (ahead), y is left, z up; the camera has x right, y down, z ahead.
ROTATION = "0 -1 0 0 0 -1 1 0 0"
#: A pinhole of 10 px, centre (4, 3), 0.5 m to the left of the reference camera: 10 * 0.5 in the fourth column.
PROJECTION = "10 0 4 5 0 10 3 0 0 0 1 0"


def scan(path: Path, points: list[tuple[float, float, float]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.array([(*point, 0.25) for point in points], "<f4").tofile(path)


def picture(path: Path) -> None:
    save(path, np.full((6, 8, 3), 100, np.uint8))


#: 5 m ahead and 0.5 m left, so in the middle of the camera's view; 10 m ahead, 1.5 m left, 1 m down; behind.
POINTS = [(5.0, 0.5, 0.0), (10.0, 1.5, -1.0), (-5.0, 0.0, 0.0)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the object benchmark with two frames, the second without a scan."""
    for name in ("000004", "000007"):
        picture(tmp_path / "image_2" / f"{name}.png")
    scan(tmp_path / "velodyne/000004.bin", POINTS)
    (tmp_path / "calib").mkdir()
    text = f"P2: {PROJECTION}\nR0_rect: 1 0 0 0 1 0 0 0 1\nTr_velo_to_cam: 0 -1 0 0 0 0 -1 0 1 0 0 0\n"
    (tmp_path / "calib/000004.txt").write_text(text)
    return tmp_path


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """A raw drive in the folder of its day."""
    drive = tmp_path / "2011_09_26" / "drive_0001_sync"
    picture(drive / "image_02/data/0000000000.png")
    (drive / "image_02/timestamps.txt").write_text("2011-09-26 13:02:25.964389445\n")
    scan(drive / "velodyne_points/data/0000000000.bin", POINTS)
    (drive.parent / "calib_velo_to_cam.txt").write_text(f"calib_time: today\nR: {ROTATION}\nT: 0 0 0\n")
    (drive.parent / "calib_cam_to_cam.txt").write_text(f"R_rect_00: 1 0 0 0 1 0 0 0 1\nP_rect_02: {PROJECTION}\n")
    return drive


@pytest.mark.parametrize("layout", ["folder", "drive"])
def test_points_fall_where_a_ruler_says(request: pytest.FixtureRequest, layout: str) -> None:
    path = request.getfixturevalue(layout)
    assert find_reader(path) == "kitti_lidar"
    sequence = open_sequence(path)
    assert isinstance(sequence, KittiScans) and len(sequence) == 1
    frame = sequence[0]
    # Left of the reference by 0.5 m: the camera sees the first point 0 m, the second 1 m to its left, 1 m down.
    expected = np.full((6, 8), np.nan, np.float32)
    expected[3, 4] = 5.0
    expected[4, 3] = 10.0
    np.testing.assert_array_equal(frame.depth_m, expected)
    np.testing.assert_array_equal(frame.intrinsics, [[10, 0, 4], [0, 10, 3], [0, 0, 1]])
    np.testing.assert_array_equal(sequence.points(0)[1], np.array([10.0, 1.5, -1.0, 0.25], np.float32))
    if layout == "drive":
        assert frame.stamp_ns == 1317042145_964389445


def test_real_frame_agrees_with_its_labels(shared_data: Path) -> None:
    folder = shared_data / "kitti_object"
    frame = open_sequence(folder)[0]
    assert frame.rgb.shape == (375, 1242, 3) and 0.03 < np.isfinite(frame.depth_m).mean() < 0.05
    for line in (folder / "label_2/000001.txt").read_text().splitlines():
        kind, *numbers = line.split()
        if kind not in ("Truck", "Car", "Cyclist"):
            continue
        left, top, right, bottom = (round(float(number)) for number in numbers[3:7])
        distance_m, length_m = float(numbers[12]), float(numbers[9])
        seen = np.nanmedian(frame.depth_m[top:bottom, left:right])
        assert abs(seen - distance_m) < 0.5 * length_m + 1.0, kind


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: (path / "velodyne/000004.bin").write_bytes(b"123"), "is no laser scan: 3 bytes"),
        (lambda path: (path / "calib/000004.txt").write_text("P2: 1 2"), "has no Tr_velo_to_cam"),
        (lambda path: (path / "calib/000004.txt").write_text("Tr_velo_to_cam: 1 2"), "Tr_velo_to_cam needs 12 numbers"),
        (lambda path: scan(path / "velodyne/000004.bin", [(-1.0, 0.0, 0.0)]), "000004.bin"),
    ],
)
def test_broken_frames_are_told(folder: Path, change: Callable[[Path], object], text: str) -> None:
    change(folder)
    with pytest.raises(DataError) as caught:
        open_sequence(folder)[0]
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_folders_without_scans_or_calibration_are_told(folder: Path, drive: Path) -> None:
    (folder / "velodyne/000004.bin").unlink()
    with pytest.raises(DataError, match="holds no picture with a laser scan"):
        open_sequence(folder)
    (drive.parent / "calib_velo_to_cam.txt").unlink()
    with pytest.raises(DataError, match=r"has no calib_velo_to_cam.txt, nor has the folder above"):
        open_sequence(drive)
