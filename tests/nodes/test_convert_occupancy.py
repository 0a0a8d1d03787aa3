"""A map of vehicles as an occupancy grid: a known cuboid lands in the known cell, in REP 103's axes."""

import math

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from nav_msgs.msg import OccupancyGrid
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Header

from fed_core.data.opv2v.cameras import cell_centres
from fed_core.data.opv2v.masks import pooled
from fed_core.errors import DataError
from fed_nodes.convert.occupancy import occupancy_to_msg

HEADER = Header(frame_id="base_link", stamp=Time(sec=3, nanosec=4))


def cuboid(forward_m: float, left_m: float, length_m: float = 4.8, width_m: float = 2.0) -> np.ndarray:
    """Return the mask (256, 256) of a car that stands along the way."""
    place = cell_centres(256)
    ahead, right = place[..., 0], place[..., 1]
    return (abs(ahead - forward_m) <= length_m / 2) & (abs(right + left_m) <= width_m / 2)


def value_at(grid: OccupancyGrid, x: float, y: float) -> int:
    """Return the value of the cell that a point of the grid's frame lies in, as a planner reads it."""
    info = grid.info
    column = math.floor((x - info.origin.position.x) / info.resolution)
    row = math.floor((y - info.origin.position.y) / info.resolution)
    assert 0 <= column < info.width and 0 <= row < info.height
    return int(grid.data[row * info.width + column])


def centre_of(grid: OccupancyGrid) -> tuple[float, float]:
    """Return the mean place (x, y) of the occupied cells."""
    rows, columns = np.nonzero(np.array(grid.data).reshape(grid.info.height, grid.info.width) > 50)
    x = grid.info.origin.position.x + (columns.mean() + 0.5) * grid.info.resolution
    y = grid.info.origin.position.y + (rows.mean() + 0.5) * grid.info.resolution
    return float(x), float(y)


@pytest.mark.parametrize(("forward_m", "left_m"), [(20.0, 10.0), (20.0, -10.0), (-30.0, 5.0), (0.0, 0.0), (3.0, -45.0)])
def test_a_known_cuboid_lands_in_the_known_cell(forward_m: float, left_m: float) -> None:
    grid = occupancy_to_msg(cuboid(forward_m, left_m).astype(np.float32), 100.0, HEADER)

    assert value_at(grid, forward_m, left_m) == 100
    assert value_at(grid, forward_m + 2.0, left_m + 0.6) == 100  # a corner of it
    assert value_at(grid, forward_m - 2.8, left_m) == value_at(grid, forward_m, left_m - 1.4) == 0
    assert value_at(grid, -forward_m - 6.0, left_m) == value_at(grid, forward_m, -left_m - 3.0) == 0
    # the cells' centres within the cuboid, so half a cell at most
    assert centre_of(grid) == pytest.approx((forward_m, left_m), abs=0.2)


@pytest.mark.parametrize("cells", [128, 32])
def test_a_coarse_map_is_as_right(cells: int) -> None:
    mask = pooled(cuboid(20.0, 10.0, length_m=16.0, width_m=12.0), cells)

    grid = occupancy_to_msg(mask.astype(np.float32), 100.0, HEADER)

    assert grid.info.resolution == pytest.approx(100.0 / cells)
    assert value_at(grid, 20.0, 10.0) == 100 and value_at(grid, 20.0, -10.0) == 0
    assert centre_of(grid) == pytest.approx((20.0, 10.0), abs=grid.info.resolution / 2)


def test_values_are_per_cent_and_unknown_cells_minus_one() -> None:
    probability = np.array([[0.0, 0.256], [1.0, np.nan]], np.float32)
    known = np.array([[False, True], [True, True]])

    grid = occupancy_to_msg(probability, 10.0, HEADER, known)

    # first cell: behind on the right; then forward; then the left column
    assert list(grid.data) == [-1, 26, 100, -1]
    assert list(occupancy_to_msg(probability, 10.0, HEADER).data) == [-1, 26, 100, 0]


def test_the_message_travels() -> None:
    grid = occupancy_to_msg(np.zeros((4, 4), np.float32), 100.0, HEADER)

    read = deserialize_message(serialize_message(grid), OccupancyGrid)

    assert read == grid
    assert (read.header.frame_id, read.header.stamp, read.info.map_load_time) == (
        "base_link",
        HEADER.stamp,
        HEADER.stamp,
    )
    assert (read.info.width, read.info.height, len(read.data)) == (4, 4, 16)
    assert read.info.origin.orientation.w == 1.0
    # 256 cells of 0.39 m: the outer border of the first one is half a cell short of 50 m.
    assert read.info.origin.position.x == read.info.origin.position.y == pytest.approx(-50.0 + 50.0 / 256)


def test_maps_that_are_not_square_are_refused() -> None:
    with pytest.raises(DataError, match=r"a map has shape \(2, 3\); expected"):
        occupancy_to_msg(np.zeros((2, 3), np.float32), 100.0, HEADER)
    with pytest.raises(DataError, match=r"shape \(2, 2\) with known cells \(3, 3\)"):
        occupancy_to_msg(np.zeros((2, 2), np.float32), 100.0, HEADER, np.ones((3, 3), bool))
