"""Variables of the processes of a local fleet: one host, one ROS domain, few threads."""

import contextlib
import fcntl
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import IO

from fed_cli.fleetrun.folder import shared_file
from fed_core.errors import ConfigError

#: Locks of the ROS domains that this process uses, until it ends.
_held: list[IO[str]] = []


def lock_domain(what: str = "") -> tuple[int, IO[str]]:
    """Return a ROS domain that no other fleet of this user has on this machine, and the open file that keeps it.

    Args:
        what: what :func:`running_fleets` tells of it; "" = nothing.

    Raises:
        ConfigError: all are taken.
    """
    folder = _domains()
    folder.mkdir(exist_ok=True)
    for number in random.SystemRandom().sample(range(1, 101), 100):
        file = (folder / str(number)).open("a")
        if _lock(file):
            file.truncate(0)
            file.write(what)
            file.flush()
            return number, file
        file.close()
    raise ConfigError(f"all 100 ROS domains are locked in {folder}; end other fleets, or set ROS_DOMAIN_ID")


def running_fleets() -> dict[int, str]:
    """Return the ROS domains of this user's demos that run on this machine now, each with its folder."""
    found = {}
    for path in _domains().glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError), path.open("r+") as file:
            if not _lock(file) and (what := file.read()):
                found[int(path.name)] = what
    return dict(sorted(found.items()))


def _domains() -> Path:
    return Path(tempfile.gettempdir()) / f"fed_perception_domains_{os.getuid()}"


def _lock(file: IO[str]) -> bool:
    """Lock a file until it is closed; return whether nobody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def local_environment(folder: Path, *, shown: bool = False) -> dict[str, str]:
    """Return the variables; what the user has set himself stays. A domain that is chosen here is this process's own.

    Args:
        folder: where logs go.
        shown: let :func:`running_fleets` tell of it.
    """
    domain = os.environ.get("ROS_DOMAIN_ID", "")
    if not domain:
        number, lock = lock_domain(str(folder.absolute()) if shown else "")
        _held.append(lock)
        domain = str(number)
    defaults = {
        "ROS_DOMAIN_ID": domain,
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "FASTDDS_DEFAULT_PROFILES_FILE": str(shared_file("config/fastdds/fleet.xml")),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    variables = {name: os.environ.get(name, value) for name, value in defaults.items()}
    variables["ROS_LOG_DIR"] = str((folder / "log" / "ros").absolute())
    return variables


def tether() -> list[str]:
    """Return the command prefix that ends a process together with its parent, however that ends."""
    program = shutil.which("setpriv")
    if program is None:
        raise ConfigError("the program setpriv is missing; install util-linux")
    return [program, "--pdeathsig", "KILL"]
