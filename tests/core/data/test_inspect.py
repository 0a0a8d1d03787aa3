from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fed_core.data import inspect
from fed_core.data.inspect import describe, size_text
from fed_core.errors import DataError

Make = Callable[..., Any]


def test_bag(tmp_path: Path, rgbd_bag: Make) -> None:
    bag = rgbd_bag(tmp_path / "rec")
    report = describe(bag)
    rows = dict(report.rows)
    assert report.title == f"{bag}: bag"
    assert (rows["messages"], rows["topics"], rows["frames"]) == ("12", "3", "4")
    assert rows["recorded"] == "0.3 s from 1970-01-01 00:00:50 UTC"
    assert rows["stamps"] == "0.3 s from 1970-01-01 00:00:50 UTC"
    assert (rows["resolution"], rows["depth range"]) == ("6x4", "1.00 .. 1.00 m")
    assert rows["valid depth"] == "100.0% of the pixels (100.0% at least)"
    assert rows["depth unit"] == "mm for 16 bit, m for float"
    assert rows["colour topic"] == "/cam/rgb/image"
    assert (rows["depth topic"], rows["camera topic"]) == ("/cam/depth/image", "/cam/rgb/camera_info")
    assert report.columns == ("topic", "type", "count", "rate", "size")
    table = {row[0]: row[1:] for row in report.table}
    assert table["/cam/rgb/image"][:3] == ("sensor_msgs/msg/Image", "4", "10.0 Hz")
    assert report.notes == ()


def test_bag_without_frames_is_described_with_the_reason(tmp_path: Path, bag_maker: Make) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.string("/chatter", 7_000_000_000, "hello")
    report = describe(maker.close())
    assert dict(report.rows)["messages"] == "1"
    assert [row[:4] for row in report.table] == [("/chatter", "std_msgs/msg/String", "1", "")]
    assert report.notes == (
        f"no RGB-D frames: {tmp_path / 'rec'} has no depth image topic; topics there: /chatter (std_msgs/msg/String)",
    )


def test_rates_and_sizes_of_a_huge_bag_are_of_its_beginning(
    tmp_path: Path, rgbd_bag: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    bag = rgbd_bag(tmp_path / "rec")
    monkeypatch.setattr(inspect, "_SAMPLED_BYTES", 100)
    report = describe(bag)
    assert any(note.startswith("rates and sizes are of the first ") for note in report.notes)
    assert sum(int(row[2]) for row in report.table) == 12


def test_folder_with_one_bad_frame(tmp_path: Path, write_pair: Make) -> None:
    for i in range(2):
        write_pair(tmp_path / f"frame-{i:06}.color.png", tmp_path / f"frame-{i:06}.depth.png", [[0, 1500 + i]])
    bad = tmp_path / "frame-000002.depth.png"
    write_pair(tmp_path / "frame-000002.color.png", bad, [[0, 0]])
    report = describe(tmp_path)
    rows = dict(report.rows)
    assert report.title == f"{tmp_path}: seven_scenes folder"
    assert (rows["layout"], rows["frames"], rows["depth unit"]) == ("seven_scenes", "3", "mm")
    assert (rows["depth range"], rows["resolution"]) == ("1.50 .. 1.50 m", "2x1")
    assert rows["valid depth"] == "50.0% of the pixels (50.0% at least)"
    assert rows["stamps"] == "0.1 s from 2001-09-09 01:46:40 UTC"
    assert [row[:2] for row in report.table] == [("*.png", "6")]
    assert report.notes == (f"{bad}: no pixel has a valid depth; leave this frame out",)


def test_long_folder_is_sampled(tmp_path: Path, write_pair: Make) -> None:
    for i in range(30):
        write_pair(tmp_path / f"frame-{i:06}.color.png", tmp_path / f"frame-{i:06}.depth.png", [[1000 * (i + 1)]])
    report = describe(tmp_path)
    assert dict(report.rows)["depth range"] == "1.00 .. 30.00 m"  # first and last are among the sampled
    assert report.notes == ("depth range and valid depth are of 20 frames, evenly spread",)


def test_folder_whose_frames_are_all_bad_has_no_ranges(tmp_path: Path, write_pair: Make) -> None:
    write_pair(tmp_path / "frame-000000.color.png", tmp_path / "frame-000000.depth.png", [[1]])
    cv2.imwrite(str(tmp_path / "frame-000000.depth.png"), np.zeros((1, 1), np.uint16))
    report = describe(tmp_path)
    assert "depth range" not in dict(report.rows) and len(report.notes) == 1


def test_what_cannot_be_described_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.bag").write_bytes(b"#ROSBAG V2.0\nrubbish")
    for path in (tmp_path / "x.bag", tmp_path / "nowhere", Path(__file__)):
        with pytest.raises(DataError) as caught:
            describe(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_size_for_people() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 1_434_000, 2_500_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.4 MB",
        "2.5 GB",
    ]
