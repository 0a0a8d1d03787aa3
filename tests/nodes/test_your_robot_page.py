"""What docs/your_robot.md tells people to write is what the nodes read."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fed_core.config import from_tree
from fed_nodes.recording.recorder import RecorderConfig
from fed_nodes.sensing.frames import FrameOptions

PAGE = (Path(__file__).parents[2] / "docs" / "your_robot.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
#: Parameters of a robot that say nothing of its sensors.
OTHERS = {"robot_id"}


def recorded(parameters: dict[str, Any]) -> RecorderConfig:
    """Return what a robot with these parameters records; texts of trees are YAML, as in a parameter file."""
    tree = {name: value for name, value in parameters.items() if name not in OTHERS}
    for name in tree:
        if name.endswith("_mount"):
            tree[name] = yaml.safe_load(tree[name])
    return from_tree(RecorderConfig, tree)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_a_robot(block: str) -> None:
    ((node, tree),) = yaml.safe_load(block).items()
    assert re.fullmatch(r"/\w+/robot_client", node)
    parameters = tree["ros__parameters"]
    assert node == f"/{parameters['robot_id']}/robot_client"
    config = recorded(parameters)
    assert config.depth_from == parameters["depth_from"] != "camera"


def test_the_set_ups_are_all_there() -> None:
    kinds = [yaml.safe_load(block).popitem()[1]["ros__parameters"]["depth_from"] for block in BLOCKS]
    assert set(kinds) == {"lidar", "stereo"}


def test_the_mounts_of_the_page_look_ahead() -> None:
    """A point 10 m ahead of the LiDAR lies 10 m (9 m) along the camera's axis."""
    from fed_nodes.sensing.extrinsics import FixedExtrinsics

    depths = []
    for block in BLOCKS:
        options: FrameOptions = recorded(yaml.safe_load(block).popitem()[1]["ros__parameters"])
        lidar = options.mount("lidar_mount")
        if lidar is not None:
            matrix = FixedExtrinsics(options.mount("camera_mount"), lidar).lidar_to_camera("", "")
            depths.append((matrix @ [10.0, 0.0, 0.0, 1.0])[2])
    assert depths == pytest.approx([9.95, 9.0], abs=1e-3)


def test_parameters_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`(\w+_(?:m|px|s|mount|transport|from)|extrinsics|rectified)[:`]", PAGE))
    known = set(RecorderConfig.__dataclass_fields__)
    assert named and named <= known, named - known
