"""Variables of the processes of a local fleet: one host, one ROS domain, few threads."""

import os
import random
import shutil
from pathlib import Path

from fed_cli.fleetrun.folder import shared_file
from fed_core.errors import ConfigError


def local_environment(folder: Path) -> dict[str, str]:
    """Return the variables; what the user has set himself stays."""
    domain = os.environ.get("ROS_DOMAIN_ID") or str(random.SystemRandom().randint(1, 100))
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
