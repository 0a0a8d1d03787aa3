"""Parts of ``bench_simulate``, each a process of its own: ``python benchmarks/simulate_parts.py PART FOLDER [ENGINE]``.

The last line of its output is JSON.
"""

import json
import os
import sys

# Before NumPy and PyTorch load: one thread, as in every worker.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import time  # noqa: E402
from contextlib import ExitStack  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import psutil  # noqa: E402
import torch  # noqa: E402

from fed_core.data.open import SourceConfig  # noqa: E402
from fed_core.data.store import write_store  # noqa: E402
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry  # noqa: E402
from fed_core.roles.messages import FleetPlan  # noqa: E402
from fed_core.scenes import GeneratedSequence  # noqa: E402
from fed_core.simulation import Simulation  # noqa: E402
from fed_core.simulation.ray_cluster import RayOptions  # noqa: E402
from fed_core.simulation.ray_engine import RayEngine  # noqa: E402
from fed_core.strategies.base import LocalState, make_strategy  # noqa: E402
from fed_core.tasks.base import tasks  # noqa: E402
from fed_core.training.jobs import Toolbox, prepared_samples  # noqa: E402
from fed_core.training.local import train  # noqa: E402
from fed_core.training.options import TrainConfig  # noqa: E402
from fed_core.types import Memory  # noqa: E402

NETWORK, TOOLBOX = "adabins_s", "fed_models.toolbox:toolbox"
TINY, TINY_TOOLBOX = "tiny", "fed_core.testing.network:toolbox"
CLIENTS, FRAMES = 8, 48
TRAIN: dict[str, Any] = {
    "batch_size": 8, "local_epochs": 1, "lr": 1e-3, "weight_decay": 0.01, "grad_clip": 1.0,
    "schedule": "constant", "augment": False,
}  # fmt: skip
#: Of the part ``overhead``.
EPOCHS, ROUNDS = 1, 4
#: Of the part ``vs``.
VS_ROUNDS = 3
#: Of the part ``growth``; so many clients share a recording, each has frames of it.
MANY, MANY_ROUNDS, MANY_FRAMES, SHARED = 1000, 10, 4, 20


def write_recordings(folder: Path) -> None:
    """Render one drive for each client."""
    for number in range(CLIENTS):
        drive = GeneratedSequence("legged", "indoor", seed=number, num_frames=FRAMES, width=160, height=96)
        write_store(drive, folder / f"client_{number}", info={})


def fleet(rounds: int, epochs: int) -> FleetConfig:
    """Return eight clients, each with a recording of its own."""
    names = [f"client_{number}" for number in range(CLIENTS)]
    return FleetConfig(
        run="bench",
        robots=tuple(RobotEntry(name, SourceConfig(data=name)) for name in names),
        network=NamedOptions(NETWORK),
        strategy=NamedOptions("fedavg"),
        rounds=rounds,
        train={**TRAIN, "local_epochs": epochs},
    )


class Bare:
    """The trainer itself, called once for each client of a fleet with a network and samples that are there already."""

    def __init__(self, config: FleetConfig, base: Path, toolbox: Toolbox) -> None:
        self._task, self._train = tasks.get("depth")(), TrainConfig(**config.train)
        self._strategy = make_strategy(config.strategy.name, {})
        self._network = toolbox.build(NETWORK, {})
        self._signature = toolbox.signature(self._network, NETWORK)
        self._start = {name: tensor.clone() for name, tensor in self._network.state_dict().items()}
        sources = [SourceConfig(data=str(base / str(robot.recorded.data))) for robot in config.robots if robot.recorded]
        self._samples = [prepared_samples("depth", NETWORK, {}, self._network, source) for source in sources]

    def train(self) -> tuple[float, float]:
        """Train as every client; returns the seconds on the clock, and those that this process computed."""
        times = [self._client(number) for number in range(len(self._samples))]
        return sum(wall_s for wall_s, _ in times), sum(own_s for _, own_s in times)

    def _client(self, number: int) -> tuple[float, float]:
        self._network.load_state_dict(self._start)
        samples, network = self._samples[number], self._network
        state = LocalState(
            model=network, start=self._start, memory=Memory(), extras={}, values={}, num_samples=len(samples),
            signature=self._signature, lr=self._train.lr, batches=lambda count, size=8: iter(()),
            forward=self._task.forward, task_loss=lambda batch, outputs: self._task.loss(network, batch, outputs),
        )  # fmt: skip
        began = clocks()
        train(self._task, samples, self._train, self._strategy.local_rule(), state, seed=number)
        return since(began)


def clocks() -> tuple[float, float]:
    """Return the time on the clock and the time that this process computed [s]."""
    return time.perf_counter(), time.process_time()


def since(began: tuple[float, float]) -> tuple[float, float]:
    """Return what both clocks have gone on."""
    wall_s, own_s = clocks()
    return wall_s - began[0], own_s - began[1]


def overhead(folder: Path) -> dict[str, Any]:
    """Return seconds of every round, and of the bare trainings that took turns with them."""
    from fed_models.toolbox import toolbox

    tools = toolbox()
    torch.set_num_threads(1)
    config = fleet(ROUNDS + 1, EPOCHS)
    bare = Bare(config, folder, tools)
    bare.train()  # warms up
    rounds: list[tuple[float, float]] = []
    bares: list[tuple[float, float]] = []
    began = clocks()

    def turn(plan: FleetPlan) -> None:
        nonlocal began
        rounds.append(since(began))
        bares.append(bare.train())
        print(f"  round {rounds[-1][0]:.2f} s, bare {bares[-1][0]:.2f} s", file=sys.stderr, flush=True)
        began = clocks()

    Simulation(config, folder, folder / "overhead", tools, threads=1, on_plan=turn).run()
    # The first plan ends the start; the first round warms up.
    return {"rounds": rounds[2:], "bares": bares[1:]}


