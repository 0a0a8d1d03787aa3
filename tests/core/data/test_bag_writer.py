import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from fed_core.data.bag_files import BagFile
from fed_core.data.bag_writer import DEFAULT_TOPICS, BagWriter, frame_messages, write_bag
from fed_core.data.open import open_sequence
from fed_core.data.options import TopicNames
from fed_core.errors import DataError, EncodingError

Make = Callable[..., Any]


@pytest.mark.parametrize(("storage", "compress"), [("mcap", False), ("mcap", True), ("sqlite3", False)])
@pytest.mark.parametrize("encoding", ["32FC1", "16UC1"])
def test_what_is_written_is_read_again(
    storage: str, compress: bool, encoding: str, tmp_path: Path, make_sequence: Make
) -> None:
    sequence = make_sequence(3)
    bag = write_bag(sequence, tmp_path / "rec", storage=storage, compress=compress, depth_encoding=encoding)
    again = open_sequence(bag)
    assert len(again) == 3
    for i in range(3):
        np.testing.assert_array_equal(again[i].rgb, sequence[i].rgb)
        np.testing.assert_array_equal(again[i].depth_m, sequence[i].depth_m)
        np.testing.assert_array_equal(again[i].intrinsics, sequence[i].intrinsics)
        assert (again[i].stamp_ns, again[i].frame_id) == (sequence[i].stamp_ns, "cam_optical")


def test_topics_types_and_record_times(tmp_path: Path, make_sequence: Make) -> None:
    names = TopicNames(colour="/c", depth="/d")
    bag = write_bag(make_sequence(2), tmp_path / "rec", topics=names)
    with AnyReader([bag]) as reader:
        found = {c.topic: (c.msgtype, c.msgcount) for c in reader.connections}
        times = [t for _, t, _ in reader.messages()]
    image = "sensor_msgs/msg/Image"
    assert found == {"/c": (image, 2), "/d": (image, 2), DEFAULT_TOPICS.info: ("sensor_msgs/msg/CameraInfo", 2)}
    assert times == [1_000_000_000_000] * 3 + [1_000_100_000_000] * 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(depth_m=st.floats(width=32, allow_nan=True, allow_infinity=True))
def test_millimetres_are_rounded_and_what_does_not_fit_is_unknown(
    depth_m: float, tmp_path_factory: pytest.TempPathFactory, make_sequence: Make
) -> None:
    sequence = make_sequence(1)
    sequence.frames[0].depth_m[1, 1] = depth_m
    bag = write_bag(sequence, tmp_path_factory.mktemp("w") / "rec", depth_encoding="16UC1")
    read = open_sequence(bag)[0].depth_m[1, 1]
    if np.isfinite(depth_m) and 0.001 <= depth_m <= 65.535:
        assert abs(float(read) - depth_m) <= 0.0005001
    elif not (np.isfinite(depth_m) and 0 < depth_m < 65.5355):
        assert np.isnan(read)


def test_existing_folder_is_not_touched(tmp_path: Path, make_sequence: Make) -> None:
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "mine").write_text("x")
    with pytest.raises(DataError) as caught:
        write_bag(make_sequence(1), tmp_path / "rec")
    assert str(caught.value) == f"{tmp_path / 'rec'} exists already; choose another name for the bag"
    assert (tmp_path / "rec" / "mine").read_text() == "x"


def test_broken_frame_leaves_nothing_behind(tmp_path: Path, make_sequence: Make) -> None:
    sequence = make_sequence(2)
    sequence.frames[1] = None
    with pytest.raises(AttributeError):
        write_bag(sequence, tmp_path / "rec")
    assert not (tmp_path / "rec").exists()


def test_unwritable_place_encoding_and_storage(tmp_path: Path, make_sequence: Make) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot write the bag .*file/rec: .*Not a directory"):
        write_bag(make_sequence(1), tmp_path / "file" / "rec")
    with pytest.raises(EncodingError, match="depth encoding '64FC1' cannot be written; choose 32FC1 or 16UC1"):
        write_bag(make_sequence(1), tmp_path / "rec", depth_encoding="64FC1")
    with pytest.raises(DataError, match="bag storage 'csv' cannot be written; choose mcap"):
        write_bag(make_sequence(1), tmp_path / "rec", storage="csv")
    assert not (tmp_path / "rec").exists()


def test_frames_can_be_added_one_by_one(tmp_path: Path, make_sequence: Make) -> None:
    sequence = make_sequence(2)
    writer = BagWriter(tmp_path / "rec")
    for i in range(2):
        writer.add(sequence[i])
    with pytest.raises(DataError, match="cannot be read as a bag"):
        open_sequence(tmp_path / "rec" / "rec.mcap")  # not before it is closed
    writer.close()
    np.testing.assert_array_equal(open_sequence(tmp_path / "rec")[1].depth_m, sequence[1].depth_m)
    with pytest.raises(DataError, match="cannot write the bag .*: Bag was not opened"):
        writer.add(sequence[0])


def test_discarded_bag_leaves_no_open_file(tmp_path: Path, make_sequence: Make) -> None:
    def open_files() -> list[str]:
        return [os.readlink(f) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]

    writer = BagWriter(tmp_path / "rec")
    writer.add(make_sequence(1)[0])
    assert any(f.startswith(str(tmp_path)) for f in open_files())
    writer.discard()
    assert not any(f.startswith(str(tmp_path)) for f in open_files())
    assert not (tmp_path / "rec").exists()


def test_messages_of_other_topics_and_frames_without_their_depth(tmp_path: Path, make_sequence: Make) -> None:
    writer, frame = BagWriter(tmp_path / "bag"), make_sequence(1)[0]
    writer.add(frame, depth=False)
    data = frame_messages(get_typestore(Stores.ROS2_KILTED), frame)[1]
    for stamp_ns in (7, 9):
        writer.add_message("/seen", "sensor_msgs/msg/Image", stamp_ns, bytes(data))
    writer.close()
    with BagFile(tmp_path / "bag") as bag:
        counts = {name: topic.count for name, topic in bag.topics.items() if topic.count}
        assert counts == {"/camera/color/image_raw": 1, "/camera/color/camera_info": 1, "/seen": 2}
        assert [raw.log_ns for raw in bag.messages(["/seen"])] == [7, 9]
        assert bag.first("/seen").encoding == "rgb8"
