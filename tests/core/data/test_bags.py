"""Bags of every kind that the tests write: frames, order of access, broken bags."""

import multiprocessing
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fed_core.data.bag_files import BagFile
from fed_core.data.bags import BagSequence
from fed_core.data.open import open_sequence
from fed_core.data.options import OpenOptions
from fed_core.errors import DataError, EncodingError

Make = Callable[..., Path]
Maker = Callable[..., Any]
NS = 50_000_000_000
TIMES = "".join(f"  {n}: {{sec: 1, nsec: 2}}\n" for n in ("deadline", "lifespan", "liveliness_lease_duration"))
PROFILE = (
    "- history: 1\n  depth: 7\n  reliability: 1\n  durability: 2\n  liveliness: 1\n"
    f"{TIMES}  avoid_ros_namespace_conventions: false\n"
)
KINDS = [("ros1", "rec.bag"), ("sqlite3", "rec"), ("mcap", "rec")]


def single_file(bag: Path) -> Path:
    """Return the one storage file of a bag folder, or the bag itself."""
    return bag if bag.is_file() else next(f for f in bag.iterdir() if f.suffix in (".db3", ".mcap"))


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_frames_of_every_kind(kind: str, name: str, tmp_path: Path, rgbd_bag: Make) -> None:
    bag = rgbd_bag(tmp_path / name, kind)
    for path in {bag, single_file(bag)}:
        sequence = open_sequence(path)
        assert len(sequence) == 4
        frame = sequence[2]
        np.testing.assert_array_equal(frame.rgb, np.full((4, 6, 3), (2, 2, 1), np.uint8))
        np.testing.assert_array_equal(frame.depth_m, np.full((4, 6), 1.002, np.float32))
        assert frame.stamp_ns == NS + 200_000_000
        assert frame.frame_id == "cam"
        np.testing.assert_array_equal(frame.intrinsics, [[5, 0, 3], [0, 5, 2], [0, 0, 1]])
        with pytest.raises(IndexError):
            sequence[4]


@pytest.mark.parametrize(("kind", "name"), KINDS)
@pytest.mark.parametrize("order", [range(12), range(11, -1, -1), [0, 11, 3, 3, 4, 10, 1], range(0, 12, 3)])
def test_any_order_of_access_gives_the_same_frames(
    kind: str, name: str, order: list[int], tmp_path: Path, rgbd_bag: Make
) -> None:
    sequence = open_sequence(rgbd_bag(tmp_path / name, kind, 12))
    assert [int(sequence[i].rgb[0, 0, 0]) for i in order] == list(order)
    assert [round(float(sequence[i].depth_m[0, 0]) * 1000) for i in order] == [1000 + i for i in order]


