"""Real recordings: each gives frames of the known size, or one clear line."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fed_core.data.bag_files import BagFile
from fed_core.data.bag_writer import write_bag
from fed_core.data.inspect import describe
from fed_core.data.open import list_recordings, open_sequence
from fed_core.data.segment import Segment, usable
from fed_core.errors import DataError

BAGS = "rosbags"


@pytest.mark.parametrize(
    ("folder", "frames", "size", "near_m", "far_m", "min_valid", "focal"),
    [
        ("depth_7scenes", 40, (480, 640), 0.4, 5.0, 0.7, 585.0),
        ("depth_redwood", 5, (480, 640), 0.5, 5.0, 0.8, 525.0),
        ("depth_nyu", 3, (480, 640), 0.5, 10.0, 0.6, 518.8579),
        ("depth_kitti", 3, (375, 1242), 2.0, 90.0, 0.15, 707.0493),
        ("depth_tartanair", 3, (640, 640), 0.5, 500.0, 0.5, 320.0),
    ],
)
def test_folder(
    shared_data: Path,
    folder: str,
    frames: int,
    size: tuple[int, int],
    near_m: float,
    far_m: float,
    min_valid: float,
    focal: float,
) -> None:
    sequence = open_sequence(shared_data / folder)
    assert len(sequence) == frames and sequence.name == folder
    stamps = []
    for i in range(frames):
        frame = sequence[i]
        assert frame.rgb.shape == (*size, 3) and frame.depth_m.shape == size
        known = frame.depth_m[np.isfinite(frame.depth_m)]
        assert known.size / frame.depth_m.size > min_valid
        assert near_m < known.min() < known.max() < far_m
        assert frame.rgb.std() > 20 and frame.intrinsics[0, 0] == pytest.approx(focal)
        stamps.append(frame.stamp_ns)
    assert stamps == sorted(set(stamps))
    assert usable(sequence) == list(range(frames))


def test_seven_scenes_split_for_several_robots(shared_data: Path) -> None:
    whole = open_sequence(shared_data / "depth_7scenes")
    parts = [Segment(whole, start, start + 10) for start in range(0, 40, 10)]
    assert [len(p) for p in parts] == [10, 10, 10, 10]
    assert len({p.name for p in parts}) == 4
    assert parts[2][0].stamp_ns == whole[20].stamp_ns


def test_tartanair_bytes_are_in_the_order_in_which_depth_is_a_float16_number(shared_data: Path) -> None:
    depth = open_sequence(shared_data / "depth_tartanair")[0].depth_m
    known = depth[np.isfinite(depth)]
    np.testing.assert_array_equal(known.astype(np.float16).astype(np.float32), known)


def test_realsense_bag(shared_data: Path) -> None:
    path = shared_data / BAGS / "ros1/realsense_depth_color_640x480.bag"
    with pytest.raises(DataError, match="the nearest are 0.102 s apart, raise slop_s"):
        open_sequence(path)
    sequence = open_sequence(path, slop_s=0.11)
    assert len(sequence) == 1 and sequence.unit == "1/1000 m"  # type: ignore[attr-defined]
    frame = sequence[0]
    assert frame.rgb.shape == (480, 640, 3) and frame.stamp_ns == 360_713523000
    assert 1.0 < float(np.nanmedian(frame.depth_m)) < 2.0
    assert frame.intrinsics[0, 0] == pytest.approx(613.20367)


@pytest.mark.parametrize(
    ("bag", "messages", "topics"),
    [
        ("ros1/example-bz2.bag", 8647, 9),
        ("ros1/example-lz4.bag", 8647, 9),
        ("ros1/tilt_laser.bag", 4093, 9),
        ("ros1/no-messages.bag", 0, 0),
        ("ros1/realsense_depth_color_640x480.bag", 135, 70),
        ("mcap/nav2_turtlebot.mcap", 8197, 4),
        ("rosbag2_mcap/wbag", 6074, 8),
        ("rosbag2_mcap/wbag/wbag_0.mcap", 1246, 8),
        ("rosbag2_sqlite3/wbag", 6074, 8),
        ("rosbag2_sqlite3/wbag/wbag_4.db3", 1108, 8),
        ("rosbag2_sqlite3/talker", 20, 3),
        ("rosbag2_sqlite3/talker/talker.db3", 20, 3),
        ("rosbag2_sqlite3/velodyne_vlp16/1673400471837873222", 4, 1),
    ],
)
def test_every_message_of_every_bag_is_read(shared_data: Path, bag: str, messages: int, topics: int) -> None:
    with BagFile(shared_data / BAGS / bag) as opened:
        assert (opened.num_messages, len(opened.topics)) == (messages, topics)
        counts = dict.fromkeys(opened.topics, 0)
        for raw in opened.messages():
            counts[raw.topic] += 1
        assert counts == {t.name: t.count for t in opened.topics.values()}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("mcap/nav2_turtlebot.mcap", "has no depth image topic; topics there: /amcl_pose (geometry_msgs/msg/Pose"),
        ("ros1/tilt_laser.bag", "has no depth image topic; topics there: /gravity_vector (geometry_msgs/msg/Vector3"),
        ("ros1/no-messages.bag", "holds no messages"),
        ("rosbag2_sqlite3/talker", "has no depth image topic; topics there: /parameter_events (rcl_interfaces/msg/"),
        ("rosbag2_mcap/wbag", "has no depth image topic; topics there: AAA (std_msgs/msg/String), BBB (std_msgs/msg"),
        ("mcap/foxglove_json_camera.mcap", "is an MCAP file without ROS 2 messages (its profile is not ros2)"),
        ("ros1", "has 5 bag files (example-bz2.bag, example-lz4.bag, no-messages.bag, realsense_depth_color"),
        ("rosbag2_mcap", "it holds folders: wbag; recordings in it, name one: wbag"),
        ("../euroc_mav_stereo", "it holds 1 files (1 .md); folders: cam0, cam1"),
        ("../m3ed_spot_rgb/spot_forest_hard", "it holds 7 files (7 .png)"),
    ],
)
def test_what_has_no_frames_says_so_in_one_line(shared_data: Path, path: str, text: str) -> None:
    with pytest.raises(DataError) as caught:
        open_sequence(shared_data / BAGS / path)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_talker_text_and_its_files_stay_untouched(shared_data: Path) -> None:
    folder = shared_data / BAGS / "rosbag2_sqlite3/talker"
    before = {f.name: f.stat().st_mtime_ns for f in folder.iterdir()}
    with BagFile(folder) as bag:
        texts = [bag.decode(raw).data for raw in bag.messages(["/topic"])]
    assert texts == [f"Hello, world! {i}" for i in range(10)]
    assert {f.name: f.stat().st_mtime_ns for f in folder.iterdir()} == before


def test_real_bag_cut_off_and_split_bag_that_lost_a_file(shared_data: Path, tmp_path: Path) -> None:
    bag = tmp_path / "cut.bag"
    data = (shared_data / BAGS / "ros1/realsense_depth_color_640x480.bag").read_bytes()
    bag.write_bytes(data[: len(data) // 2])
    with pytest.raises(
        DataError, match="cut.bag cannot be read as a bag: .*; if the recording was cut off, try: rosbag"
    ):
        open_sequence(bag)
    for kind in ("rosbag2_mcap", "rosbag2_sqlite3"):
        copy = shutil.copytree(shared_data / BAGS / kind / "wbag", tmp_path / kind)
        copy.chmod(0o755)
        next(copy.glob("wbag_2.*")).unlink()
        with pytest.raises(DataError, match="Some database files are missing: .*wbag_2"):
            open_sequence(copy)


def test_real_recording_survives_a_bag(shared_data: Path, tmp_path: Path) -> None:
    sequence = open_sequence(shared_data / "depth_redwood")
    again = open_sequence(write_bag(sequence, tmp_path / "redwood", depth_encoding="16UC1"))
    for i in (4, 0):
        np.testing.assert_array_equal(again[i].depth_m, sequence[i].depth_m)
        np.testing.assert_array_equal(again[i].rgb, sequence[i].rgb)


def test_recordings_are_listed(shared_data: Path) -> None:
    names = [p.name for p in list_recordings(shared_data)]
    assert names == ["depth_7scenes", "depth_kitti", "depth_nyu", "depth_redwood", "depth_tartanair", "kitti_object"]
    assert len(list_recordings(shared_data / BAGS / "ros1")) == 5


def test_every_path_is_described_or_refused_in_one_line(shared_data: Path) -> None:
    described = 0
    for path in [*sorted(shared_data.iterdir()), *sorted((shared_data / BAGS).rglob("*"))]:
        try:
            report = describe(path)
        except DataError as err:
            assert "\n" not in str(err) and str(path) in str(err)
            continue
        described += 1
        assert report.rows and report.table is not None
    assert described >= 20
