from collections.abc import Callable

import numpy as np
import pytest

from fed_core.scenes.meshes import box, patch
from fed_core.scenes.platforms import optical_pose
from fed_core.scenes.renderer import Pinhole, render
from fed_core.scenes.scene import World

CAMERA = Pinhole(64, 48, 40.0)
Make = Callable[..., World]


def test_intrinsics_and_rays_agree() -> None:
    rays = CAMERA.directions().reshape(48, 64, 3)
    pixel = CAMERA.matrix @ rays[10, 20]
    np.testing.assert_allclose(pixel, [20, 10, 1])


def test_depth_runs_along_the_axis_and_not_along_the_ray(bare_world: Make) -> None:
    # A wall at x = 5 that fills the view: z-depth is 5 everywhere, the ray to a corner is 40 % longer.
    world = bare_world(patch((5, 20, -20), (0, -40, 0), (0, 0, 40)))
    _, depth = render(world, CAMERA, optical_pose(np.zeros(3), 0, 0, 0), 80.0)
    assert depth.dtype == np.float32
    np.testing.assert_allclose(depth, 5.0, rtol=1e-6)


@pytest.mark.parametrize("pitch_deg", [20.0, 60.0, 90.0])
def test_depth_of_the_ground_below(bare_world: Make, pitch_deg: float) -> None:
    world = bare_world(patch((-500, -500, 0), (1000, 0, 0), (0, 1000, 0)))
    height, pitch = 3.0, np.radians(pitch_deg)
    _, depth = render(world, CAMERA, optical_pose(np.array([0, 0, height]), 0.7, pitch, 0), 80.0)
    # The ray of row v has slope y = (v - cy) / f and falls at sin(pitch) + y cos(pitch) per metre of depth.
    y = (np.arange(48) - 23.5) / 40.0
    fall = np.sin(pitch) + y * np.cos(pitch)
    expected = np.where((fall > 0) & (height / np.maximum(fall, 1e-9) <= 80), height / np.maximum(fall, 1e-9), np.nan)
    np.testing.assert_allclose(depth, np.repeat(expected[:, None], 64, 1), rtol=2e-5)


def test_a_box_in_front_of_a_wall_has_its_own_depth_where_it_projects(bare_world: Make) -> None:
    world = bare_world(patch((9, 50, -50), (0, -100, 0), (0, 0, 100)), box((1, 2, 2), bottom=True).moved((4.5, 0, -1)))
    _, depth = render(world, CAMERA, optical_pose(np.zeros(3), 0, 0, 0), 80.0)
    v, u = np.mgrid[0:48, 0:64]
    # The front face lies at x = 4 and spans y, z in -1..1; the camera looks along +x, image right is -y.
    on_box = (np.abs((u - 31.5) / 40 * 4) < 1) & (np.abs((v - 23.5) / 40 * 4) < 1)
    np.testing.assert_allclose(depth, np.where(on_box, 4.0, 9.0), rtol=1e-6)


def test_nothing_and_far_things_have_no_depth(bare_world: Make) -> None:
    world = bare_world(patch((5, 0, -50), (0, -50, 0), (0, 0, 100)))  # right half only
    pose = optical_pose(np.zeros(3), 0, 0, 0)
    _, depth = render(world, CAMERA, pose, 80.0)
    assert np.isnan(depth[:, :32]).all() and not np.isnan(depth[:, 32:]).any()
    assert np.isnan(render(world, CAMERA, pose, 4.9)[1]).all()


def test_the_pose_follows_the_optical_convention() -> None:
    pose = optical_pose(np.array([1.0, 2, 3]), yaw=0.0, pitch=0.0, roll=0.0)
    np.testing.assert_allclose(pose[:3, :3], [[0, 0, 1], [-1, 0, 0], [0, -1, 0]], atol=1e-12)
    np.testing.assert_allclose(pose[:3, 3], [1, 2, 3])
    tilted = optical_pose(np.zeros(3), 0.3, 0.5, 0.2)[:3, :3]
    np.testing.assert_allclose(tilted.T @ tilted, np.eye(3), atol=1e-12)
    assert np.linalg.det(tilted) == pytest.approx(1)
    assert tilted[2, 2] == pytest.approx(-np.sin(0.5))  # a positive pitch looks down
