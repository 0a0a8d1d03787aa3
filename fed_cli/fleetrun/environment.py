"""Variables of the processes of a local fleet: one host, one ROS domain, few threads."""

import os
import random
from pathlib import Path

from fed_cli.fleetrun.folder import shared_file


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
