"""``fedperc picture``: a picture of each output in a bag, in the right place, or one clear line."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_cli.recorded import drawn
from fed_cli.recorded.boxes import boxes_of, points_of
from fed_cli.recorded.frames import StaticFrames
from fed_cli.recorded.outputs import Output, cameras_below, find_outputs, gather
from fed_core.data.bag_files import BagFile
from fed_core.errors import DataError
from tests.cli.recorded import bags

load_verbs()
RED = np.full((12, 16, 3), (200, 30, 30), np.uint8)
#: The camera looks ahead, 1.5 m above the ground; the LiDAR's y axis is ahead.
MOUNTS = {
    "optical": ((0.0, 0.0, 1.5), (-0.5, 0.5, -0.5, 0.5)),
    "lidar": ((0.0, 0.0, 1.5), (0.0, 0.0, -(0.5**0.5), 0.5**0.5)),
}


def depth_messages(count: int = 5) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [("/spot1/camera/camera_info", bags.info(16, 12))]
    for number in range(count):
        depth = np.full((12, 16), 1.0 + number, "<f4")
        found += [
            ("/spot1/camera/image_raw", bags.image(RED, "rgb8", number)),
            ("/spot1/depth/image", bags.image(depth, "32FC1", number)),
        ]
    return found


def box_messages() -> list[tuple[str, Any]]:
    ahead = bags.box((0.0, 10.0, 0.0), (4.0, 2.0, 1.5), 0, "lidar")
    faint = bags.box((5.0, 10.0, 0.0), (4.0, 2.0, 1.5), 0, "lidar", score=0.1)
    points = np.array([[0.0, 8.0, -1.0], [3.0, 9.0, 0.0], [np.nan, 0.0, 0.0]])
    return [
        ("/tf_static", bags.transforms(MOUNTS)),
        ("/car/CAM_FRONT/camera_info", bags.info(16, 12)),
        ("/car/CAM_FRONT/image_raw", bags.image(RED, "rgb8", 0)),
        ("/car/LIDAR_TOP/points", bags.cloud(points, 0, "lidar")),
        ("/car/detections/markers", bags.markers([ahead, faint], 0, "lidar")),
    ]


def map_messages() -> list[tuple[str, Any]]:
    values = np.full((8, 8), 10, np.int8)
    values[2, 7] = 90  # x = 7 is ahead, y = 2 on the right
    values[7, 0] = -1
    truth = np.where(values > 50, 100, 0)
    return [
        *((f"/car/{name}/image_raw", bags.image(RED, "rgb8", 0)) for name in ("front", "left", "right", "back")),
        ("/car/occupancy", bags.grid(values, 0)),
        ("/car/truth/occupancy", bags.grid(truth, 0)),
    ]


def test_every_output_gets_its_picture(tmp_path: Path) -> None:
    path = bags.write(tmp_path / "bag", [*depth_messages(), *box_messages(), *map_messages()])
    result = CliRunner().invoke(app, ["picture", str(path), "--out", str(tmp_path / "shown")])
    assert result.exit_code == 0, result.output
    files = [Path(line) for line in result.output.split()]
    assert [file.name for file in files] == ["car_boxes.png", "car_map.png", "spot1_depth.png"]
    for file in files:
        assert cv2.imread(str(file)).shape[0] > 100


def test_frames_are_chosen_evenly_with_what_belongs_to_them(tmp_path: Path) -> None:
    path = bags.write(tmp_path / "bag", depth_messages(5))
    with BagFile(path) as bag:
        (output,) = find_outputs(bag)
        assert output == Output("depth", "/spot1/depth/image", "/spot1")
        assert cameras_below(bag, "/spot1") == {"camera": "/spot1/camera/image_raw"}
        frames = gather(bag, output, ["/spot1/camera/image_raw"], 3)
    depths = [float(drawn._metres(frame["/spot1/depth/image"])[0, 0]) for frame in frames]
    assert depths == [1.0, 3.0, 5.0]
    for frame in frames:
        assert frame["/spot1/camera/image_raw"].header.stamp == frame["/spot1/depth/image"].header.stamp


def test_boxes_stand_where_the_camera_and_the_view_from_above_have_them(tmp_path: Path) -> None:
    path = bags.write(tmp_path / "bag", box_messages())
    with BagFile(path) as bag:
        placed = StaticFrames(bag)
        boxes = boxes_of(bag.first("/car/detections/markers"), 0.2)
        points = points_of(bag.first("/car/LIDAR_TOP/points"))
        to_pixel = drawn._to_pixel(bag.first("/car/CAM_FRONT/camera_info"), placed, "lidar")
    assert boxes.frame_id == "lidar" and len(boxes.rows) == 1 and boxes.rows[0, -1] == pytest.approx(0.9, abs=1e-6)
    np.testing.assert_allclose(points, [[0.0, 8.0, -1.0], [3.0, 9.0, 0.0]])
    assert to_pixel is not None
    u, v, d = to_pixel @ [2.0, 10.0, 0.0, 1.0]
    assert (u / d, v / d, d) == pytest.approx((7.5 + 60 * 0.2, 5.5, 10.0))
    # The LiDAR's y axis is ahead already: the view from above is its own, raised.
    np.testing.assert_allclose(drawn._view_from_above(placed, "lidar")[:2, :2], np.eye(2), atol=1e-9)


def test_a_map_is_drawn_with_forward_up_and_left_left(tmp_path: Path) -> None:
    path = bags.write(tmp_path / "bag", map_messages())
    with BagFile(path) as bag:
        patch = drawn._patch(bag.first("/car/occupancy"))
    cells = patch.cells
    assert cells[0, 5] == np.float32(0.9)  # in front, right of the middle
    assert np.isnan(cells[7, 0])  # behind, on the left
    assert patch.extent == (-2.0, 2.0, -2.0, 2.0)


def test_boxes_without_static_frames_are_still_drawn_from_above(tmp_path: Path) -> None:
    path = bags.write(tmp_path / "bag", box_messages()[1:])
    with BagFile(path) as bag:
        assert StaticFrames(bag).between("lidar", "optical") is None
    assert drawn.draw_bag(path, drawn.Wanted(tmp_path / "shown"))[0].exists()


def test_a_bag_without_outputs_tells_what_it_has(tmp_path: Path) -> None:
    path = bags.write(tmp_path / "bag", [m for m in depth_messages() if m[0] != "/spot1/depth/image"])
    result = CliRunner().invoke(app, ["picture", str(path)])
    assert result.exit_code == 2
    text = "has nothing that inference published (depth/image, detections/markers, occupancy); it has "
    assert f"error: {path} {text}/spot1/camera/camera_info (sensor_msgs/msg/CameraInfo), " in result.output
    assert result.output.endswith("; to look at a recording: fedperc inspect\n")


def test_markers_without_boxes_are_one_line(tmp_path: Path) -> None:
    path = bags.write(tmp_path / "bag", [("/car/detections/markers", bags.markers([], 0, "lidar"))])
    with pytest.raises(DataError, match=r"no message of /car/detections/markers has anything in it"):
        drawn.draw_bag(path, drawn.Wanted(tmp_path / "shown"))


def test_a_cloud_without_xyz_is_one_line() -> None:
    broken = bags.cloud(np.zeros((1, 3)), 0, "lidar")
    broken.fields = broken.fields[:2]
    with pytest.raises(DataError, match="a cloud has no x, y and z; its fields: x, y"):
        points_of(broken)


def test_a_grid_that_is_cut_off_is_one_line() -> None:
    broken = bags.grid(np.zeros((4, 4), np.int8), 0)
    broken.data = broken.data[:9]
    with pytest.raises(DataError, match="an occupancy grid of 4x4 cells has 9 values"):
        drawn._patch(broken)
