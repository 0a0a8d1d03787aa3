"""One process at a time works in a run's folder; two would count its rounds twice."""

import fcntl
from pathlib import Path
from typing import IO

from fed_core.errors import StoreError


def lock_run(folder: Path) -> IO[str]:
    """Return an open file that keeps other processes from the run until it is closed, or its process ends.

    Args:
        folder: the run's folder; made if missing.

    Raises:
        StoreError: another process has it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as err:
        raise StoreError(f"cannot make the run folder {folder}: {err.strerror}") from err
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        file.close()
        raise StoreError(f"another process runs in {folder}; wait until it ends, or use another folder") from err
    return file
