"""One local round of FedDWA with DALoss against one of FedAvg: same network, same batches, side by side.

``round_vs_fedavg`` takes the divergence from the steps themselves (``kld_source: running``), which DALoss measures
anyway: one further forward per step, so 4/3 where a backward costs two forwards. ``eval_pass`` measures it once more
after training, in two forwards of every sample: 2 at least. The methods take turns, so that what else the machine does
hits all of them.

``extra_copies`` counts the parameters that the method holds beside what FedAvg holds, the global model included.
"""

import json
import os
import sys

# Before NumPy and PyTorch load: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from machine import machine  # noqa: E402
from parameter_copies import extra_copies, make_countable  # noqa: E402

from fed_core.strategies.base import LocalState, Strategy, make_strategy  # noqa: E402
from fed_core.tasks.base import tasks  # noqa: E402
from fed_core.training.local import train  # noqa: E402
from fed_core.training.options import TrainConfig  # noqa: E402
from fed_core.types import BevFrame, Memory  # noqa: E402
from fed_models import build  # noqa: E402
from fed_models.base import signature  # noqa: E402

NETWORK = "fax_tiny"
FRAMES, CAMERAS, BATCH_SIZE, TURNS = 64, 4, 4, 7
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", {}),
    "round": ("daloss", {"inner": "feddwa", "inner_options": {"kld_source": "running"}}),
    "eval_pass": ("daloss", {"inner": "feddwa"}),
}


def frames(count: int) -> Iterator[BevFrame]:
    """Yield frames of noise from the car's four cameras."""
    rng = np.random.default_rng(0)
    poses = np.tile(np.eye(4), (CAMERAS, 1, 1))
    poses[:, :3, 3] = rng.normal(0.0, 1.0, (CAMERAS, 3))
    for index in range(count):
        yield BevFrame(
            cameras=tuple(range(CAMERAS)),
            images=tuple(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8) for _ in range(CAMERAS)),
            intrinsics=np.tile(np.array([[27.0, 0, 32], [0, 36.0, 32], [0, 0, 1]]), (CAMERAS, 1, 1)),
            extrinsics=poses,
            mask=rng.random((32, 32)) < 0.05,
            known=np.ones((32, 32), bool),
            metres_per_cell=3.125,
            stamp_ns=index,
            vehicle="bench",
        )


class Robot:
    """Trains one round after the other, and remembers what its rule does."""

    def __init__(self, strategy: Strategy, dataset: Any, device: torch.device) -> None:
        self._strategy, self._dataset, self._device = strategy, dataset, device
        self._task, self._memory = tasks.get("bev")(), Memory()
        self._config = TrainConfig(batch_size=BATCH_SIZE, augment=False, device=device.type)

    def round(self, number: int) -> tuple[float, float]:
        """Train for one round; returns its time by the clock on the wall and by the processor."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            network = build(NETWORK, {}).to(self._device)
        state = LocalState(
            model=network,
            start={name: tensor.detach().clone() for name, tensor in network.state_dict().items()},
            memory=self._memory,
            extras={},
            values={"round": number, "counted": 0},
            num_samples=len(self._dataset),
            signature=signature(network, NETWORK),
            lr=1e-3,
            batches=self._batches,
            forward=self._task.forward,
        )
        wall_s, own_s = time.perf_counter(), time.process_time()
        outcome = train(self._task, self._dataset, self._config, self._strategy.local_rule(), state, seed=number)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        times = time.perf_counter() - wall_s, time.process_time() - own_s
        self._memory = outcome.result.memory
        return times

    def _batches(self, count: int) -> Iterator[Any]:
        for low in range(0, count, BATCH_SIZE):
            indexes = range(low, min(low + BATCH_SIZE, count))
            yield self._task.move(self._task.batch(self._dataset, indexes), self._device)


def measure(device: torch.device) -> dict[str, float]:
    """Return the figures."""
    dataset = tasks.get("bev")().prepare(frames(FRAMES), build(NETWORK, {}))
    robots = {name: Robot(make_strategy(*method), dataset, device) for name, method in METHODS.items()}
    for robot in robots.values():
        robot.round(1)  # warms up
    rows = []
    for turn in range(TURNS):
        rows.append([robot.round(turn + 2) for robot in robots.values()])
        print("  ".join(f"{n} {t[0]:.2f} s" for n, t in zip(robots, rows[-1], strict=True)), flush=True)
    table = np.array(rows)  # turn, method, clock
    ratios = np.median(table / table[:, :1], axis=0)
    return {
        "round_vs_fedavg": round(float(ratios[1, 0]), 3),
        "round_vs_fedavg_cpu_time": round(float(ratios[1, 1]), 3),
        "eval_pass": round(float(ratios[2, 0]), 3),
        "eval_pass_cpu_time": round(float(ratios[2, 1]), 3),
        "fedavg_round_s": round(float(np.median(table[:, 0, 0])), 3),
    }


def main() -> None:
    """Measure on the GPU where there is one, else on one core, and print one JSON line."""
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() and "--cpu" not in sys.argv else "cpu")
    figures = measure(device)
    if device.type == "cpu":
        make_countable()
        figures["extra_copies"] = round(extra_copies({"kld_source": "running"}), 2)
    print(json.dumps({"bench": "feddwa", "figures": figures, "machine": {**machine(), "device": device.type}}))


if __name__ == "__main__":
    main()
