"""Variables of the processes of a local fleet: one host, one ROS domain, few threads."""

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


def lock_domain() -> tuple[int, IO[str]]:
    """Return a ROS domain that no other fleet of this user has on this machine, and the open file that keeps it.

    Raises:
        ConfigError: all are taken.
    """
    folder = Path(tempfile.gettempdir()) / f"fed_perception_domains_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for number in random.SystemRandom().sample(range(1, 101), 100):
        file = (folder / str(number)).open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return number, file
    raise ConfigError(f"all 100 ROS domains are locked in {folder}; end other fleets, or set ROS_DOMAIN_ID")


def local_environment(folder: Path) -> dict[str, str]:
    """Return the variables; what the user has set himself stays. A domain that is chosen here is this process's own."""
    domain = os.environ.get("ROS_DOMAIN_ID", "")
    if not domain:
        number, lock = lock_domain()
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
