"""Plain Flower: FedAvg of flwr with a plain PyTorch client, the work that ``bench_simulate`` compares ours with.

Run: python benchmarks/flower_simulation.py FOLDER. The folder holds ``work.json`` (network, network_options, clients,
rounds, epochs, batch_size, lr, weight_decay, grad_clip, cpus, seed) and ``client_0.npz``, ... with the arrays image
(N, 3, H, W) float32, depth (N, 1, H, W) float32 and mask (N, 1, H, W) bool. The last line of its output is JSON:
seconds of the whole run, seconds and mean loss by round, and samples trained.
"""

import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.utils.data import DataLoader, TensorDataset

from fed_models.base import build


@functools.lru_cache
def samples(path: str) -> TensorDataset:
    """Return a client's samples, read once per process."""
    with np.load(path) as arrays:
        image, depth, mask = (torch.from_numpy(arrays[name]) for name in ("image", "depth", "mask"))
    size = (len(image), 1, *image.shape[-2:])
    return TensorDataset(image, depth.reshape(size), mask.reshape(size))


def fit(network: torch.nn.Module, dataset: TensorDataset, work: dict[str, Any]) -> float:
    """Train as a Flower user would; returns the mean loss of the steps."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=work["lr"], weight_decay=work["weight_decay"])
    losses = []
    network.train()
    for _ in range(work["epochs"]):
        for image, depth, mask in DataLoader(dataset, batch_size=work["batch_size"], shuffle=True):
            optimizer.zero_grad()
            loss = network.loss(network(image), depth, mask)  # type: ignore[operator]
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), work["grad_clip"])
            optimizer.step()
            losses.append(loss.item())
    return float(np.mean(losses))


def make_client(folder: str, work: dict[str, Any]) -> ClientApp:
    """Return the client app."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        network = build(work["network"], work["network_options"])
        network.load_state_dict(message.content["arrays"].to_torch_state_dict())
        dataset = samples(f"{folder}/client_{context.node_config['partition-id']}.npz")
        loss = fit(network, dataset, work)
        metrics = MetricRecord({"train_loss": loss, "num-examples": len(dataset)})
        content = RecordDict({"arrays": ArrayRecord(network.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


class TimedFedAvg(FedAvg):
    """Flower's FedAvg, which notes when a round begins and ends."""

    def __init__(self, clients: int) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
        self.began: list[float] = []
        self.ended: list[float] = []

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Any:
        """As Flower's."""
        self.began.append(time.perf_counter())
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        """As Flower's."""
        outcome = super().aggregate_train(server_round, replies)
        self.ended.append(time.perf_counter())
        return outcome


def main(folder: Path) -> dict[str, Any]:
    """Run the work of a folder and return its figures."""
    work = json.loads((folder / "work.json").read_text())
    strategy = TimedFedAvg(work["clients"])
    results: list[Any] = []
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        torch.manual_seed(work["seed"])
        network = build(work["network"], work["network_options"])
        results.append(strategy.start(grid, ArrayRecord(network.state_dict()), num_rounds=work["rounds"]))

    began = time.perf_counter()
    run_simulation(
        server,
        make_client(str(folder.absolute()), work),
        num_supernodes=work["clients"],
        backend_config={"init_args": {"num_cpus": work["cpus"]}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    seconds = time.perf_counter() - began
    metrics = results[0].train_metrics_clientapp
    losses = [float(metrics[number]["train_loss"]) for number in sorted(metrics)]
    if len(losses) < work["rounds"]:
        raise SystemExit(
            f"only {len(losses)} of {work['rounds']} rounds were trained; see the messages of Flower above"
        )
    total = sum(len(samples(str(path))) for path in folder.absolute().glob("client_*.npz"))
    return {
        "seconds": round(seconds, 3),
        "round_seconds": [round(end - start, 3) for start, end in zip(strategy.began, strategy.ended, strict=True)],
        "losses": losses,
        "samples": total * work["epochs"] * work["rounds"],
    }


if __name__ == "__main__":
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    # By its name, as Flower imports an app: its workers then find the very module, with the samples they have read.
    import flower_simulation

    print(json.dumps(flower_simulation.main(Path(sys.argv[1]))))
