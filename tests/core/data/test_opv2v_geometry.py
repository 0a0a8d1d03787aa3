"""Pixels, ground and cells of OPV2V cameras, and the sectors of AMCM."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.opv2v.cameras import (
    REFERENCE,
    cell_centres,
    on_ground,
    project,
    scaled,
    to_cells,
)
from fed_core.data.opv2v.masks import fov_mask, pooled, sector_mask, sectors
from fed_core.data.opv2v.poses import Rig, read_rig, world_from
from fed_core.errors import DataError
from tests.core.data.opv2v_trees import INTRINSIC, MOUNTS, SCENARIO, write_frame

K = np.array(INTRINSIC)
Floats = npt.NDArray[np.float64]


def test_pose_turns_to_the_right_and_lifts_the_nose() -> None:
    ahead = np.array([1.0, 0.0, 0.0, 1.0])

    np.testing.assert_allclose(world_from([5, 6, 7, 0, 90, 0]) @ ahead, [5, 7, 7, 1], atol=1e-12)
    np.testing.assert_allclose(world_from([0, 0, 0, 0, 0, 90]) @ ahead, [0, 0, 1, 1], atol=1e-12)
    # Roll lifts the left side: the right one goes down.
    np.testing.assert_allclose(world_from([0, 0, 0, 90, 0, 0]) @ [0, 1, 0, 1], [0, 0, -1, 1], atol=1e-12)


@given(st.lists(st.floats(-180, 180), min_size=3, max_size=3))
def test_pose_is_a_rotation(angles: list[float]) -> None:
    turn = world_from([1, 2, 3, *angles])[:3, :3]
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(turn) == pytest.approx(1.0)


def test_extrinsics_are_relative_to_the_true_pose_of_the_vehicle(tmp_path: Path) -> None:
    # The vehicle looks along the map's y; its front camera sits 2.5 m further along y.
    camera = {"cords": [10.0, 22.5, 1.0, 0, 90, 0], "intrinsic": INTRINSIC}
    write_frame(tmp_path / SCENARIO / "7", "000001", true_ego_pos=[10.0, 20.0, 0.0, 0.0, 90.0, 0.0], camera0=camera)

    rig = read_rig(tmp_path / SCENARIO / "7" / "000001.yaml", [0])

    np.testing.assert_allclose(rig.extrinsics[0], world_from([2.5, 0, 1, 0, 0, 0]), atol=1e-9)


def test_known_points_are_seen_at_known_pixels() -> None:
    # 10 m ahead of the front camera, 2 m to the right, on the ground: 1 m below it.
    pixel, depth = project(np.array([[12.5, 2.0, 0.0]]), K, world_from(MOUNTS[0]))

    np.testing.assert_allclose(depth, [10.0])
    np.testing.assert_allclose(pixel, [[400 + 335.6399 * 0.2, 300 + 335.6399 * 0.1]])


def test_what_is_on_the_right_is_seen_by_the_right_camera_only() -> None:
    right_of_vehicle = np.array([[0.0, 8.0, 0.0]])
    seen = {k for k in MOUNTS if np.isfinite(project(right_of_vehicle, K, world_from(MOUNTS[k]))[0]).all()}
    assert 1 in seen and 2 not in seen


@pytest.mark.parametrize("camera", range(4))
def test_a_ray_returns_to_the_ground_point_that_made_its_pixel(camera: int) -> None:
    pose = world_from(MOUNTS[camera])
    ground = np.array([[12.0, 3.0, 0.0], [-9.0, 4.0, 0.0], [1.5, 11.0, 0.0], [2.0, -14.0, 0.0]])
    pixels, depth = project(ground, K, pose)
    ahead = depth > 0

    np.testing.assert_allclose(on_ground(pixels[ahead], K, pose), ground[ahead, :2], atol=1e-9)
    assert ahead.any()


def test_the_sky_meets_no_ground() -> None:
    assert np.isnan(on_ground(np.array([[400.0, 100.0], [400.0, 300.0]]), K, world_from(MOUNTS[0]))).all()


def test_reference_geometry_lands_elsewhere() -> None:
    pose = world_from(MOUNTS[0])
    pixels, _ = project(np.array([[12.0, 3.0, 0.0]]), K, pose)
    wrong = on_ground(pixels, K, pose, REFERENCE)
    assert not np.allclose(wrong, [[12.0, 3.0]], atol=100 / 256, equal_nan=False)


def test_resized_pictures_keep_their_rays() -> None:
    small = scaled(K, (800, 600), (512, 512))
    np.testing.assert_allclose(small[[0, 1, 0, 1], [0, 1, 2, 2]], [214.8095, 286.4127, 256.0, 256.0], atol=1e-3)
    pose = world_from(MOUNTS[1])
    full = on_ground(np.array([[200.0, 500.0]]), K, pose)
    np.testing.assert_allclose(on_ground(np.array([[128.0, 500 * 512 / 600]]), small, pose), full)


def test_cells_are_counted_from_the_far_left_corner() -> None:
    # The vehicle is at pixel (128, 128); a cell is 0.390625 m; forward is up, right is right.
    np.testing.assert_allclose(to_cells(np.array([[0.0, 0.0]]), 256), [[128, 128]])
    np.testing.assert_allclose(to_cells(np.array([[10.0, 20.0]]), 256), [[128 - 25.6, 128 + 51.2]])
    centres = cell_centres(256)
    np.testing.assert_allclose(centres[0, 0], [50.0, -50.0])
    np.testing.assert_allclose(centres[255, 130], [-49.609375, 0.78125])
    rows, columns = np.mgrid[0:256, 0:256]
    np.testing.assert_allclose(to_cells(centres.reshape(-1, 2), 256), np.stack([rows, columns], -1).reshape(-1, 2))


@pytest.mark.parametrize("step", [2, 4, 8])
def test_coarse_cells_are_centred_on_the_fine_ones(step: int) -> None:
    coarse, fine = cell_centres(256, step), cell_centres(256)
    np.testing.assert_allclose(coarse[3, 5], fine[3 * step : 4 * step, 5 * step : 6 * step].mean((0, 1)))


def test_reference_cells_are_mirrored_and_stretched() -> None:
    centres = cell_centres(256, 2, REFERENCE)
    np.testing.assert_allclose(centres[0, 0], [50, 50])
    np.testing.assert_allclose(centres[-1, -1], [-50, -50])


def test_unknown_geometry_and_uneven_steps_are_refused() -> None:
    with pytest.raises(DataError, match="geometry 'mirror' is not known; choose corrected or reference"):
        cell_centres(256, geometry="mirror")
    with pytest.raises(DataError, match="a map of 256 cells cannot be cut into cells of 3"):
        cell_centres(256, 3)


def test_sectors_of_a_small_map() -> None:
    # 0 up, 1 right, 2 left, 3 down (feddwa spec 8).
    expected = [[0, 0, 0, 0], [2, 0, 0, 1], [2, 2, 1, 1], [2, 3, 3, 1]]
    np.testing.assert_array_equal(sectors(4), expected)


@pytest.mark.parametrize("size", [2, 5, 32, 256])
def test_sectors_are_disjoint_and_cover_the_map(size: int) -> None:
    counts = np.sum([sector_mask(size, [camera]) for camera in range(4)], axis=0)
    np.testing.assert_array_equal(counts, np.ones((size, size)))


def test_sectors_point_where_their_cameras_look() -> None:
    x, y = np.moveaxis(cell_centres(256), -1, 0)
    for camera, toward in enumerate((x, y, -y, -x)):
        assert toward[sector_mask(256, [camera])].min() > -0.4, camera


def rig_of(*cameras: int) -> Rig:
    return Rig(np.stack([K] * len(cameras)), np.stack([world_from(MOUNTS[k]) for k in cameras]))


def test_fov_of_the_front_camera_is_a_wedge_of_100_degrees() -> None:
    mask = fov_mask(256, rig_of(0), [800])
    x, y = np.moveaxis(cell_centres(256), -1, 0)
    angle = np.degrees(np.arctan2(y, x - 2.5))

    np.testing.assert_array_equal(mask, np.abs(angle) <= 50.0)


def test_four_cameras_see_almost_all_around() -> None:
    # The borders of front and side pictures are parallel, 1.7 m apart: two thin strips stay blind.
    mask = fov_mask(256, rig_of(0, 1, 2, 3), [800] * 4)
    x, y = np.moveaxis(cell_centres(256), -1, 0)
    assert 0.01 < 1 - mask.mean() < 0.04
    off_border = np.abs(np.abs(np.degrees(np.arctan2(y, x))) - 50) > 25
    assert mask[off_border & (np.hypot(x, y) > 5)].all()
    assert not fov_mask(256, rig_of(0, 2), [800] * 2)[128, 200]
    assert not fov_mask(8, Rig(np.zeros((0, 3, 3)), np.zeros((0, 4, 4))), []).any()


def test_pooled_masks_keep_everything_that_is_there() -> None:
    mask = np.zeros((8, 8), np.bool_)
    mask[5, 2] = True
    expected = np.zeros((4, 4), np.bool_)
    expected[2, 1] = True
    np.testing.assert_array_equal(pooled(mask, 4), expected)
    with pytest.raises(DataError, match="a mask of 8 cells cannot be reduced to 3"):
        pooled(mask, 3)