def memory_bytes() -> dict[str, int]:
    """Return anonymous and shared memory of this process and all below it; pages that many share count once."""
    this = psutil.Process()
    parts = {"driver": 0, "others": 0, "shared": 0}
    for process in [this, *this.children(recursive=True)]:
        try:
            lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:  # it ended just now
            continue
        pages = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        parts["driver" if process == this else "others"] += pages["Pss_Anon"]
        parts["shared"] += pages["Pss_Shmem"]
    return {**parts, "total": sum(parts.values())}


def growth(folder: Path, engine: str) -> dict[str, Any]:
    """Return the memory after every round of many tiny clients, and the seconds they took."""
    from fed_core.testing.network import toolbox, write_folder

    paths = [folder / f"many_{number}" for number in range(MANY // SHARED)]
    for seed, path in enumerate(paths if not paths[0].exists() else ()):
        write_folder(path, SHARED + MANY_FRAMES, seed=seed)
    entries = [
        RobotEntry(f"r{path.name}_{start}", SourceConfig(data=str(path), start=start, stop=start + MANY_FRAMES))
        for path in paths
        for start in range(SHARED)
    ]
    config = FleetConfig(
        run="many",
        robots=tuple(entries),
        network=NamedOptions(TINY),
        strategy=NamedOptions("fedavg"),
        rounds=MANY_ROUNDS,
        train={**TRAIN, "batch_size": 2},
    )
    memory: list[dict[str, int]] = []
    ends: list[float] = []

    def note(plan: FleetPlan) -> None:
        ends.append(time.perf_counter())
        memory.append(memory_bytes())
        print(f"{engine} round {len(ends) - 1}: {memory[-1]['total'] / 2**20:.0f} MiB", file=sys.stderr, flush=True)

    began_s = time.perf_counter()
    with ExitStack() as stack:
        ray = stack.enter_context(RayEngine(RayOptions(), TINY_TOOLBOX)) if engine == "ray" else None
        Simulation(config, folder, folder / f"many_{engine}", toolbox(), threads=1, on_plan=note, engine=ray).run()
    mib = [{name: round(size / 2**20, 1) for name, size in one.items()} for one in memory]
    seconds = np.diff([began_s, *ends]).round(2).tolist()
    return {"growth": memory[MANY_ROUNDS]["total"] / memory[2]["total"], "mib_by_round": mib, "seconds": seconds}


def write_for_flower(folder: Path, cpus: int) -> None:
    """Write the clients' samples in the network's size, and the work, for ``flower_simulation.py``."""
    from fed_models.toolbox import toolbox

    network, task = toolbox().build(NETWORK, {}), tasks.get("depth")()
    for number in range(CLIENTS):
        source = SourceConfig(data=str(folder / f"client_{number}"))
        samples = prepared_samples("depth", NETWORK, {}, network, source)
        batch = task.batch(samples, range(len(samples)))
        arrays = {name: getattr(batch, name).numpy() for name in ("image", "depth", "mask")}
        np.savez(folder / f"client_{number}.npz", **arrays)
    work = {"network": NETWORK, "network_options": {}, "clients": CLIENTS, "rounds": VS_ROUNDS, "cpus": cpus, "seed": 0}
    names = {"epochs": "local_epochs", **{name: name for name in ("batch_size", "lr", "weight_decay", "grad_clip")}}
    (folder / "work.json").write_text(json.dumps({**work, **{key: TRAIN[name] for key, name in names.items()}}))


def ours(folder: Path, engine: str) -> dict[str, Any]:
    """Return seconds of the work that Flower does, too: in all, and by round."""
    from fed_models.toolbox import toolbox

    ends: list[float] = []
    out = folder / f"ours_{engine}_{os.getpid()}"
    began_s = time.perf_counter()
    with ExitStack() as stack:
        cpus = len(os.sched_getaffinity(0))
        ray = stack.enter_context(RayEngine(RayOptions(workers=cpus), TOOLBOX)) if engine == "ray" else None
        see = lambda plan: ends.append(time.perf_counter())  # noqa: E731
        run = Simulation(fleet(VS_ROUNDS, 1), folder, out, toolbox(), threads=1, on_plan=see, engine=ray)
        run.run()
    losses = _losses(out)
    return {
        "seconds": round(time.perf_counter() - began_s, 3),
        "round_seconds": np.diff(ends).round(3).tolist(),
        "losses": losses,
        "samples": CLIENTS * FRAMES * VS_ROUNDS,
    }


def _losses(out: Path) -> list[float]:
    from fed_cli.fleetrun.runs import read_run

    robots = read_run(out).robots
    return [round(float(loss), 4) for loss in np.mean([robot.losses for robot in robots], axis=0)]


def main(part: str, folder: Path, *engine: str) -> dict[str, Any]:
    """Run a part and return its figures."""
    if part == "write":
        write_recordings(folder)
        write_for_flower(folder, len(os.sched_getaffinity(0)))
        return {}
    if part == "overhead":
        return overhead(folder)
    return growth(folder, engine[0]) if part == "growth" else ours(folder, engine[0])


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
