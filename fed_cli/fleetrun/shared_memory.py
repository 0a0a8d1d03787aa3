"""Fast DDS segments that killed processes leave in shared memory; a clean stop leaves none."""

import fcntl
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108


def remove_dead_segment(name: str, folder: Path = SHARED_MEMORY) -> bool:
    """Remove a Fast DDS segment if no living process holds the lock beside it; return whether it was removed."""
    lock = folder / f"{name}_el"
    try:
        with lock.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in (folder / name, lock, folder / f"sem.{name}_mutex"):
                path.unlink(missing_ok=True)
    except OSError:
        return False  # held by another participant, or gone already
    return True


def remove_dead_segments(folder: Path = SHARED_MEMORY) -> int:
    """Remove every Fast DDS segment without an owner; return how many there were."""
    names = [path.name.removesuffix("_el") for path in folder.glob("fast*_*_el")]
    return sum(remove_dead_segment(name, folder) for name in names)
