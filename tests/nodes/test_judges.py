"""Live outputs held against the truth, figures by hand."""

import numpy as np
import pytest
from std_msgs.msg import Header

from fed_core.errors import DataError
from fed_core.types import BevFrame
from fed_nodes.convert.occupancy import occupancy_from_msg, occupancy_to_msg
from fed_nodes.judges import judge_of
from fed_nodes.playing.rig_publisher import true_map

EXTENT_M = 100.0


def frame(vehicles: list[tuple[int, int]], *, unknown: list[tuple[int, int]] = [], cells: int = 8) -> BevFrame:  # noqa: B006
    mask, known = np.zeros((cells, cells), bool), np.ones((cells, cells), bool)
    for place in vehicles:
        mask[place] = True
    for place in unknown:
        known[place] = False
    return BevFrame(
        cameras=(0,),
        images=(np.zeros((4, 6, 3), np.uint8),),
        intrinsics=np.array([[[3.0, 0, 3], [0, 3, 2], [0, 0, 1]]]),
        extrinsics=np.eye(4)[None],
        mask=mask,
        known=known,
        metres_per_cell=EXTENT_M / cells,
        stamp_ns=5_000_000_007,
        vehicle="1",
    )


def grid(said: dict[tuple[int, int], float], cells: int = 4) -> object:
    probability = np.zeros((cells, cells), np.float32)
    for place, value in said.items():
        probability[place] = value
    return occupancy_to_msg(probability, EXTENT_M, Header(frame_id="base_link"))


def test_a_grid_read_back_is_the_map_that_was_written() -> None:
    probability = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)
    probability[2, 1] = np.nan
    back, extent_m = occupancy_from_msg(occupancy_to_msg(probability, EXTENT_M, Header()))
    assert extent_m == EXTENT_M and np.isnan(back[2, 1])
    np.testing.assert_allclose(np.nan_to_num(back), np.nan_to_num(probability), atol=0.005)


def test_iou_of_cells_of_the_network_over_known_ones() -> None:
    judge = judge_of("bev", 0.0)
    # Frame 1, in coarse cells: vehicles at (0, 0) and (1, 2); said (0, 0) and (3, 3): 1 right, 1 wrong, 1 missed.
    judge.add(grid({(0, 0): 0.9, (3, 3): 0.51, (2, 2): 0.5}), frame([(0, 1), (3, 4)]))
    # Frame 2: a vehicle at (2, 1), found; one said at (0, 3), where a part of the cell is not known.
    judge.add(grid({(2, 1): 1.0, (0, 3): 1.0}), frame([(5, 2)], unknown=[(1, 7)]))
    # Frame 3: nothing there and nothing said: it counts in no figure.
    judge.add(grid({}), frame([]))
    result = judge.result()
    assert result is not None and result["frames"] == 3
    assert result["metrics"] == {
        "iou_global": pytest.approx(2 / 4), "iou_frame": pytest.approx((1 / 3 + 1) / 2), "tp": 2, "fp": 1, "fn": 1,
    }  # fmt: skip


def test_a_picture_gets_the_cameras_the_truth_and_what_was_said() -> None:
    kept = judge_of("bev", 0.0).add(grid({(0, 0): 0.9}), frame([(7, 7)], unknown=[(0, 0)]))
    assert set(kept) == {"camera0", "truth", "known", "predicted"}
    assert kept["truth"][3, 3] and not kept["known"][0, 0] and kept["predicted"][0, 0] == pytest.approx(0.9)


def test_without_a_vehicle_there_is_no_figure_and_without_a_known_cell_no_score() -> None:
    judge = judge_of("bev", 0.0)
    blind = frame([(0, 0)], unknown=[(row, column) for row in range(8) for column in range(8)])
    judge.add(grid({(0, 0): 1.0}), blind)
    assert judge.result() is None
    judge.add(grid({}), frame([]))
    result = judge.result()
    assert result is not None and result["metrics"]["iou_global"] is None and result["frames"] == 1


def test_maps_that_do_not_fit_are_told() -> None:
    judge = judge_of("bev", 0.0)
    with pytest.raises(DataError, match=r"the map of vehicle 1 is 100 m wide, the network's is 50 m"):
        judge.add(occupancy_to_msg(np.zeros((4, 4), np.float32), 50.0, Header()), frame([]))
    broken = occupancy_to_msg(np.zeros((4, 4), np.float32), EXTENT_M, Header())
    broken.info.height = 3
    with pytest.raises(DataError, match="an occupancy grid has 4x3 cells and 16 values; expected a square one"):
        judge.add(broken, frame([]))


def test_the_true_map_has_the_time_of_the_frame_and_marks_what_no_camera_sees() -> None:
    msg = true_map(frame([(0, 1)], unknown=[(7, 7)]))
    assert (msg.header.frame_id, msg.header.stamp.sec, msg.header.stamp.nanosec) == ("base_link", 5, 7)
    back, _ = occupancy_from_msg(msg)
    assert back[0, 1] == 1.0 and np.isnan(back[7, 7]) and np.nansum(back) == 1.0
