"""One door to the samples of any task, and what it says to bad input."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fed_core.data.samples import TASKS, first_readable, open_samples
from fed_core.errors import ConfigError, DataError
from tests.core.data.opv2v_trees import SCENARIO, write_frame

OPTIONS = {"map_size": 16}


def vehicle(root: Path, frames: int = 2) -> Path:
    folder = root / SCENARIO / "641"
    for index in range(frames):
        write_frame(folder, f"{index:06d}")
    return folder


def test_each_task_opens_its_own(tmp_path: Path) -> None:
    vehicle(tmp_path / "car")
    frame = open_samples("bev", {"data": "car", "options": OPTIONS}, tmp_path)[0]
    assert len(frame.images) == 4
    generated = {"platform": "uav", "environment": "forest", "frames": 2, "width": 16, "height": 8}
    assert len(open_samples("depth", {"generated": generated}, tmp_path)) == 2
    assert set(TASKS) == {"depth", "bev", "detection"}


def test_the_first_frame_that_can_be_read_is_found_behind_broken_ones(tmp_path: Path) -> None:
    (vehicle(tmp_path / "car") / "000000_camera2.png").unlink()
    sequence = open_samples("bev", {"data": "car", "options": OPTIONS}, tmp_path)
    assert first_readable(sequence).stamp_ns == sequence.stamp_ns(1)


def camera_gone(folder: Path) -> None:
    (folder / "000000_camera2.png").unlink()


def mask_of_another_size(folder: Path) -> None:
    cv2.imwrite(str(folder / "000000_bev_visibility.png"), np.zeros((8, 8), np.uint8))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (camera_gone, r"no frame of car can be read; the first: cannot read .*000000_camera2.png: No such file"),
        (mask_of_another_size, r"the first: .*000000_bev_visibility.png is 8x8; masks of this data set are 16x16"),
    ],
)
def test_a_recording_without_a_usable_frame_tells_why(tmp_path: Path, spoil: Any, words: str) -> None:
    spoil(vehicle(tmp_path / "car", frames=1))
    with pytest.raises(DataError, match=words):
        first_readable(open_samples("bev", {"data": "car", "options": OPTIONS}, tmp_path))


@pytest.mark.parametrize(
    ("task", "source", "words"),
    [
        ("bev", {"data": "nowhere"}, "nowhere is not a folder"),
        ("bev", {"options": OPTIONS}, "a source needs either 'data: PATH' or 'generated:"),
        ("bev", {"generated": {"platform": "bus", "environment": "street"}}, "layout 'opv2v', not a generated"),
        ("sound", {}, "no recordings are known for task 'sound'; known: depth, bev, detection"),
    ],
)
def test_sources_that_mean_nothing_are_told(tmp_path: Path, task: str, source: Any, words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words):
        open_samples(task, source, tmp_path)
