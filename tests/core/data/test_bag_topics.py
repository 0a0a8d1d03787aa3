"""Which topics are taken, and what is said when none or several fit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.data.bag_files import BagFile
from fed_core.data.bag_topics import choose_topics
from fed_core.data.options import OpenOptions, TopicNames
from fed_core.errors import DataError, EncodingError

Maker = Callable[..., Any]
RGB = np.zeros((4, 6, 3), np.uint8)
GREY = np.zeros((4, 6), np.uint8)
DEPTH = np.ones((4, 6), np.uint16)


def choose(path: Path, **options: Any) -> TopicNames:
    with BagFile(path) as bag:
        return choose_topics(bag, OpenOptions(**options))


@pytest.fixture
def realsense(tmp_path: Path, bag_maker: Maker) -> Path:
    """A bag with the topics of a usual RGB-D driver."""
    maker = bag_maker(tmp_path / "rec")
    for name, encoding, pixels in (
        ("color/image_raw", "rgb8", RGB),
        ("depth/image_rect_raw", "16UC1", DEPTH),
        ("aligned_depth_to_color/image_raw", "16UC1", DEPTH),
        ("infra1/image_rect_raw", "mono8", GREY),
    ):
        maker.image(f"/camera/{name}", 1, encoding, pixels)
        maker.info(f"/camera/{name.split('/')[0]}/camera_info", 1)
    maker.compressed("/camera/color/image_raw/compressed", 1, "rgb8; jpeg compressed bgr8", b"x")
    return maker.close()


def test_driver_topics_are_found(realsense: Path) -> None:
    assert choose(realsense) == TopicNames(
        "/camera/color/image_raw", "/camera/aligned_depth_to_color/image_raw", "/camera/color/camera_info"
    )


def test_named_topics_win(realsense: Path) -> None:
    named = TopicNames(colour="/camera/color/image_raw/compressed", depth="/camera/depth/image_rect_raw")
    found = choose(realsense, topics=named)
    assert (found.colour, found.depth, found.info) == (named.colour, named.depth, "/camera/color/camera_info")


def test_stated_intrinsics_need_no_camera_info(realsense: Path) -> None:
    assert choose(realsense, intrinsics=(1.0, 1.0, 0.0, 0.0)).info == ""


def test_absent_topic_names_what_is_there(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.string("/chatter", 1, "hello")
    maker.image("/rgb", 1, "rgb8", RGB)
    bag = maker.close()
    there = "/chatter (std_msgs/msg/String), /rgb (sensor_msgs/msg/Image)"
    for options, text in (
        ({}, f"{bag} has no depth image topic; topics there: {there}"),
        ({"topics": TopicNames(depth="/d")}, f"{bag} has no topic /d; topics there: {there}"),
        (
            {"topics": TopicNames(depth="/chatter")},
            f"{bag}: topic /chatter is std_msgs/msg/String; "
            "expected sensor_msgs/msg/Image or sensor_msgs/msg/CompressedImage",
        ),
        (
            {"topics": TopicNames(info="/rgb")},
            f"{bag}: topic /rgb is sensor_msgs/msg/Image; expected sensor_msgs/msg/CameraInfo",
        ),
    ):
        with pytest.raises(DataError) as caught:
            choose(bag, **options)
        assert str(caught.value) == text


def test_long_topic_list_is_shortened(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    for i in range(15):
        maker.string(f"/t{i:02}", 1, "x")
    with pytest.raises(DataError, match=r"/t11 \(std_msgs/msg/String\) and 3 more$"):
        choose(maker.close())


def test_unsupported_encoding_is_named_with_what_works(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.image("/depth", 1, "16UC1", DEPTH)
    maker.image("/rgb", 1, "nv21", GREY)
    bag = maker.close()
    with pytest.raises(EncodingError) as caught:
        choose(bag)
    assert str(caught.value) == (
        f"{bag}: /rgb has encoding 'nv21', which is not supported; "
        "supported for colour: rgb8, bgr8, rgba8, bgra8, mono8, bayer_* (8 or 16 bits each), yuv422, yuv422_yuy2"
    )


def test_two_cameras_that_fit_equally_well_must_be_named(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    for side in ("left", "right"):
        maker.image(f"/zed/{side}/image", 1, "rgb8", RGB)
        maker.info(f"/zed/{side}/camera_info", 1)
    maker.image("/zed/depth/depth_registered", 1, "16UC1", DEPTH)
    bag = maker.close()
    with pytest.raises(DataError) as caught:
        choose(bag)
    assert str(caught.value) == (
        f"{bag} has several colour topics: /zed/left/image, /zed/right/image; name one with topics: colour"
    )
    assert choose(bag, topics=TopicNames(colour="/zed/right/image")).info == "/zed/right/camera_info"


def test_two_robots_in_one_bag_each_keep_their_own_camera(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    for robot in ("spot1", "spot2"):
        maker.image(f"/{robot}/rgb/image", 1, "rgb8", RGB)
        maker.image(f"/{robot}/depth/image", 1, "16UC1", DEPTH)
        maker.info(f"/{robot}/rgb/camera_info", 1)
    bag = maker.close()
    with pytest.raises(DataError, match="several depth topics: /spot1/depth/image, /spot2/depth/image; name one"):
        choose(bag)
    found = choose(bag, topics=TopicNames(depth="/spot2/depth/image"))
    assert (found.colour, found.info) == ("/spot2/rgb/image", "/spot2/rgb/camera_info")


def test_camera_info_of_the_depth_camera_is_never_taken_for_colour(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.image("/cam/rgb/image", 1, "rgb8", RGB)
    maker.image("/cam/depth/image", 1, "16UC1", DEPTH)
    maker.info("/cam/depth/camera_info", 1)
    bag = maker.close()
    with pytest.raises(DataError) as caught:
        choose(bag)
    assert str(caught.value) == f"{bag} has no CameraInfo for /cam/rgb/image; state intrinsics: fx fy cx cy"


def test_grey_camera_is_taken_only_where_there_is_no_colour(tmp_path: Path, bag_maker: Maker) -> None:
    maker = bag_maker(tmp_path / "rec")
    maker.image("/mono", 1, "mono8", GREY)
    maker.image("/depth", 1, "32FC1", DEPTH.astype(np.float32))
    maker.info("/camera_info", 1)
    assert choose(maker.close()).colour == "/mono"
