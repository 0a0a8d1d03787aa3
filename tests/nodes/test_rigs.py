"""Mounts of cameras in REP 103's axes become poses in CARLA's, by hand; and wrong rigs are refused in one line."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fed_core.data.opv2v.cameras import project
from fed_core.data.opv2v.mounts import rig_tree
from fed_core.errors import ConfigError
from fed_nodes.sensing.rigs import CameraMount, rig_from_tree

QUARTER = math.pi / 2
#: An optical frame that looks forward: its z is the vehicle's x, its x the vehicle's -y.
FORWARD = (-QUARTER, 0.0, -QUARTER)


def mount(**changes: Any) -> dict[str, Any]:
    return {"position": [2.5, 0.0, 1.0], "rotation": list(FORWARD), **changes}


def test_a_camera_that_looks_forward_has_no_turn() -> None:
    pose = CameraMount((2.5, 0.5, 1.0), FORWARD).extrinsics

    np.testing.assert_allclose(pose[:3, :3], np.eye(3), atol=1e-12)
    np.testing.assert_allclose(pose[:, 3], [2.5, -0.5, 1.0, 1.0])  # 0.5 m to the left


def test_a_camera_that_looks_right_is_turned_by_90_degrees_to_the_right() -> None:
    pose = CameraMount((0.0, -0.3, 1.8), (-QUARTER, 0.0, -math.pi)).extrinsics

    # Its x, forward, is the vehicle's right; its y, right, the vehicle's back.
    np.testing.assert_allclose(pose[:3, 0], [0.0, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(pose[:3, 1], [-1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(pose[:3, 3], [0.0, 0.3, 1.8])


def test_a_camera_that_looks_down_has_its_nose_down() -> None:
    """20 degrees, turned about the optical frame's own x axis: it sees the ground in front of it."""
    down = CameraMount((0.0, 0.0, 1.0), (-QUARTER - math.radians(20.0), 0.0, -QUARTER)).extrinsics

    np.testing.assert_allclose(down[:3, 0], [math.cos(math.radians(20)), 0.0, -math.sin(math.radians(20))], atol=1e-12)


def test_a_known_point_is_seen_where_arithmetic_says() -> None:
    """10 m ahead and 2 m left on the ground: 7.5 m in front of the camera, 2 m left, 1 m below it."""
    matrix = np.array([[100.0, 0.0, 50.0], [0.0, 100.0, 40.0], [0.0, 0.0, 1.0]])

    pixels, depth = project(np.array([[10.0, -2.0, 0.0]]), matrix, CameraMount((2.5, 0.0, 1.0), FORWARD).extrinsics)

    np.testing.assert_allclose(pixels, [[50.0 - 100.0 * 2.0 / 7.5, 40.0 + 100.0 * 1.0 / 7.5]])
    np.testing.assert_allclose(depth, [7.5])


def test_a_quaternion_says_the_same_as_angles() -> None:
    by_angles = CameraMount((1.0, 2.0, 3.0), FORWARD)
    by_quaternion = CameraMount((1.0, 2.0, 3.0), (-0.5, 0.5, -0.5, 0.5))

    np.testing.assert_allclose(by_angles.extrinsics, by_quaternion.extrinsics, atol=1e-12)


@pytest.mark.parametrize("angles", [FORWARD, (-QUARTER, 0.0, -math.pi), (0.1, -0.7, 2.9), (0.0, 0.0, 0.0)])
def test_a_pose_as_a_mount_is_the_same_pose(angles: tuple[float, ...]) -> None:
    pose = CameraMount((1.0, -2.0, 3.0), angles).extrinsics

    rig = rig_from_tree(rig_tree(SimpleNamespace(cameras=(2,), extrinsics=pose[None])))  # type: ignore[arg-type]

    assert (rig.names, rig.ids) == (("left",), (2,))
    np.testing.assert_allclose(rig.extrinsics, [pose], atol=1e-12)


def test_cameras_stand_by_id_whatever_the_list_says() -> None:
    rig = rig_from_tree({"rear/cam": mount(id=3), "nose": mount(id=0, position=[3, 0, 1])})

    assert (rig.names, rig.ids) == (("nose", "rear/cam"), (0, 3))
    np.testing.assert_allclose(rig.extrinsics[:, 0, 3], [3.0, 2.5])
    assert rig_from_tree({"a": mount(), "b": mount()}).ids == (0, 1)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"front": mount(position=[1.0, 2.0])}, r"position is \[1.0, 2.0\]; it must be x, y, z in metres"),
        ({"front": mount(position=[1.0, 2.0, math.nan])}, "it must be x, y, z in metres"),
        ({"front": mount(rotation=[0.0])}, "it must be roll, pitch, yaw in radians or a quaternion x, y, z, w"),
        ({"front": mount(rotation=[1.0, 1.0, 0.0, 0.0])}, "quaternion x, y, z, w of length 1"),
        ({"front": mount(fov=3)}, "rig.front: unknown key 'fov'; known: position, rotation, id, rectified"),
        ({"front": {"position": [0, 0, 0]}}, "rig.front: key 'rotation' is missing"),
        ({"a": mount(id=1), "b": mount()}, "rig: cameras a and b both have the id 1; give each its own"),
        ({"2nd camera": mount()}, "rig: '2nd camera' cannot begin a topic"),
    ],
)
def test_wrong_rigs_are_refused_in_one_line(tree: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        rig_from_tree(tree)
    assert "\n" not in str(caught.value)


def test_ids_without_a_sector_need_another_rule() -> None:
    rig = rig_from_tree({"a": mount(), "roof": mount(id=7)})

    rig.require_known("fov")
    with pytest.raises(ConfigError, match=r"sectors are those of the ids 0 to 3, not of roof \(7\)"):
        rig.require_known("sector")