def test_messages_with_one_record_time_are_told_apart(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.info("/camera_info", NS)
    for i in range(3):  # recorded in one burst, header stamps differ
        maker.image("/rgb", NS + i * 10_000_000, "rgb8", np.full((4, 6, 3), i, np.uint8), log_ns=NS)
        maker.image("/depth", NS + i * 10_000_000, "16UC1", np.full((4, 6), 1000 + i, np.uint16), log_ns=NS)
    sequence = BagSequence(maker.close())
    for i in (2, 0, 1):
        assert (int(sequence[i].rgb[0, 0, 0]), round(float(sequence[i].depth_m[0, 0]) * 1000)) == (i, 1000 + i)


def test_pairs_follow_header_stamps_and_slop(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.info("/camera_info", NS)
    maker.image("/rgb", NS, "rgb8", np.zeros((4, 6, 3), np.uint8), log_ns=NS + 900_000_000)
    maker.image("/depth", NS + 30_000_000, "32FC1", np.ones((4, 6), np.float32), log_ns=NS)
    bag = maker.close()
    assert len(open_sequence(bag, slop_s=0.03)) == 1
    with pytest.raises(DataError) as caught:
        open_sequence(bag)
    assert str(caught.value) == (
        f"{bag}: no image of /rgb (1) and /depth (1) within 0.02 s of each other; "
        "the nearest are 0.030 s apart, raise slop_s"
    )


def test_header_stamp_of_zero_means_record_time(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.info("/camera_info", NS)
    maker.image("/rgb", 0, "rgb8", np.zeros((4, 6, 3), np.uint8), log_ns=NS)
    maker.image("/depth", 0, "32FC1", np.ones((4, 6), np.float32), log_ns=NS)
    assert open_sequence(maker.close())[0].stamp_ns == NS


def test_padded_big_endian_and_compressed_images(tmp_path: Path, bag_maker: Maker) -> None:
    rgb = np.full((4, 6, 3), (9, 8, 7), np.uint8)
    depth = np.pad(np.full((4, 6), 1500, ">u2"), ((0, 0), (0, 2)))
    maker = bag_maker(tmp_path / "rec")
    maker.info("/camera_info", NS)
    maker.compressed("/rgb/compressed", NS, "rgb8; png compressed", cv2.imencode(".png", rgb[..., ::-1])[1].tobytes())
    maker.image("/depth", NS, "mono16", depth, width=6, is_bigendian=1)
    frame = open_sequence(maker.close())[0]
    np.testing.assert_array_equal(frame.rgb, rgb)
    np.testing.assert_array_equal(frame.depth_m, np.full((4, 6), 1.5, np.float32))


def test_compressed_depth(tmp_path: Path, bag_maker: Maker) -> None:
    png = cv2.imencode(".png", np.full((4, 6), 1500, np.uint16))[1].tobytes()
    maker = bag_maker(tmp_path / "rec")
    maker.info("/camera_info", NS)
    maker.image("/rgb", NS, "rgb8", np.zeros((4, 6, 3), np.uint8))
    maker.compressed("/depth/compressedDepth", NS, "16UC1; compressedDepth png", bytes(12) + png)
    assert open_sequence(maker.close())[0].depth_m[0, 0] == 1.5


def test_stated_depth_unit_is_used_for_16_bits_only(tmp_path: Path, rgbd_bag: Make) -> None:
    assert open_sequence(rgbd_bag(tmp_path / "rec"), depth_unit="1/10000 m")[0].depth_m[0, 0] == np.float32(0.1)


def test_recorder_states_its_depth_unit(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec.bag", "ros1")
    sensor = "/device_0/sensor_0"
    value = maker.store.types["std_msgs/msg/Float32"](data=1e-4)
    maker.add(f"{sensor}/option/Depth Units/value", "std_msgs/msg/Float32", NS, value)
    maker.image(f"{sensor}/Depth_0/image/data", NS, "mono16", np.full((4, 6), 15000, np.uint16))
    maker.image("/device_0/sensor_1/Color_0/image/data", NS, "rgb8", np.zeros((4, 6, 3), np.uint8))
    maker.info("/device_0/sensor_1/Color_0/info/camera_info", NS)
    sequence = open_sequence(maker.close())
    assert sequence.unit == "1/10000 m"  # type: ignore[attr-defined]
    assert sequence[0].depth_m[0, 0] == 1.5


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"encoding": "16UC3"}, EncodingError, "depth encoding '16UC3' is not supported; supported: 16UC1 and mono16"),
        ({"height": 40}, DataError, "image of 6x40 pixels needs 480 bytes, but 48 are there"),
        ({"height": 2}, DataError, "colour is 6x4 but depth is 6x2; both must be of one size and registered"),
        ({"data": np.zeros(48, np.uint8)}, DataError, "no pixel has a valid depth; leave this frame out"),
    ],
)
def test_bad_message_is_an_error_of_its_frame(
    changes: dict[str, Any], kind: type[Exception], text: str, tmp_path: Path, bag_maker: Maker
) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.info("/camera_info", NS)
    for i, change in enumerate(({}, changes, {})):
        ns = NS + i * 100_000_000
        maker.image("/rgb", ns, "rgb8", np.zeros((4, 6, 3), np.uint8))
        encoding = change.pop("encoding", "16UC1")
        maker.image("/depth", ns, encoding, np.ones((4, 6), np.uint16), **change)
    sequence = open_sequence(maker.close())
    assert sequence[0].depth_m.shape == sequence[2].depth_m.shape == (4, 6)
    with pytest.raises(kind) as caught:
        sequence[1]
    assert str(caught.value).startswith(f"{tmp_path / 'rec'}, frame 1 at {NS + 100_000_000} ns: ")
    assert text in str(caught.value)


