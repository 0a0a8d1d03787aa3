"""FedCKA over Flower: two robots learn depth, each keeps the layers that differ from the other's.

Run: python examples/flower_app/fedcka_app.py [FOLDER], or with Flower's own command: flwr run examples/flower_app
"""

import sys
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fed_core.config import from_tree
from fed_core.fleet import FleetConfig
from fed_flower.app_config import robots_of
from fed_flower.client_app import client_app
from fed_flower.strategy import FedPerceptionStrategy

FOLDER = Path(sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else "runs/flower").absolute()
FLEET = {
    "run": "flower",
    "strategy": {"name": "fedcka"},
    "rounds": 2,
    "train": {"batch_size": 4},
    "robots": [
        {"id": "drone", "source": {"generated": {"platform": "uav", "environment": "forest", "frames": 4}}},
        {"id": "dog", "source": {"generated": {"platform": "legged", "environment": "indoor", "frames": 4}}},
    ],
}

fleet = from_tree(FleetConfig, FLEET, "example")
client = client_app(robots_of(fleet, Path.cwd(), FOLDER))
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train to the last round; a server that starts again goes on where it was."""
    strategy = FedPerceptionStrategy.from_fleet(fleet, FOLDER)
    strategy.start(grid, strategy.initial_arrays, num_rounds=strategy.rounds_left)


if __name__ == "__main__":
    from flwr.simulation import run_simulation

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client, num_supernodes=len(fleet.robots), backend_config=resources)
