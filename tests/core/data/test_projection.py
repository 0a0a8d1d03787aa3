"""Points of a LiDAR in an image: pixels and depths by hand, and a real frame against a few lines of its own."""

from pathlib import Path

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.projection import depth_of_points

#: 6x4 pixels, focal length 2, principal point (2.5, 1.5).
K = np.array([[2.0, 0.0, 2.5], [0.0, 2.0, 1.5], [0.0, 0.0, 1.0]])
SIZE = (4, 6)
LIMITS = (0.5, 50.0)


def depth(*points: tuple[float, float, float], to_camera: np.ndarray | None = None) -> np.ndarray:
    cloud = np.array(points, np.float32).reshape(-1, 3)
    return depth_of_points(cloud, np.eye(4) if to_camera is None else to_camera, K, SIZE, LIMITS)


def known(image: np.ndarray) -> dict[tuple[int, int], float]:
    """Return depth by (column, row)."""
    return {(int(x), int(y)): float(image[y, x]) for y, x in np.argwhere(np.isfinite(image))}


def test_a_point_falls_on_the_pixel_whose_square_it_is_in() -> None:
    # u = 2 x / z + 2.5, v = 2 y / z + 1.5.
    assert known(depth((1.0, -1.0, 4.0))) == {(3, 1): 4.0}  # 3.0, 1.0
    assert known(depth((0.45, 0.0, 2.0))) == {(3, 2): 2.0}  # 2.95, 1.5 rounds to the even row 2
    assert known(depth((-2.9, -1.9, 2.0))) == {(0, 0): 2.0}  # -0.4, -0.4: still in the first pixel
    assert known(depth((-3.1, 0.1, 2.0))) == {}  # -0.6
    assert known(depth((2.9, 1.9, 2.0))) == {(5, 3): 2.0}  # 5.4, 3.4
    assert known(depth((3.1, 0.1, 2.0))) == {}  # 5.6


def test_the_nearest_point_of_a_pixel_counts() -> None:
    assert known(depth((0.0, 0.2, 9.0), (0.0, 0.2, 3.0), (0.0, 0.2, 5.0))) == {(2, 2): 3.0}


def test_points_behind_beside_and_out_of_range_are_left_out() -> None:
    assert known(depth((0.0, 0.2, -3.0), (0.0, 0.2, 0.0), (0.0, 0.2, 0.4), (0.0, 0.2, 50.5), (90.0, 0.0, 3.0))) == {}
    assert known(depth((0.0, 0.1, 0.5))) == {(2, 2): 0.5}
    assert known(depth((0.0, 9.0, 50.0))) == {(2, 2): 50.0}  # both ends count


def test_a_lidar_of_another_place_is_moved_first() -> None:
    """x ahead, y left, z up, half a metre above the camera."""
    to_camera = np.array([[0.0, -1, 0, 0], [0, 0, -1, -0.5], [1, 0, 0, 0], [0, 0, 0, 1]])
    # Camera (-1, 0.5, 4): u = 2.0, v = 1.75.
    assert known(depth((4.0, 1.0, -1.0), to_camera=to_camera)) == {(2, 2): 4.0}


def test_nothing_and_what_is_no_place_give_an_empty_image() -> None:
    for image in (depth(), depth((np.nan, 0.0, 1.0), (np.inf, 0.0, 1.0), (3e38, 3e38, 1.0))):
        assert image.shape == SIZE and image.dtype == np.float32 and np.isnan(image).all()


coordinates = st.integers(-60, 60).map(lambda value: value / 8)


@given(st.lists(st.tuples(coordinates, coordinates, coordinates), min_size=1, max_size=30), st.randoms())
def test_each_pixel_has_the_nearest_of_its_points_in_any_order(
    points: list[tuple[float, float, float]], random: "st.Random"
) -> None:
    image = depth(*points)
    expected = np.full(SIZE, np.nan)
    for x, y, z in points:
        if not LIMITS[0] <= z <= LIMITS[1]:
            continue
        column, row = round(2.0 * x / z + 2.5), round(2.0 * y / z + 1.5)
        if 0 <= column < 6 and 0 <= row < 4:
            expected[row, column] = np.nanmin([expected[row, column], z])
    np.testing.assert_allclose(image, expected, rtol=1e-6)
    random.shuffle(points)
    np.testing.assert_array_equal(depth(*points), image)


def test_a_real_scan_of_kitti_lies_where_its_image_says(shared_data: Path) -> None:
    folder = shared_data / "kitti_object"
    matrices = {}
    for line in (folder / "calib" / "000001.txt").read_text().splitlines():
        name, _, values = line.partition(":")
        matrices[name] = np.array([float(value) for value in values.split()])
    points = np.fromfile(folder / "velodyne" / "000001.bin", np.float32).reshape(-1, 4)
    height, width = cv2.imread(str(folder / "image_2" / "000001.png")).shape[:2]
    rectify, place, projection = np.eye(4), np.eye(4), matrices["P2"].reshape(3, 4)
    rectify[:3, :3], place[:3] = matrices["R0_rect"].reshape(3, 3), matrices["Tr_velo_to_cam"].reshape(3, 4)
    # P2 is K [I | t]: the colour camera lies beside the one that R0_rect speaks of.
    shift = np.eye(4)
    shift[:3, 3] = np.linalg.inv(projection[:, :3]) @ projection[:, 3]

    image = depth_of_points(points[:, :3], shift @ rectify @ place, projection[:, :3], (height, width), (0.5, 100.0))

    # The same in the way of the data set's manual: P2 R0_rect Tr_velo_to_cam x, the nearest written last.
    ahead = np.hstack([points[points[:, 0] > 0, :3], np.ones((int((points[:, 0] > 0).sum()), 1))])
    u, v, z = projection @ rectify @ place @ ahead.T
    columns, rows = np.rint(u / z).astype(int), np.rint(v / z).astype(int)
    shown = (z >= 0.5) & (z <= 100.0) & (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    last = np.argsort(-z[shown])
    expected = np.full((height, width), np.nan)
    expected[rows[shown][last], columns[shown][last]] = z[shown][last]
    # The third row of P2 moves z by 2.7 mm.
    np.testing.assert_allclose(image, expected, atol=0.01)
    # 64 lines: four to five per cent of the pixels, in the lower two thirds.
    assert 0.03 < np.isfinite(image).mean() < 0.06
    assert np.isnan(image[:100]).all() and np.isfinite(image[200:]).any(axis=1).all()
