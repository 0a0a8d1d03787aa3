"""Pictures without depth: of a bag's topic or of a folder of images."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from fed_core.data.inspect import describe
from fed_core.data.open import open_sequence, open_source
from fed_core.errors import DataError

STORE = get_typestore(Stores.ROS2_KILTED)
IMAGE, COMPRESSED, INFO = (f"sensor_msgs/msg/{name}" for name in ("Image", "CompressedImage", "CameraInfo"))


def header(stamp_ns: int) -> Any:
    sec, nanosec = divmod(stamp_ns, 1_000_000_000)
    stamp = STORE.types["builtin_interfaces/msg/Time"](sec=sec, nanosec=nanosec)
    return STORE.types["std_msgs/msg/Header"](stamp=stamp, frame_id="eye")


def picture(level: int) -> np.ndarray[Any, Any]:
    return np.full((4, 6, 3), (level, 0, 255 - level), np.uint8)


def raw_message(number: int) -> Any:
    rgb = picture(number)
    return STORE.types[IMAGE](header(5 * 10**9 + number), 4, 6, "rgb8", 0, 18, rgb.reshape(-1))


def jpeg_message(number: int) -> Any:
    data = cv2.imencode(".png", picture(number)[..., ::-1])[1].reshape(-1)
    return STORE.types[COMPRESSED](header(5 * 10**9 + number), "png", data)


def write(path: Path, *topics: str, info: bool = False) -> Path:
    """Write three images to each topic; those whose name ends in "compressed" are PNGs."""
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        for topic in topics:
            kind = COMPRESSED if topic.endswith("compressed") else IMAGE
            connection = bag.add_connection(topic, kind, typestore=STORE)
            for number in range(3):
                msg = (jpeg_message if kind == COMPRESSED else raw_message)(10 * number)
                bag.write(connection, 7 * 10**9 + number, STORE.serialize_cdr(msg, kind))
        if info:
            connection = bag.add_connection("/eye/camera_info", INFO, typestore=STORE)
            k = np.array([50.0, 0, 2.5, 0, 51.0, 1.5, 0, 0, 1])
            roi = STORE.types["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False)
            fields = (header(5 * 10**9), 4, 6, "plumb_bob", np.zeros(5), k, np.eye(3).reshape(9), np.zeros(12))
            bag.write(connection, 7 * 10**9, STORE.serialize_cdr(STORE.types[INFO](*fields, 0, 0, roi), INFO))
    return path


@pytest.mark.parametrize("topic", ["/eye/image_raw", "/eye/image_raw/compressed"])
def test_the_images_of_a_bag_without_depth_in_its_order(tmp_path: Path, topic: str) -> None:
    frames = open_sequence(write(tmp_path / "walk", topic, info=True), reader="colour")
    assert (len(frames), frames.name) == (3, "walk")
    np.testing.assert_array_equal(frames[2].rgb, picture(20))
    np.testing.assert_array_equal(frames[0].rgb, picture(0))
    assert (frames[1].stamp_ns, frames[1].frame_id) == (5 * 10**9 + 10, "eye")
    assert np.isnan(frames[1].depth_m).all() and frames[1].depth_m.shape == (4, 6)
    np.testing.assert_array_equal(frames[1].intrinsics, [[50, 0, 2.5], [0, 51, 1.5], [0, 0, 1]])


def test_a_camera_that_nobody_calibrated_is_zeros_as_in_ros(tmp_path: Path) -> None:
    bag = write(tmp_path / "walk", "/eye/image_raw")
    assert not open_sequence(bag, reader="colour")[0].intrinsics.any()
    stated = open_sequence(bag, reader="colour", intrinsics=(9.0, 8.0, 3.0, 2.0))[0].intrinsics
    np.testing.assert_array_equal(stated, [[9, 0, 3], [0, 8, 2], [0, 0, 1]])


def test_of_several_cameras_one_is_named(tmp_path: Path) -> None:
    bag = write(tmp_path / "walk", "/left/image_raw", "/right/image_raw")
    with pytest.raises(DataError, match="several colour topics: /left/image_raw, /right/image_raw; name one"):
        open_sequence(bag, reader="colour")
    source = {"data": "walk", "reader": "colour", "topics": {"colour": "/right/image_raw"}, "step": 2}
    assert len(open_source(source, tmp_path)) == 2


def test_inspect_tells_what_such_a_bag_is_good_for(tmp_path: Path) -> None:
    report = describe(write(tmp_path / "walk", "/eye/image_raw"))
    assert report.notes[0].startswith(f"no RGB-D frames: {tmp_path}/walk has no depth image topic")
    assert report.notes[1:] == ("3 colour images: fedperc play shows them to a trained network",)
    assert len(describe(write(tmp_path / "two", "/left/image_raw", "/right/image_raw")).notes) == 1


def test_images_of_a_folder_by_name(tmp_path: Path) -> None:
    for number in (2, 10, 1):
        cv2.imwrite(str(tmp_path / f"{number:04d}.png"), picture(number)[..., ::-1])
    frames = open_sequence(tmp_path, reader="colour", rate_hz=10.0, epoch_ns=0)
    assert [int(frames[k].rgb[0, 0, 0]) for k in range(3)] == [1, 2, 10]
    assert [frames[k].stamp_ns for k in range(3)] == [0, 10**8, 2 * 10**8]


def test_a_folder_of_other_things_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(DataError, match=r"is no bag and no folder of images \(\.png, \.jpg"):
        open_sequence(tmp_path, reader="colour")
