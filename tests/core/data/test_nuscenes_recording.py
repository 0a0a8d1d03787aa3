"""What a vehicle records of itself reads back as it was seen, velocities too, which only tracks tell."""

from pathlib import Path

import numpy as np
import pytest

from fed_core.data.nuscenes.recording import ScanWriter, recorded_source
from fed_core.data.samples import open_samples
from fed_core.errors import DataError
from fed_core.types import DetectionFrame
from tests.core.data.nuscenes_trees import make_frame

#: Metres per second of the object that moves, over ground, in the LiDAR's axes (y ahead).
MOVES = np.array([1.0, 6.0])
#: The vehicle drives at 4 m/s along y.
OWN_MPS = 4.0


def frame(number: int, **changes: object) -> DetectionFrame:
    """Return a keyframe: a moving car crosses the place where a parked one was, so that names could be swapped."""
    plain = make_frame(number, ("car", "car", "pedestrian"))
    boxes = plain.boxes
    seconds = 0.5 * number
    # Over ground the first two stand and drive; in the vehicle's axes all come nearer with its own speed.
    boxes.centres[:] = [[3.0, 10.0, -1.0], [2.0, 7.5, -1.0], [9.0, 12.0, -1.0]]
    boxes.centres[:, 1] -= OWN_MPS * seconds
    boxes.centres[1, :2] += MOVES * seconds
    boxes.velocities[:] = [[0.0, 0.0], MOVES, [np.nan, np.nan]]
    old = np.array([[1.5, 2.5, -3.5, 9.0, 0.25], [4.5, 5.5, -3.5, 8.0, 0.25], [7.0, 8.0, -1.0, 5.0, 0.125]], np.float32)
    cloud = np.concatenate([plain.points[:, :4], np.zeros((len(plain.points), 1), np.float32)], axis=1)
    return make_frame(
        number, ("car", "car", "pedestrian"), boxes=boxes, points=np.concatenate([cloud, old[::-1]]), **changes
    )


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[list[DetectionFrame], Path]:
    frames = [frame(number) for number in range(4)]
    writer = ScanWriter(tmp_path / "drive")
    for each in frames:
        writer.add(each)
    writer.close()
    return frames, tmp_path / "drive"


def test_frames_come_back_as_they_were(recorded: tuple[list[DetectionFrame], Path]) -> None:
    frames, folder = recorded
    sequence = open_samples("detection", recorded_source(folder), Path("/nowhere"))
    assert len(sequence) == 4 and len(sequence.scenes) == 1
    for index, seen in enumerate(frames):
        back = sequence[index]
        assert (back.cameras, back.stamp_ns) == (seen.cameras, seen.stamp_ns)
        np.testing.assert_allclose(back.points, seen.points, atol=1e-4)
        np.testing.assert_allclose(back.lidar_to_camera, seen.lidar_to_camera, atol=1e-6)
        np.testing.assert_allclose(back.intrinsics, seen.intrinsics)
        np.testing.assert_allclose(back.boxes.centres, seen.boxes.centres, atol=1e-6)
        np.testing.assert_allclose(back.boxes.sizes, seen.boxes.sizes, atol=1e-9)
        assert back.boxes.labels.tolist() == seen.boxes.labels.tolist()
        assert back.boxes.num_points.tolist() == seen.boxes.num_points.tolist()
        assert max(abs(a.astype(int) - b).max() for a, b in zip(back.images, seen.images, strict=True)) <= 2


def test_velocities_come_back_from_the_tracks(recorded: tuple[list[DetectionFrame], Path]) -> None:
    _, folder = recorded
    sequence = open_samples("detection", recorded_source(folder), Path("/nowhere"))
    for index in range(4):
        np.testing.assert_allclose(sequence[index].boxes.velocities[:2], [[0.0, 0.0], MOVES], atol=0.2)


def test_a_jump_of_time_begins_another_scene(tmp_path: Path) -> None:
    writer = ScanWriter(tmp_path / "drive")
    for number in (0, 1, 40, 41):
        writer.add(make_frame(number))
    writer.close()
    assert len(open_samples("detection", recorded_source(tmp_path / "drive"), Path()).scenes) == 2


def test_frames_of_other_cameras_and_folders_that_are_there_are_refused(tmp_path: Path) -> None:
    writer = ScanWriter(tmp_path / "drive")
    writer.add(make_frame(0))
    one = make_frame(1)
    other = make_frame(
        1, cameras=one.cameras[:1], images=one.images[:1], intrinsics=one.intrinsics[:1],
        lidar_to_camera=one.lidar_to_camera[:1],
    )  # fmt: skip
    with pytest.raises(DataError, match="a frame has cameras CAM_FRONT; the first has CAM_FRONT, CAM_BACK; record"):
        writer.add(other)
    with pytest.raises(DataError, match="drive exists already; choose another folder"):
        ScanWriter(tmp_path / "drive")
    with pytest.raises(DataError, match="drive is no finished recording of a vehicle's LiDAR"):
        recorded_source(tmp_path / "drive")
    writer.discard()
    assert not (tmp_path / "drive").exists()
    with pytest.raises(DataError, match="nothing was recorded for"):
        ScanWriter(tmp_path / "empty").close()
