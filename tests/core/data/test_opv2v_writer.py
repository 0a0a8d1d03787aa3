"""Frames that a vehicle records of itself, read back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fed_core.data.opv2v.poses import world_from
from fed_core.data.opv2v.writer import Opv2vWriter, pose_of, recorded_source
from fed_core.data.samples import open_samples
from fed_core.errors import DataError
from fed_core.types import BevFrame

SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND


def frame(stamp_ns: int = NOON, colour: int = 50) -> BevFrame:
    mask = np.zeros((16, 16), bool)
    mask[2, 5] = True
    poses = [world_from([2.5, 0, 1.0, 0, 0, 0]), world_from([-2, 0.4, 1.5, 3, 170, -8])]
    return BevFrame(
        cameras=(0, 3),
        images=(np.full((6, 8, 3), colour, np.uint8), np.full((12, 16, 3), [1, 2, 3], np.uint8)),
        intrinsics=np.array([[[3.5, 0, 4], [0, 3.5, 3], [0, 0, 1]], [[7.0, 0, 8.25], [0, 7, 6], [0, 0, 1]]]),
        extrinsics=np.stack(poses),
        mask=mask,
        known=np.ones((16, 16), bool),
        metres_per_cell=2.5,
        stamp_ns=stamp_ns,
        vehicle="",
    )


def record(path: Path, stamps: list[int]) -> None:
    writer = Opv2vWriter(path, known="off")
    for place, stamp_ns in enumerate(stamps):
        writer.add(frame(stamp_ns, colour=10 * place))
    writer.close()


def test_what_is_read_back_is_what_was_recorded(tmp_path: Path) -> None:
    record(tmp_path / "own", [NOON])
    found, written = open_samples("bev", recorded_source(tmp_path / "own"), Path())[0], frame(colour=0)
    assert (found.cameras, found.metres_per_cell, found.stamp_ns) == ((0, 3), 2.5, NOON)
    for mine, theirs in zip(found.images, written.images, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(found.extrinsics, written.extrinsics, atol=1e-9)
    np.testing.assert_array_equal(found.intrinsics, written.intrinsics)
    np.testing.assert_array_equal(found.mask, written.mask)
    np.testing.assert_array_equal(found.known, written.known)


def test_time_decides_scenario_and_number(tmp_path: Path) -> None:
    # 0.5 s later; another 10 ms later (the next number all the same); a minute later; back to the start.
    record(tmp_path / "own", [NOON, NOON + SECOND // 2, NOON + 510_000_000, NOON + 60 * SECOND, NOON])
    yamls = sorted(str(path.relative_to(tmp_path / "own")) for path in (tmp_path / "own").rglob("*.yaml"))
    assert yamls == [
        "2023_11_14_22_13_20/0/000000.yaml",
        "2023_11_14_22_13_20/0/000005.yaml",
        "2023_11_14_22_13_20/0/000006.yaml",
        "2023_11_14_22_13_21/0/000000.yaml",
        "2023_11_14_22_14_20/0/000000.yaml",
    ]


def test_angles_of_a_pose_by_hand() -> None:
    pose = [1.0, -2.0, 3.0, 10.0, -100.0, 20.0]
    np.testing.assert_allclose(pose_of(world_from(pose)), pose, atol=1e-9)


@pytest.mark.parametrize("pitch", [-90.0, 90.0])
def test_camera_that_looks_straight_down_or_up_comes_back(pitch: float) -> None:
    turned = world_from([0.0, 0.0, 0.0, 0.0, 30.0, 0.0]) @ world_from([0.0, 0.0, 3.0, 20.0, 0.0, pitch])
    np.testing.assert_allclose(world_from(pose_of(turned)), turned, atol=1e-9)


def test_mistakes_are_told_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "own"
    writer = Opv2vWriter(path, known="sector")
    with pytest.raises(DataError, match="nothing was recorded for"):
        writer.close()
    writer.add(frame())
    with pytest.raises(DataError, match=r"a frame has cameras \(0, 3\), a map of 16 cells and 80 m; the first has"):
        writer.add(replace(frame(), metres_per_cell=5.0))
    with pytest.raises(DataError, match="is no finished recording of a vehicle's cameras"):
        recorded_source(path)
    with pytest.raises(DataError, match="own exists already; choose another folder for the recording"):
        Opv2vWriter(path, known="sector")
    writer.discard()
    assert not path.exists()
