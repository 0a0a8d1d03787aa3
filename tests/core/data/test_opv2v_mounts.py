"""Mounts of cameras in the axes of ROS, by hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from fed_core.data.opv2v.mounts import names_of, rig_tree
from fed_core.data.opv2v.sequence import BevOptions, open_bev
from fed_core.data.samples import open_samples
from fed_core.errors import DataError
from tests.core.data.opv2v_trees import SCENARIO, write_frame


def test_optical_frames_of_the_car_in_base_link(tmp_path: Path) -> None:
    write_frame(tmp_path / SCENARIO / "641", "000068")
    tree = rig_tree(open_samples("bev", {"data": str(tmp_path), "options": {"map_size": 16}}, tmp_path)[0])
    assert {name: mount["id"] for name, mount in tree.items()} == {"front": 0, "right": 1, "left": 2, "back": 3}
    # y is to the left in ROS: the right camera sits at 0.3 m to the right.
    np.testing.assert_allclose(tree["front"]["position"], [2.5, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(tree["right"]["position"], [0.0, -0.3, 1.8], atol=1e-12)
    # The optical axes of a camera that looks forward: right is -y, down is -z, forward is x.
    front = Rotation.from_quat(tree["front"]["rotation"]).as_matrix()
    np.testing.assert_allclose(front, [[0, 0, 1], [-1, 0, 0], [0, -1, 0]], atol=1e-12)
    # The right camera is turned by 100 degrees to the right: it looks to -y, and a little back.
    axis = Rotation.from_quat(tree["right"]["rotation"]).apply([0, 0, 1])
    np.testing.assert_allclose(axis, [np.cos(np.radians(100)), -np.sin(np.radians(100)), 0], atol=1e-12)


def test_only_the_cameras_that_are_there(tmp_path: Path) -> None:
    write_frame(tmp_path / SCENARIO / "641", "000068")
    options = BevOptions(cameras=(0, 3), map_size=16)
    frame = open_bev({"data": str(tmp_path), "options": {"cameras": [0, 3], "map_size": 16}}, tmp_path)[0]
    assert list(rig_tree(frame)) == list(names_of(options.cameras)) == ["front", "back"]


def test_a_camera_that_nobody_knows_is_told() -> None:
    with pytest.raises(DataError, match=r"camera 7 has no name; known are 0 to 3: front, right, left, back"):
        names_of([0, 7])