def test_camera_info_of_another_size_or_uncalibrated_is_refused(tmp_path: Path, bag_maker: Maker) -> None:
    for name, info, text in (
        ("size", {"width": 640, "height": 480}, "colour is 6x4 but /camera_info is of 640x480; state intrinsics"),
        ("zero", {"focal": 0.0}, "/camera_info: intrinsics have no positive focal length; state them with intrinsics"),
    ):
        maker = bag_maker(tmp_path / name)
        maker.info("/camera_info", NS, **info)
        maker.image("/rgb", NS, "rgb8", np.zeros((4, 6, 3), np.uint8))
        maker.image("/depth", NS, "16UC1", np.ones((4, 6), np.uint16))
        bag = maker.close()
        with pytest.raises(DataError) as caught:
            open_sequence(bag)[0]
        assert text in str(caught.value)
        assert open_sequence(bag, intrinsics=[9, 9, 3, 2])[0].intrinsics[0, 0] == 9


@pytest.mark.parametrize(("kind", "name"), KINDS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.9, 0.999])
def test_cut_off_bag_is_one_clear_line(kind: str, name: str, share: float, tmp_path: Path, rgbd_bag: Make) -> None:
    file = single_file(rgbd_bag(tmp_path / name, kind, 40))
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    for path in {file, file if kind == "ros1" else file.parent}:
        with pytest.raises(DataError) as caught:
            sequence = open_sequence(path)
            _ = [sequence[i] for i in range(len(sequence))]
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
        assert "cannot be read as a bag: " in str(caught.value)
        assert "if the recording was cut off, try: " in str(caught.value)


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_flipped_bytes_never_crash(kind: str, name: str, tmp_path: Path, rgbd_bag: Make) -> None:
    file = single_file(rgbd_bag(tmp_path / name, kind, 3))
    data = file.read_bytes()
    random = np.random.default_rng(5)
    for _ in range(40):
        broken = bytearray(data)
        for place in random.integers(0, len(data), 20):
            broken[place] ^= int(random.integers(1, 256))
        file.write_bytes(broken)
        try:
            sequence = open_sequence(file)
            for i in range(len(sequence)):
                assert sequence[i].depth_m.shape == sequence[i].rgb.shape[:2]
        except DataError as err:
            assert "\n" not in str(err)


def test_missing_folder_metadata_and_files(tmp_path: Path, rgbd_bag: Make) -> None:
    with pytest.raises(DataError, match="nowhere.mcap does not exist"):
        open_sequence(tmp_path / "nowhere.mcap")
    bag = rgbd_bag(tmp_path / "rec")
    (bag / "metadata.yaml").rename(tmp_path / "kept.yaml")
    assert len(open_sequence(bag)) == 4  # one file: nothing is lost without metadata
    shutil.copy(bag / "rec.mcap", bag / "rec_1.mcap")
    with pytest.raises(DataError) as caught:
        open_sequence(bag)
    assert str(caught.value) == (
        f"{bag} has 2 bag files (rec.mcap, rec_1.mcap) but no metadata.yaml; "
        "name one of them, or restore it with: ros2 bag reindex"
    )
    (tmp_path / "kept.yaml").rename(bag / "metadata.yaml")
    for file in bag.glob("*.mcap"):
        file.unlink()
    with pytest.raises(DataError, match="cannot be read as a bag: Some database files are missing"):
        open_sequence(bag)


@pytest.mark.parametrize("text", ["", "a: [", "rosbag2_bagfile_information: {version: 5}", "- 1"])
def test_broken_metadata(text: str, tmp_path: Path, rgbd_bag: Make) -> None:
    bag = rgbd_bag(tmp_path / "rec")
    (bag / "metadata.yaml").write_text(text)
    with pytest.raises(DataError, match="cannot be read as a bag: ") as caught:
        open_sequence(bag)
    assert "\n" not in str(caught.value)


def test_file_that_is_no_bag(tmp_path: Path) -> None:
    for suffix in (".bag", ".db3", ".mcap"):
        path = tmp_path / f"x{suffix}"
        path.write_bytes(b"not a bag, only some words that are long enough to look at" * 3)
        with pytest.raises(DataError, match="cannot be read as a bag"):
            open_sequence(path)
    (tmp_path / "x.txt").write_text("a")
    with pytest.raises(DataError, match="is not a bag; expected .bag, .db3, .mcap or a rosbag2 folder"):
        BagFile(tmp_path / "x.txt")


