"""A robot's own recording: bounded, readable at any time, and still there after a power loss."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rosbags.rosbag2 import Reader

from fed_core.data.bag_writer import BagWriter
from fed_core.data.frame_files import FrameFileWriter, RawFrame, part_of
from fed_core.data.local_set import MAX_FILES, OLDEST, REDUNDANT, LocalSet, SetOptions
from fed_core.data.snapshots import Snapshots, is_recorded
from fed_core.errors import ConfigError, DiskFullError, StoreError
from tests.core.data.recorded import grey, indices, make_frame, raw_frame

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 1_000_000
SIZE = (56, 76)  # 30 kB a frame: 3 in a file of an eighth of the limit


def open_set(folder: Path, *, replaces: bool = False, limit: int = LIMIT, **options: object) -> LocalSet:
    return LocalSet(folder / "samples", limit, SetOptions(**options), replaces=replaces)  # type: ignore[arg-type]


def fill(local: LocalSet, start: int, stop: int, level: int | None = None) -> list[bool]:
    frames = [make_frame(index, level, size=SIZE) for index in range(start, stop)]
    return [local.add(frame, grey(frame)) for frame in frames]


def used_bytes(folder: Path) -> int:
    """Return what all files take on disk, each once however many links it has."""
    files = {s.st_ino: s.st_size for p in folder.rglob("*") if p.is_file() for s in [p.stat()]}
    return sum(files.values())


def test_folder_is_one_bag_of_several_files(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    assert fill(local, 0, 8) == [True] * 8
    assert (local.num_frames, local.holds(make_frame(7).stamp_ns), local.holds(1)) == (8, True, False)
    assert [len(file) for file in local.files] == [3, 3]
    local.close_file()
    names = ["metadata.yaml", "samples_0.mcap", "samples_1.mcap", "samples_2.mcap"]
    assert sorted(path.name for path in local._folder.iterdir()) == names
    with Reader(tmp_path / "samples") as bag:
        assert (bag.message_count, bag.start_time) == (24, make_frame(0).stamp_ns)
        assert bag.end_time == make_frame(7).stamp_ns + 1
        assert {c.msgcount for c in bag.connections} == {8}
    assert sorted(os.listdir(tmp_path / "samples")) == names, "reading leaves it as it is"


def test_each_file_is_a_bag_of_its_own_too(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    for index in range(8):
        local.add(make_frame(index), grey(make_frame(index)))
    local.close_file()
    assert indices(tmp_path / "samples") == indices(tmp_path / "samples" / "samples_0.mcap") == list(range(8))


def test_a_set_that_does_not_replace_is_full_one_day(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    taken = fill(local, 0, 40)
    assert taken == sorted(taken, reverse=True) and 20 < sum(taken) < 30
    local.close_file()
    assert used_bytes(tmp_path) <= LIMIT
    assert local.num_frames == sum(taken)
    assert local.size_bytes <= used_bytes(tmp_path)


@pytest.mark.parametrize("keep", [OLDEST, REDUNDANT])
def test_bytes_are_bounded_at_every_moment(tmp_path: Path, keep: str) -> None:
    local = open_set(tmp_path, replaces=True, record_keep=keep)
    for index in range(44):
        assert fill(local, index, index + 1) == [True]
        assert used_bytes(tmp_path) <= LIMIT
    local.close_file()
    assert used_bytes(tmp_path) <= LIMIT
    assert local.holds(make_frame(43).stamp_ns)
    with Reader(tmp_path / "samples") as bag:
        assert bag.message_count == 3 * local.num_frames


def test_the_oldest_file_goes_first(tmp_path: Path) -> None:
    local = open_set(tmp_path, replaces=True)
    fill(local, 0, 40)
    local.close_file()
    first = 40 - local.num_frames
    assert first % 3 == 0 and first > 10
    assert [local.holds(make_frame(i).stamp_ns) for i in (first - 1, first)] == [False, True]
    assert [file.path.name for file in local.files][0] == f"samples_{first // 3}.mcap"


def test_standing_still_costs_the_frames_that_look_alike(tmp_path: Path) -> None:
    local = open_set(tmp_path, replaces=True, record_keep=REDUNDANT)
    levels = [5 * i for i in range(6)] + [99] * 30 + [130 + 5 * i for i in range(6)]
    for index, level in enumerate(levels):
        fill(local, index, index + 1, level)
    local.close_file()
    kept = [index for index in range(len(levels)) if local.holds(make_frame(index).stamp_ns)]
    assert set(range(6)) | set(range(36, 42)) <= set(kept), "each of these looks different"
    assert 0 < len([i for i in kept if levels[i] == 99]) < 15
    reread = open_set(tmp_path, replaces=True)
    assert [reread.holds(make_frame(i).stamp_ns) for i in range(42)] == [i in kept for i in range(42)]


def test_many_files_are_not_thinned_but_lose_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fed_core.data.local_set.MAX_FILES", 2)
    local = open_set(tmp_path, replaces=True, record_keep=REDUNDANT)
    fill(local, 0, 9, 7)
    assert local.problem == ""
    fill(local, 9, 30, 7)
    assert {len(file) for file in local.files} == {3}
    told = "record_keep is redundant, but above 2 files the oldest goes; a larger segment_bytes makes fewer"
    assert local.problem == told
    monkeypatch.setattr("fed_core.data.local_set.MAX_FILES", 200)
    fill(local, 30, 34, 7)
    assert local.problem == "", "it makes room as it should again"
    assert MAX_FILES < 512, "a reader holds all of them open twice, and 1024 is a usual limit"


def test_a_frame_larger_than_the_set_is_no_frame_for_it(tmp_path: Path) -> None:
    local = open_set(tmp_path, replaces=True)
    big = make_frame(0, size=(300, 500))
    assert not local.add(big, grey(big))
    assert local.num_frames == 0 and used_bytes(tmp_path) == 0


def test_started_again_it_goes_on(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    fill(local, 0, 4)
    local.close_file()
    again = open_set(tmp_path)
    assert (again.num_frames, again.mended) == (4, "")
    fill(again, 4, 6)
    again.close_file()
    assert [file.path.name for file in again.files] == ["samples_0.mcap", "samples_1.mcap", "samples_2.mcap"]
    with Reader(tmp_path / "samples") as bag:
        assert bag.message_count == 18


def test_power_loss_while_a_file_is_written(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    fill(local, 0, 5)
    part = part_of(tmp_path / "samples" / "samples_1.mcap")
    os.truncate(part, 50_000)
    (tmp_path / "samples" / "metadata.yaml").write_text("rosbag2_bag")
    (tmp_path / "samples" / "samples_0.mcap.thinned.part").write_bytes(b"half")
    again = open_set(tmp_path)
    assert again.mended == "samples_1.mcap.part was cut off: its 1 whole frames are kept"
    assert again.num_frames == 4
    assert sorted(os.listdir(tmp_path / "samples")) == ["metadata.yaml", "samples_0.mcap", "samples_1.mcap"]
    with Reader(tmp_path / "samples") as bag:
        assert bag.message_count == 12


def test_compressed_files_stay_so_when_they_are_rewritten(tmp_path: Path) -> None:
    local = open_set(tmp_path, record_compression="zstd")
    fill(local, 0, 3)
    part = part_of(tmp_path / "samples" / "samples_0.mcap")
    (tmp_path / "samples" / "samples_1.mcap.part").write_bytes(part.read_bytes())
    again = open_set(tmp_path, record_compression="zstd")
    assert again.num_frames == 6 and again.size_bytes < 6 * 3 * 56 * 76, "less than the colour images alone"


def test_closed_file_that_is_torn_all_the_same(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    fill(local, 0, 7)
    local.close_file()
    os.truncate(tmp_path / "samples" / "samples_0.mcap", 50_000)
    (tmp_path / "samples" / "samples_1.mcap").write_bytes(b"")
    again = open_set(tmp_path)
    assert again.mended == (
        "samples_0.mcap was cut off: its 1 whole frames are kept; "
        "samples_1.mcap was cut off: its 0 whole frames are kept"
    )
    assert [len(file) for file in again.files] == [1, 1]


def test_a_file_of_somebody_else_costs_only_itself(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    fill(local, 0, 2)
    local.close_file()
    foreign = FrameFileWriter(tmp_path / "samples" / "samples_7.mcap")
    info, _, depth = raw_frame(make_frame(9)).messages
    foreign.add(RawFrame(9, (info, b"\0\1\0\0 no image", depth)), grey(make_frame(9)))
    again = open_set(tmp_path)
    assert again.num_frames == 2
    assert again.mended.startswith("samples_7.mcap.part was cut off and cannot be mended now: /camera/color/image_raw")
    fill(again, 2, 3)
    again.close_file()
    assert sorted(path.name for path in (tmp_path / "samples").glob("*.mcap*")) == [
        "samples_0.mcap",
        "samples_7.mcap.part",
        "samples_8.mcap",
    ]


def test_recording_of_an_older_version_counts(tmp_path: Path) -> None:
    bag = BagWriter(tmp_path / "samples")
    for index in range(3):
        bag.add(make_frame(index))
    bag.close()
    local = open_set(tmp_path)
    assert local.num_frames == 3
    local.add(make_frame(3), grey(make_frame(3)))
    local.close_file()
    assert indices(tmp_path / "samples") == [0, 1, 2, 3]


def test_snapshot_stays_while_the_set_goes_on(tmp_path: Path) -> None:
    local, snapshots = open_set(tmp_path, replaces=True), Snapshots(tmp_path / "snapshots")
    assert snapshots.newest is None
    for index in range(4):
        local.add(make_frame(index), grey(make_frame(index)))
    first = snapshots.take("run_1", local.settled_files())
    assert first == tmp_path / "snapshots" / "run_1" == Snapshots(tmp_path / "snapshots").newest
    fill(local, 4, 40)
    assert not local.holds(make_frame(0).stamp_ns), "it has made room since"
    assert indices(first) == [0, 1, 2, 3]
    assert snapshots.take("run_1", local.settled_files()) == first and indices(first) == [0, 1, 2, 3]
    second = snapshots.take("run_2", local.settled_files())
    assert os.listdir(tmp_path / "snapshots") == ["run_2"]
    with Reader(second) as bag:
        assert bag.message_count == 3 * local.num_frames


def test_enough_is_recorded_when_there_is_something_to_read(tmp_path: Path) -> None:
    assert not is_recorded(tmp_path)
    local, snapshots = open_set(tmp_path), Snapshots(tmp_path / "snapshots")
    fill(local, 0, 2)
    (tmp_path / "snapshots" / "half.part").mkdir(parents=True)
    assert not is_recorded(tmp_path)
    snapshots.take("recorded", local.settled_files())
    assert is_recorded(tmp_path)
    (tmp_path / "bus" / "samples" / "scenario").mkdir(parents=True)
    assert is_recorded(tmp_path / "bus"), "a vehicle's folder appears when it is complete"


def test_half_a_snapshot_is_none(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "run_1.part").mkdir(parents=True)
    assert Snapshots(tmp_path / "snapshots").newest is None
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_disk_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local, snapshots = open_set(tmp_path), Snapshots(tmp_path / "snapshots")
    local.add(make_frame(0), grey(make_frame(0)))

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(StoreError, match=r"the disk has no hard links; move state_dir to another one$"):
        snapshots.take("run_1", local.settled_files())
    assert list((tmp_path / "snapshots").iterdir()) == []


_FILLS_UP = """
import resource, signal, sys
from pathlib import Path
from fed_core.data.local_set import LocalSet, SetOptions
from fed_core.errors import StoreError
from tests.core.data.recorded import grey, indices, make_frame, raw_frame

resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # as a disk that takes no more
local = LocalSet(Path(sys.argv[1]) / "samples", 16_000_000, SetOptions(), replaces=False)
count = 0
try:
    while True:
        local.add(make_frame(count, size=(56, 76)), grey(make_frame(count)))
        count += 1
except StoreError as err:
    print(count, len(local.files), local.num_frames, err)
"""


def test_what_is_there_when_the_disk_is_full_can_be_read_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FILLS_UP, str(tmp_path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    count, files, frames, told = done.stdout.strip().split(" ", 3)
    assert int(count) == int(frames) > 3 and files == "1"
    assert told == f"cannot read or write {tmp_path}/samples/samples_0.mcap.part: File too large"
    assert sorted(os.listdir(tmp_path / "samples")) == ["metadata.yaml", "samples_0.mcap"]
    with Reader(tmp_path / "samples") as bag:
        assert bag.message_count == 3 * int(count)
    assert open_set(tmp_path).mended == ""


def record(local: LocalSet, numbers: range) -> None:
    for index in numbers:
        local.add(make_frame(index), grey(make_frame(index)))


def test_a_recording_opens_although_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = open_set(tmp_path)
    record(local, range(3))
    local.close_file()

    def no_space(path: Path, text: str) -> None:
        raise DiskFullError(f"no space is left for {path.name}")

    with monkeypatch.context() as full:
        full.setattr("fed_core.data.local_set.write_text", no_space)
        again = open_set(tmp_path)
    assert (again.num_frames, again.mended) == (3, "no space is left for metadata.yaml")
    record(again, range(3, 6))
    again.close_file()
    assert indices(tmp_path / "samples") == list(range(6))


def test_metadata_names_hashes_that_ros_knows(tmp_path: Path) -> None:
    local = open_set(tmp_path)
    fill(local, 0, 1)
    local.close_file()
    tree = yaml.safe_load((tmp_path / "samples" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    topics = [entry["topic_metadata"] for entry in tree["topics_with_message_count"]]
    assert all(topic["type_description_hash"].startswith("RIHS01_") for topic in topics)
    assert tree["files"][0]["path"] == tree["relative_file_paths"][0] == "samples_0.mcap"


def test_bounds() -> None:
    with pytest.raises(ConfigError, match="record_keep is 'newest'; choose one of oldest, redundant"):
        SetOptions(record_keep="newest")
