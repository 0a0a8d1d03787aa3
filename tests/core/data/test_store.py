"""The sequence store: what goes in comes out, and an interrupted preparation goes on."""

import json
from pathlib import Path

import numpy as np
import pytest

from fed_core.data.open import find_reader, open_source
from fed_core.data.store import INDEX, to_counts, write_store
from fed_core.errors import DataError
from fed_core.types import DepthFrame

MATRIX = np.array([[50.0, 0.0, 4.0], [0.0, 50.0, 3.0], [0.0, 0.0, 1.0]])


class Sequence:
    name, source = "drive", "test"

    def __init__(self, num_frames: int = 4, fail_at: int = -1) -> None:
        self.num_frames, self.fail_at, self.reads = num_frames, fail_at, []

    def __len__(self) -> int:
        return self.num_frames

    def __getitem__(self, index: int) -> DepthFrame:
        if index == self.fail_at:
            raise KeyboardInterrupt
        self.reads.append(index)
        rng = np.random.default_rng(index)
        depth = rng.uniform(0.5, 80.0, (6, 8)).astype(np.float32)
        depth[0, 0] = np.nan
        if index == 2:
            depth[:] = np.inf
        return DepthFrame(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), depth, 1000 + index, MATRIX, "camera")


def test_frames_come_back_to_half_a_count(tmp_path: Path) -> None:
    write_store(Sequence(), tmp_path / "s", info={"platform": "ugv"})

    found, truth = open_source({"data": str(tmp_path / "s")}, tmp_path), Sequence()

    assert (found.name, found.info, len(found)) == ("drive", {"platform": "ugv"}, 3)  # frame 2 has no depth
    for place, index in enumerate((0, 1, 3)):
        frame, expected = found[place], truth[index]
        np.testing.assert_array_equal(frame.rgb, expected.rgb)
        np.testing.assert_allclose(frame.depth_m, expected.depth_m, atol=0.5 / 256)
        np.testing.assert_array_equal(frame.intrinsics, MATRIX)
        assert (frame.stamp_ns, frame.frame_id) == (1000 + index, "camera")


def test_interrupted_preparation_reads_no_frame_twice(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_store(Sequence(fail_at=3), tmp_path / "s", info={})
    assert find_reader(tmp_path / "s") != "stored"
    with (tmp_path / "s" / ".part.json").open("a") as file:
        file.write('[3, {"fil')  # a power cut in mid-line
    sequence, seen = Sequence(), []

    write_store(sequence, tmp_path / "s", info={}, on_progress=lambda done, total: seen.append((done, total)))

    assert sequence.reads == [3]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert len(open_source({"data": str(tmp_path / "s")}, tmp_path)) == 3
    write_store(sequence, tmp_path / "s", info={})
    assert sequence.reads == [3]


def test_half_of_another_preparation_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_store(Sequence(fail_at=3), tmp_path / "s", info={})

    with pytest.raises(DataError, match="half of another preparation; delete it"):
        write_store(Sequence(), tmp_path / "s", info={}, indexes=[0, 1])


def test_nothing_usable_and_broken_index_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of the 1 frames of 'drive' loads and has a depth in 1% of its pixels"):
        write_store(Sequence(), tmp_path / "s", info={}, indexes=[2])
    write_store(Sequence(), tmp_path / "t", info={})
    tree = json.loads((tmp_path / "t" / INDEX).read_text())
    (tmp_path / "t" / INDEX).write_text(json.dumps({**tree, "schema": 9}))
    with pytest.raises(DataError, match="schema 9, this version reads schema 1"):
        open_source({"data": str(tmp_path / "t")}, tmp_path)
    (tmp_path / "t" / INDEX).write_text("{")
    with pytest.raises(DataError, match="is broken; delete the folder and prepare"):
        open_source({"data": str(tmp_path / "t")}, tmp_path)


def test_far_and_unknown_depth_become_zero() -> None:
    depth = np.array([[np.nan, np.inf, -1.0, 0.0, 1.0, 255.99, 300.0]], np.float32)

    assert to_counts(depth).tolist() == [[0, 0, 0, 0, 256, 65533, 0]]
