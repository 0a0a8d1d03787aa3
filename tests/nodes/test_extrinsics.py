"""Where a LiDAR sits: from parameters by hand, and from a frame tree that is stood in for (the wheels lack tf2)."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fed_core.errors import ConfigError, DataError
from fed_nodes.sensing.extrinsics import FixedExtrinsics, TfExtrinsics
from fed_nodes.sensing.frames import FrameOptions, pair_frames
from fed_nodes.sensing.rigs import Mount

#: Axes of a LiDAR (x ahead, y left, z up) in those of a camera (x right, y down, z ahead).
AHEAD = (0.5, -0.5, 0.5, 0.5)


def test_a_lidar_alone_is_placed_in_the_cameras_frame() -> None:
    fixed = FixedExtrinsics(None, Mount((0.1, -0.2, 0.0), AHEAD))
    matrix = fixed.lidar_to_camera("any", "frame")
    # 3 m ahead, 2 m left, 1 m up of the LiDAR.
    np.testing.assert_allclose(matrix @ [3.0, 2.0, 1.0, 1.0], [-1.9, -1.2, 3.0, 1.0], atol=1e-12)


def test_both_on_the_vehicle_give_what_lies_between_them() -> None:
    camera = Mount((1.0, 0.0, 1.5), (-np.pi / 2, 0.0, -np.pi / 2))
    lidar = Mount((0.0, 0.0, 2.0), (0.0, 0.0, 0.0))
    matrix = FixedExtrinsics(camera, lidar).lidar_to_camera("", "")
    np.testing.assert_allclose(matrix @ [5.0, -1.0, 0.0, 1.0], [1.0, -0.5, 4.0, 1.0], atol=1e-12)


class Tree:
    """Stands in for ``tf2_ros``: one transform, or none."""

    class TransformException(Exception):  # noqa: N818 (the name of tf2_ros)
        """As in tf2_ros."""

    def __init__(self, rotation: tuple[float, ...] = AHEAD) -> None:
        self.asked: list[tuple[str, str]] = []
        self.open = 0
        self.known = True
        self._rotation = rotation

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = ModuleType("tf2_ros")
        module.TransformException = self.TransformException  # type: ignore[attr-defined]
        module.Buffer = lambda node: SimpleNamespace(lookup_transform=self._lookup)  # type: ignore[attr-defined]
        module.TransformListener = self._listener  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "tf2_ros", module)

    def _listener(self, buffer: Any, node: Any) -> Any:
        self.open += 1
        return SimpleNamespace(unregister=self._close)

    def _close(self) -> None:
        self.open -= 1

    def _lookup(self, target: str, source: str, time: Any) -> Any:
        self.asked.append((target, source))
        if not self.known:
            raise self.TransformException(f'"{source}" passed to lookupTransform\ndoes not exist.')
        x, y, z, w = self._rotation
        turn, place = SimpleNamespace(x=x, y=y, z=z, w=w), SimpleNamespace(x=0.1, y=-0.2, z=0.0)
        return SimpleNamespace(transform=SimpleNamespace(translation=place, rotation=turn))


def test_the_frame_tree_is_asked_for_the_frames_of_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree()
    tree.install(monkeypatch)
    found = TfExtrinsics(SimpleNamespace())  # type: ignore[arg-type]
    matrix = found.lidar_to_camera("cam_optical_frame", "velodyne")
    np.testing.assert_allclose(matrix @ [3.0, 2.0, 1.0, 1.0], [-1.9, -1.2, 3.0, 1.0], atol=1e-12)
    assert tree.asked == [("cam_optical_frame", "velodyne")] and tree.open == 1
    found.close()
    found.close()
    assert tree.open == 0


@pytest.mark.parametrize(
    ("frames", "known", "rotation", "words"),
    [
        (("", "velodyne"), True, AHEAD, "the image names no frame (header.frame_id), so TF cannot place it"),
        (("cam", ""), True, AHEAD, "the cloud names no frame"),
        (("cam", "velodyne"), False, AHEAD, "TF does not lead from velodyne to cam: "),
        (("cam", "velodyne"), True, (0.0, 0.0, 0.0, 0.0), "TF from velodyne to cam is no pose: Mount.rotation is"),
    ],
)
def test_what_the_tree_does_not_say_is_one_line(
    monkeypatch: pytest.MonkeyPatch, frames: tuple[str, str], known: bool, rotation: tuple[float, ...], words: str
) -> None:
    tree = Tree(rotation)
    tree.install(monkeypatch)
    tree.known = known
    with pytest.raises(DataError) as err:
        TfExtrinsics(SimpleNamespace()).lidar_to_camera(*frames)  # type: ignore[arg-type]
    assert words in str(err.value) and "\n" not in str(err.value)


def test_without_tf2_the_parameter_is_refused_before_anything_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tf2_ros", None)
    options = FrameOptions(depth_from="lidar", extrinsics="tf")
    node: Any = SimpleNamespace()
    with pytest.raises(ConfigError, match="extrinsics is tf, but tf2_ros is not installed here; install ros-") as err:
        pair_frames(node, options, None, 0.02, lambda frame: None)  # type: ignore[arg-type]
    assert "lidar_mount" in str(err.value) and "\n" not in str(err.value)
