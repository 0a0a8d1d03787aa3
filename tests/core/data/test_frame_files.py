"""One file of a recording: what it holds, and what is left of it wherever it is cut."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.writer import CompressionType
from rosbags.rosbag2 import Reader

from fed_core.data.bag_writer import BagWriter
from fed_core.data.frame_files import FrameFileWriter, RawFrame, copy_frames, mend, part_of, raw_frames, read_frame_file
from fed_core.data.keyframes import Grey
from fed_core.errors import DataError, StoreError
from tests.core.data.recorded import grey, indices, make_frame, raw_frame

FRAMES = 4


def write(path: Path, count: int = FRAMES, compression: CompressionType = CompressionType.NONE) -> FrameFileWriter:
    writer = FrameFileWriter(path, compression)
    for index in range(count):
        writer.add(raw_frame(make_frame(index)), grey(make_frame(index)))
    return writer


@pytest.mark.parametrize("compression", list(CompressionType))
def test_closed_file_has_all_frames_an_index_and_small_pictures(tmp_path: Path, compression: CompressionType) -> None:
    writer = write(tmp_path / "a.mcap", compression=compression)
    assert not (tmp_path / "a.mcap").exists(), "it has its name only when it is closed"
    largest = writer.size_bytes
    file = writer.close()
    assert file.size_bytes == file.path.stat().st_size <= largest
    read = read_frame_file(file.path)
    assert read.stamps_ns.tolist() == [make_frame(i).stamp_ns for i in range(FRAMES)]
    np.testing.assert_array_equal(read.greys, [grey(make_frame(i)) for i in range(FRAMES)])
    assert indices(file.path) == list(range(FRAMES))
    with Reader(file.path) as bag:
        assert {c.topic: c.msgcount for c in bag.connections} == {
            "/camera/color/camera_info": FRAMES,
            "/camera/color/image_raw": FRAMES,
            "/camera/aligned_depth_to_color/image_raw": FRAMES,
        }


def test_the_first_flush_keeps_the_names_of_the_file_and_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss may take a new file's name although its bytes were flushed."""
    flushed: list[Path] = []
    monkeypatch.setattr("fed_core.data.frame_files.sync_folder", flushed.append)
    (tmp_path / "samples").mkdir()
    writer = write(tmp_path / "samples" / "a.mcap")
    writer.sync()
    assert flushed == [tmp_path / "samples", tmp_path]
    writer.sync()
    assert len(flushed) == 2


def test_bound_of_the_size_holds_for_many_frames(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.mcap", 300)
    assert writer.size_bytes >= writer.close().size_bytes


def test_what_was_added_is_there_without_closing(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.mcap")
    writer.sync()
    assert [frame.stamp_ns for frame in raw_frames(part_of(tmp_path / "a.mcap"))] == writer.stamps_ns
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


def test_flushing_beside_closing_is_no_error(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.mcap")
    writer.close()
    writer.sync()


def test_a_card_that_cannot_keep_what_was_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = write(tmp_path / "a.mcap")
    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(StoreError, match=r"cannot read or write .*a\.mcap\.part: Input/output error"):
        writer.sync()
    writer.abandon()


def test_files_of_other_writers_are_read_whole(tmp_path: Path) -> None:
    bag = BagWriter(tmp_path / "old")
    for index in range(FRAMES):
        bag.add(make_frame(index))
    bag.close()
    file = read_frame_file(tmp_path / "old" / "old.mcap")
    assert file.stamps_ns.tolist() == [make_frame(i).stamp_ns for i in range(FRAMES)]
    np.testing.assert_array_equal(file.greys, [grey(make_frame(i)) for i in range(FRAMES)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """A file that was closed, and the position after each of its frames."""
    path = tmp_path_factory.mktemp("whole") / "a.mcap"
    writer, ends = FrameFileWriter(path), []
    for index in range(FRAMES):
        writer.add(raw_frame(make_frame(index)), grey(make_frame(index)))
        ends.append(writer._output.position)
    writer.close()
    return path.read_bytes(), ends


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("torn")


@settings(max_examples=60)
@given(data=st.data(), tail=st.sampled_from([b"", bytes(5000), b"\xff" * 700]))
def test_cut_anywhere_the_whole_frames_before_stay(
    whole: tuple[bytes, list[int]], place: Path, data: st.DataObject, tail: bytes
) -> None:
    content, ends = whole
    # After a power loss the end may also be there as zeros or as what lay there before.
    cut = data.draw(st.integers(0, len(content)) | st.sampled_from([end + step for end in ends for step in (-1, 0, 1)]))
    torn, path = part_of(place / "a.mcap"), place / "a.mcap"
    torn.write_bytes(content[:cut] + tail)
    path.unlink(missing_ok=True)
    file = mend(torn, path)
    kept = 0 if file is None else len(file)
    # The index of a chunk stands behind it, so a frame may be whole a little before its end.
    assert kept in {sum(end <= cut for end in ends), sum(end - 200 <= cut for end in ends)}
    assert not torn.exists() and list(place.iterdir()) == ([path] if kept else [])
    if kept:
        assert indices(path) == list(range(kept))
        assert read_frame_file(path).stamps_ns.tolist() == [make_frame(i).stamp_ns for i in range(kept)]


def test_a_flipped_bit_ends_the_file_before_its_frame(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    content, ends = whole
    broken = bytearray(content)
    broken[ends[1] + 300] ^= 4
    (tmp_path / "a.mcap").write_bytes(broken)
    file = mend(tmp_path / "a.mcap", tmp_path / "a.mcap")
    assert file is not None and indices(file.path) == [0, 1]


def test_a_file_cut_off_is_told(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_bytes(whole[0][:-20])
    with pytest.raises(DataError, match=r"a\.mcap was not closed: "):
        read_frame_file(tmp_path / "a.mcap")


def test_copy_of_some_frames(tmp_path: Path) -> None:
    source = write(tmp_path / "a.mcap").close()
    copy = copy_frames(source.path, tmp_path / "b.mcap", [True, False, False, True])
    assert copy is not None and indices(copy.path) == [0, 3]
    np.testing.assert_array_equal(copy.greys, source.greys[[0, 3]])
    assert copy_frames(source.path, tmp_path / "c.mcap", [False] * FRAMES) is None


def test_a_copy_that_finds_no_room_for_its_first_frame_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "a.mcap").close()

    def refuse(self: FrameFileWriter, frame: RawFrame, small: Grey) -> None:
        raise StoreError("no space is left")

    monkeypatch.setattr(FrameFileWriter, "add", refuse)
    opened = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    with pytest.raises(StoreError, match="no space is left"):
        copy_frames(source.path, tmp_path / "b.mcap")
    assert [path.name for path in tmp_path.iterdir()] == ["a.mcap"]
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) == opened, "an open file keeps its room on the disk"


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read or write .*a\.mcap\.part: No such file or directory"):
        FrameFileWriter(tmp_path / "gone" / "a.mcap")
