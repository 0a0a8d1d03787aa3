"""What killed processes leave in shared memory is told from what living ones use."""

import fcntl
import mmap
from collections.abc import Callable
from pathlib import Path

import pytest

from fed_cli.fleetrun.shared_memory import dead_segments, remove_dead_segment, remove_dead_segments


def files(folder: Path, name: str, *suffixes: str) -> Path:
    """Write a segment of one page with its mutex and lock files."""
    (folder / name).write_bytes(bytes(4096))
    (folder / f"sem.{name}_mutex").touch()
    for suffix in suffixes:
        (folder / f"{name}{suffix}").touch()
    return folder / name


@pytest.mark.parametrize("name", ["fastdds_00ab", "fastrtps_00ab", "fastdds_port7411"])
@pytest.mark.parametrize("suffixes", [("_el",), ("_sl",), ()])
def test_what_nobody_owns_is_removed_whole(tmp_path: Path, name: str, suffixes: tuple[str, ...]) -> None:
    files(tmp_path, name, *suffixes)
    (tmp_path / "somebody_elses").touch()

    assert dead_segments(tmp_path) == [name]
    assert remove_dead_segments(tmp_path) == 1

    assert [path.name for path in tmp_path.iterdir()] == ["somebody_elses"]


@pytest.mark.parametrize(("suffix", "lock"), [("_el", fcntl.LOCK_EX), ("_sl", fcntl.LOCK_SH)])
@pytest.mark.parametrize("remove", [remove_dead_segments, lambda folder: remove_dead_segment("fastdds_00ab", folder)])
def test_a_locked_segment_stays(tmp_path: Path, suffix: str, lock: int, remove: Callable[[Path], int]) -> None:
    files(tmp_path, "fastdds_00ab", suffix)
    with (tmp_path / f"fastdds_00ab{suffix}").open("r+b") as owner:
        fcntl.flock(owner, lock)

        assert dead_segments(tmp_path) == [] and not remove(tmp_path)

    assert len(list(tmp_path.iterdir())) == 3


def test_a_port_without_a_lock_stays_while_it_is_mapped(tmp_path: Path) -> None:
    port = files(tmp_path, "fastdds_port7411")
    with port.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert dead_segments(tmp_path) == []

    assert dead_segments(tmp_path) == ["fastdds_port7411"]
