"""Training throughput of the federated robot against a bare PyTorch loop: same network, same batches, side by side.

The robot's side is the whole training job of a round, as the trainer process runs it: network built, weights loaded,
batches made and augmented, progress told, update written. The bare loop gets finished batches. Both take turns, so that
what else the machine does hits both.
"""

import json
import os
import sys

# Before NumPy and PyTorch load: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from machine import machine  # noqa: E402

from fed_core.data.store import write_store  # noqa: E402
from fed_core.scenes import GeneratedSequence  # noqa: E402
from fed_core.tasks.base import tasks  # noqa: E402
from fed_core.training.jobs import run_job  # noqa: E402
from fed_core.types import DepthFrame  # noqa: E402
from fed_models import build  # noqa: E402
from fed_models.toolbox import toolbox  # noqa: E402

NETWORK = "adabins_s"
FRAMES = 96
BATCH_SIZE = 8
EPOCHS = 2
TURNS = 7
LR, WEIGHT_DECAY, GRAD_CLIP = 1e-3, 0.01, 1.0


class Robot:
    """A robot's trainer, in this process."""

    def __init__(self, folder: Path, frames: Path, device: str) -> None:
        self._toolbox = toolbox()
        self._arguments: dict[str, Any] = {
            "robot_id": "bench",
            "total_rounds": 100,
            "strategy": "fedavg",
            "strategy_options": {},
            "task": "depth",
            "network": NETWORK,
            "network_options": {},
            "load": {"global": str(folder / "initial.safetensors")},
            "extras": {},
            "values": {},
            "own": "",
            "memory": "",
            "seed": 0,
            "train": {"batch_size": BATCH_SIZE, "local_epochs": EPOCHS, "lr": LR, "device": device},
            "out_dir": str(folder / "out"),
            "source": {"data": str(frames)},
            "base": "",
        }
        start = {"network": NETWORK, "network_options": {}, "seed": 0, "out": str(folder / "initial.safetensors")}
        run_job("init", start, self._toolbox, lambda share, loss, speed: None)

    def train(self, num_round: int) -> int:
        """Train for one round; returns the samples."""
        arguments = {**self._arguments, "round": num_round}
        answer = run_job("train", arguments, self._toolbox, lambda share, loss, speed: None)
        return int(answer["num_samples"]) * EPOCHS


class BareLoop:
    """What anybody would write: batches that are there already, AdamW, clipped gradients."""

    def __init__(self, frames: Sequence[DepthFrame], device: torch.device) -> None:
        task = tasks.get("depth")()
        self._device, self._network = device, build(NETWORK, {}).to(device)
        dataset, rng = task.prepare(frames, self._network), np.random.default_rng(0)
        order = rng.permutation(len(dataset)).reshape(-1, BATCH_SIZE)
        self._batches = [task.batch(dataset, rows.tolist(), rng) for _ in range(EPOCHS) for rows in order]

    def train(self) -> int:
        """Train on all batches once; returns the samples."""
        network = self._network.train()
        optimizer = torch.optim.AdamW(network.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
        for batch in self._batches:
            image, depth, mask = (part.to(self._device) for part in batch)
            loss = network.loss(network(image), depth, mask)  # type: ignore[operator]
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), GRAD_CLIP)
            optimizer.step()
        return len(self._batches) * BATCH_SIZE


def samples_per_s(run: Callable[[], int], device: torch.device) -> tuple[float, float]:
    """Return the rate by the clock on the wall, and by the time that this process computed."""
    wall_s, own_s = time.perf_counter(), time.process_time()
    samples = run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return samples / (time.perf_counter() - wall_s), samples / (time.process_time() - own_s)


def measure(folder: Path, device: torch.device) -> dict[str, float]:
    """Return the figures."""
    sequence = GeneratedSequence("legged", "indoor", seed=1, num_frames=FRAMES, width=160, height=96)
    frames = write_store(sequence, folder / "frames", info={})
    robot = Robot(folder, frames, device.type)
    bare = BareLoop([sequence[i] for i in range(FRAMES)], device)
    robot.train(1), bare.train()  # opens and prepares; warms up
    rates = []
    for turn in range(TURNS):
        pair = [samples_per_s(bare.train, device), samples_per_s(lambda n=turn + 2: robot.train(n), device)]  # type: ignore[misc]
        rates.append(pair)
        print(f"bare {pair[0][0]:7.1f}/s   robot {pair[1][0]:7.1f}/s   {pair[1][0] / pair[0][0]:.3f}", flush=True)
    table = np.array(rates)  # turn, side, clock
    ratios = np.median(table[:, 1] / table[:, 0], axis=0)
    return {
        "client_vs_bare": round(float(ratios[0]), 3),
        "client_vs_bare_cpu_time": round(float(ratios[1]), 3),
        "client_samples_per_s": round(float(np.median(table[:, 1, 0])), 1),
        "bare_samples_per_s": round(float(np.median(table[:, 0, 0])), 1),
    }


def main() -> None:
    """Measure on the GPU where there is one, else on one core, and print one JSON line."""
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() and "--cpu" not in sys.argv else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), device)
    print(json.dumps({"bench": "depth_train", "figures": figures, "machine": {**machine(), "device": device.type}}))


if __name__ == "__main__":
    main()
