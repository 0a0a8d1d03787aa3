"""Fast DDS files that killed processes leave in shared memory; a clean stop leaves none.

A segment or a port ("fastdds_ab12", "fastdds_port7411") lives as long as somebody locks the file beside it ("_el"
exclusively, "_sl" shared). A port that a sender opened for a peer that was gone has no lock; it lives while it is
mapped.
"""

import fcntl
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_LOCKS = ("_el", "_sl")


def remove_dead_segments(folder: Path = SHARED_MEMORY) -> int:
    """Remove every Fast DDS file set without an owner; return how many there were."""
    dead = dead_segments(folder)
    for name in dead:
        remove_segment(name, folder)
    return len(dead)


def remove_dead_segment(name: str, folder: Path = SHARED_MEMORY) -> bool:
    """Remove one segment if its lock is there and nobody holds it; return whether it was removed."""
    if _is_locked(name, folder) is not False:
        return False
    remove_segment(name, folder)
    return True


def remove_segment(name: str, folder: Path = SHARED_MEMORY) -> None:
    """Remove a segment or port with its locks and its mutex."""
    for path in (folder / name, *(folder / f"{name}{lock}" for lock in _LOCKS), folder / f"sem.{name}_mutex"):
        path.unlink(missing_ok=True)


def dead_segments(folder: Path = SHARED_MEMORY) -> list[str]:
    """Return the names of all segments and ports without an owner, sorted."""
    files = {path.name for kind in ("fastdds", "fastrtps") for path in folder.glob(f"*{kind}_*")}
    names = sorted({_segment_of(file) for file in files})
    lockless = [name for name in names if _is_locked(name, folder) is None]
    mapped = _mapped_files() if lockless else set()
    free = {name for name in lockless if name not in mapped}
    return [name for name in names if name in free or _is_locked(name, folder) is False]


def _segment_of(file: str) -> str:
    name = file.removeprefix("sem.").removesuffix("_mutex")
    for lock in _LOCKS:
        name = name.removesuffix(lock)
    return name


def _is_locked(name: str, folder: Path) -> bool | None:
    """Return whether a living process holds a lock of the segment; None where it has no lock file."""
    found: bool | None = None
    for lock in _LOCKS:
        try:
            with (folder / f"{name}{lock}").open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = found or False
        except FileNotFoundError:
            continue
        except OSError:
            found = True
    return found


def _mapped_files() -> set[str]:
    """Return the names of all files that a process maps."""
    names: set[str] = set()
    for process in psutil.process_iter():
        try:
            names.update(Path(entry.path).name for entry in process.memory_maps())
        except (psutil.Error, OSError):
            continue
    return names
