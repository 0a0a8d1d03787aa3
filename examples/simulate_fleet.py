"""Two robots learn depth in one process, without ROS, on a few rendered frames.

Run: python examples/simulate_fleet.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

from fed_core.config import from_tree
from fed_core.fleet import FleetConfig
from fed_core.simulation import Simulation
from fed_models.toolbox import toolbox

FLEET = {
    "run": "example",
    "strategy": {"name": "fedavg"},
    "rounds": 1,
    "train": {"batch_size": 4},
    "robots": [
        {"id": "drone", "source": {"generated": {"platform": "uav", "environment": "forest", "frames": 4}}},
        {"id": "dog", "source": {"generated": {"platform": "legged", "environment": "indoor", "frames": 4}}},
    ],
}


def main(folder: Path) -> None:
    """Run the fleet in ``folder`` and print where its models are."""
    fleet = from_tree(FleetConfig, FLEET, "example")
    plan = Simulation(fleet, Path.cwd(), folder, toolbox(), threads=1).run()
    for name, blob in plan.blobs.items():
        print(f"{name}: {folder / 'blobs' / blob.digest}, {blob.size_bytes} bytes")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
