"""Event cameras of an M3ED recording as ROS messages."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rclpy.node import Node

from fed_core.data.m3ed.sequence import open_m3ed
from fed_core.data.open import open_sequence
from fed_core.data.segment import Segment
from fed_nodes.playing.event_cameras import event_cameras, static_transforms
from tests.core.data import m3ed_fixture as made


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_recording(tmp_path_factory.mktemp("m3ed") / "spot_forest_hard")


def test_only_m3ed_recordings_have_them(make_node: Callable[..., Node], recording: Path) -> None:
    node = make_node()
    other = open_sequence("generated:uav/forest?seed=1&frames=2&width=32&height=24")
    assert event_cameras(node, other, reliable=True) is None
    assert event_cameras(node, Segment(other, 1), reliable=True) is None
    sequence = open_m3ed(recording)
    found = event_cameras(node, Segment(sequence, 1, 3), reliable=True)
    assert found is not None
    np.testing.assert_allclose(found.colour_distortion, [*made.RGB.distortion, 0.0])


def test_static_frames_hang_from_the_left_event_camera(recording: Path) -> None:
    frames = {t.child_frame_id: t for t in static_transforms(open_m3ed(recording).cameras)}
    assert set(frames) == {"ovc_rgb", "prophesee_right"}
    assert {t.header.frame_id for t in frames.values()} == {"prophesee_left"}
    right = frames["prophesee_right"].transform
    assert (right.translation.x, right.translation.y, right.translation.z) == pytest.approx((0.12, 0.0, 0.0))
    # 0.1 degrees about x.
    half = np.radians(0.1) / 2
    assert (right.rotation.x, right.rotation.w) == pytest.approx((np.sin(half), np.cos(half)))