def test_database_with_an_open_journal_is_refused(tmp_path: Path, rgbd_bag: Make) -> None:
    bag = rgbd_bag(tmp_path / "rec", "sqlite3")
    database = bag / "rec.db3"
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("INSERT INTO messages(topic_id, timestamp, data) VALUES (1, 1, x'00')")
    connection.commit()
    for path in (bag, database):
        with pytest.raises(DataError) as caught:
            open_sequence(path)
        assert f"{database}-wal holds messages that are not in the bag yet" in str(caught.value)
    connection.close()


@pytest.mark.parametrize("kind", ["sqlite3", "mcap"])
def test_bag_in_a_read_only_folder(kind: str, tmp_path: Path, rgbd_bag: Make) -> None:
    bag = rgbd_bag(tmp_path / "rec", kind)
    before = sorted(bag.iterdir())
    for file in before:
        file.chmod(0o444)
    bag.chmod(0o555)
    try:
        assert open_sequence(bag)[3].rgb[0, 0, 0] == 3
        assert sorted(bag.iterdir()) == before
    finally:
        bag.chmod(0o755)


def test_bag_is_not_held_in_memory(tmp_path: Path, bag_maker: Maker) -> None:
    import tracemalloc

    maker = bag_maker(tmp_path / "rec")
    maker.info("/camera_info", NS, width=320, height=240)
    for i in range(60):
        maker.image("/rgb", NS + i * 100_000_000, "rgb8", np.full((240, 320, 3), i, np.uint8))
        maker.image("/depth", NS + i * 100_000_000, "16UC1", np.ones((240, 320), np.uint16))
    bag = maker.close()
    size = sum(f.stat().st_size for f in bag.iterdir())
    tracemalloc.start()
    try:
        sequence = open_sequence(bag)
        for i in range(len(sequence)):
            _ = sequence[i]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 20_000_000
    assert peak < size / 2


def test_closed_pickled_and_forked_sequences_open_themselves_again(tmp_path: Path, rgbd_bag: Make) -> None:
    sequence = BagSequence(rgbd_bag(tmp_path / "rec", count=6), OpenOptions(name="own"))
    assert sequence[0].rgb[0, 0, 0] == 0
    sequence.close()
    assert sequence[1].rgb[0, 0, 0] == 1
    copy = pickle.loads(pickle.dumps(sequence))
    assert copy.name == "own" and copy[2].rgb[0, 0, 0] == 2
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put([int(sequence[i].rgb[0, 0, 0]) for i in (4, 5)]))
    child.start()
    assert queue.get(timeout=30) == [4, 5]
    child.join(30)
    assert child.exitcode == 0 and sequence._pid == os.getpid()
    assert sequence[2].rgb[0, 0, 0] == 2


def test_split_bag_with_overlapping_files(tmp_path: Path, bag_maker: Maker) -> None:
    parts = []
    for part, indexes in enumerate(((0, 2, 4), (1, 3, 5))):
        maker = bag_maker(tmp_path / f"part{part}")
        for i in indexes:
            ns = NS + i * 100_000_000
            maker.info("/camera_info", ns)
            maker.image("/rgb", ns, "rgb8", np.full((4, 6, 3), i, np.uint8))
            maker.image("/depth", ns, "16UC1", np.full((4, 6), 1000 + i, np.uint16))
        parts.append(maker.close())
    bag = parts[0]
    shutil.copy(parts[1] / "part1.mcap", bag)
    metadata = (bag / "metadata.yaml").read_text()
    (bag / "metadata.yaml").write_text(metadata.replace("  - part0.mcap\n", "  - part0.mcap\n  - part1.mcap\n"))
    sequence = open_sequence(bag)
    assert [int(f.rgb[0, 0, 0]) for f in (sequence[i] for i in range(6))] == list(range(6))
    assert [int(sequence[i].rgb[0, 0, 0]) for i in (5, 0, 3)] == [5, 0, 3]


def test_folder_whose_metadata_states_other_qos_than_its_file_loses_no_message(tmp_path: Path, rgbd_bag: Make) -> None:
    bag = rgbd_bag(tmp_path / "rec", "sqlite3")
    with sqlite3.connect(bag / "rec.db3") as connection:
        connection.execute("UPDATE topics SET offered_qos_profiles = ?", (PROFILE,))
    connection.close()
    with BagFile(bag) as opened:
        assert sum(1 for _ in opened.messages()) == opened.num_messages == 12
    assert open_sequence(bag)[3].rgb[0, 0, 0] == 3
